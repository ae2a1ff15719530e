//! Build variants: from `variants.toml` to what a name such as `o3+lz4@clang` stands for.

use serde::{Deserialize, Serialize};

use super::{CatalogError, nearest};
use crate::domain::{BuildSystem, Feature, Variant, VariantName};

const BUILTIN: &str = include_str!("variants.toml");

/// The variants and features that can be named.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variants {
    #[serde(rename = "variant")]
    variants: Vec<Entry>,
    #[serde(rename = "feature")]
    features: Vec<Feature>,
}

/// A variant as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// What it is, in one line.
    pub about: String,
    /// What it is built by.
    #[serde(default)]
    pub system: BuildSystem,
    /// Compiler flags.
    pub cflags: Vec<String>,
    /// Further arguments of `configure`.
    #[serde(default)]
    pub configure: Vec<String>,
    /// Features that are on.
    #[serde(default)]
    pub features: Vec<String>,
}

impl Variants {
    /// Those that come with the program.
    pub fn builtin() -> Result<Self, CatalogError> {
        let file = || "src/catalog/variants.toml".to_owned();
        let variants: Self =
            toml::from_str(BUILTIN).map_err(|source| CatalogError::Parse { file: file(), source: Box::new(source) })?;
        for entry in &variants.variants {
            entry.features.iter().try_for_each(|feature| variants.feature(feature).map(drop))?;
        }
        Ok(variants)
    }

    /// All variants, the default first.
    #[must_use]
    pub fn variants(&self) -> &[Entry] {
        &self.variants
    }

    /// All features.
    #[must_use]
    pub fn features(&self) -> &[Feature] {
        &self.features
    }

    /// What a name stands for.
    pub fn resolve(&self, name: &VariantName) -> Result<Variant, CatalogError> {
        let names = || self.variants.iter().map(|entry| entry.name.as_str());
        let Some(entry) = self.variants.iter().find(|entry| entry.name == name.name) else {
            return Err(unknown("build variant", &name.name, names()));
        };
        name.features.iter().try_for_each(|feature| self.feature(feature).map(drop))?;
        let is_on = |feature: &Feature| entry.features.contains(&feature.name) || name.features.contains(&feature.name);
        let (on, off) = self.features.iter().cloned().partition(is_on);
        let Entry { system, cflags, configure, .. } = entry.clone();
        Ok(Variant { name: name.clone(), system, cflags, configure, on, off })
    }

    fn feature(&self, name: &str) -> Result<&Feature, CatalogError> {
        let names = || self.features.iter().map(|feature| feature.name.as_str());
        self.features.iter().find(|feature| feature.name == name).ok_or_else(|| unknown("feature", name, names()))
    }
}

fn unknown<'a>(kind: &'static str, name: &str, known: impl Iterator<Item = &'a str> + Clone) -> CatalogError {
    CatalogError::UnknownVariant {
        kind,
        name: name.to_owned(),
        nearest: nearest(name, known.clone()),
        known: known.map(str::to_owned).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::domain::Major;

    fn resolve(text: &str) -> Result<Variant, CatalogError> {
        Variants::builtin().unwrap().resolve(&text.parse().unwrap())
    }

    fn names(features: &[Feature]) -> BTreeSet<&str> {
        features.iter().map(|feature| feature.name.as_str()).collect()
    }

    #[test]
    fn the_default_comes_first_and_has_every_feature_off() {
        let variants = Variants::builtin().unwrap();
        assert_eq!(variants.variants()[0].name, VariantName::DEFAULT);
        let variant = resolve("o2").unwrap();
        assert_eq!(variant.cflags, ["-O2", "-fno-omit-frame-pointer", "-g"]);
        assert!(variant.on.is_empty());
        assert_eq!(variant.off.len(), variants.features().len());
    }

    #[test]
    fn features_of_the_variant_and_of_the_name_are_on() {
        let variant = resolve("jit+lz4").unwrap();
        assert_eq!(names(&variant.on), BTreeSet::from(["llvm", "lz4"]));
        assert!(!names(&variant.off).contains("lz4"));
    }

    #[test]
    fn icu_is_declined_where_it_would_be_on() {
        let variants = Variants::builtin().unwrap();
        let icu = variants.feature("icu").unwrap();
        assert_eq!(icu.declined(Major::new(16, 0)), ["--without-icu"]);
        assert!(icu.declined(Major::new(15, 0)).is_empty());
        assert!(icu.is_in(Major::new(10, 0)) && !icu.is_in(Major::new(9, 6)));
    }

    #[test]
    fn unknown_names_are_answered_with_those_that_there_are() {
        let error = resolve("o4").unwrap_err().to_string();
        assert!(error.contains("no build variant 'o4'") && error.contains("o2, o3, native"), "{error}");
        let error = resolve("o2+lz").unwrap_err().to_string();
        assert!(error.contains("no feature 'lz'") && error.contains("lz4"), "{error}");
    }

    #[test]
    fn names_are_unique_and_everything_is_described() {
        let variants = Variants::builtin().unwrap();
        let all: Vec<(&str, &str)> = (variants.variants.iter().map(|entry| (&*entry.name, &*entry.about)))
            .chain(variants.features.iter().map(|feature| (&*feature.name, &*feature.about)))
            .collect();
        let unique: BTreeSet<&str> = all.iter().map(|(name, _)| *name).collect();
        assert_eq!(unique.len(), all.len());
        assert!(all.iter().all(|(_, about)| !about.trim().is_empty()));
        assert!(variants.features.iter().all(|feature| !feature.on.is_empty()));
    }
}
