//! Build variants: with which flags, features and compiler a server is compiled.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Major;

/// How a person names a variant: `o2`, `o3+lz4`, `o2@clang`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariantName {
    /// The variant's own name in the catalogue.
    pub name: String,
    /// Features beyond those of the variant itself.
    pub features: BTreeSet<String>,
    /// Program name or path of the compiler; `None` for the machine's own.
    pub compiler: Option<String>,
}

impl VariantName {
    /// The variant that is compared unless another is named.
    pub const DEFAULT: &str = "o2";

    /// Whether this is the default variant as it is.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for VariantName {
    fn default() -> Self {
        Self { name: Self::DEFAULT.to_owned(), features: BTreeSet::new(), compiler: None }
    }
}

impl FromStr for VariantName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (rest, compiler) = match text.split_once('@') {
            Some((rest, compiler)) => (rest, Some(compiler)),
            None => (text, None),
        };
        let mut words = rest.split('+');
        let name = words.next().unwrap_or_default();
        let features: BTreeSet<&str> = words.collect();
        let is_word = |word: &str| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        // The compiler ends up in shell commands of PostgreSQL's makefiles.
        let is_program = |word: &str| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._+-".contains(&byte))
        };
        if !is_word(name) || !features.iter().all(|word| is_word(word)) || !compiler.is_none_or(is_program) {
            return Err(format!(
                "'{text}' is not a build variant (NAME, NAME+FEATURE or NAME@COMPILER: o3, o2+lz4, o2@clang)"
            ));
        }
        Ok(Self {
            name: name.to_owned(),
            features: features.into_iter().map(str::to_owned).collect(),
            compiler: compiler.map(str::to_owned),
        })
    }
}

impl fmt::Display for VariantName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.features.iter().try_for_each(|feature| write!(f, "+{feature}"))?;
        self.compiler.iter().try_for_each(|compiler| write!(f, "@{compiler}"))
    }
}

impl Serialize for VariantName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for VariantName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Which of PostgreSQL's two build systems is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BuildSystem {
    /// `configure` and make, which every release has.
    #[default]
    Make,
    /// Meson and Ninja, from 16 on.
    Meson,
}

/// A variant with everything that its name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// How it was named.
    pub name: VariantName,
    /// What it is built by.
    pub system: BuildSystem,
    /// Compiler flags, in front of the compatibility flags that all variants have.
    pub cflags: Vec<String>,
    /// Arguments of `configure`.
    pub configure: Vec<String>,
    /// The features that are on, with what they need.
    pub on: Vec<Feature>,
    /// The others: off by arguments of their own where a release would have them on.
    pub off: Vec<Feature>,
}

/// Something that PostgreSQL can be compiled with or without.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// Its name: `lz4`.
    pub name: String,
    /// What it is, in one line.
    pub about: String,
    /// The first major that has it; absent for all.
    #[serde(default)]
    pub from: Option<Major>,
    /// Arguments of `configure` that turn it on.
    pub on: Vec<String>,
    /// Its option of Meson, which is off unless enabled.
    pub meson: String,
    /// Arguments of `configure` that turn it off, for majors that have it on by themselves.
    #[serde(default)]
    pub off: Vec<String>,
    /// The first major that has it on by itself; absent for all.
    #[serde(default)]
    pub off_from: Option<Major>,
    /// What has to be on the machine.
    #[serde(rename = "need", default)]
    pub needs: Vec<Need>,
    /// Further directories of the source that have to be made and installed.
    #[serde(default)]
    pub parts: Vec<String>,
}

impl Feature {
    /// Whether a major has it at all.
    #[must_use]
    pub fn is_in(&self, major: Major) -> bool {
        self.from.is_none_or(|from| from <= major)
    }

    /// The arguments that keep it out of a major.
    #[must_use]
    pub fn declined(&self, major: Major) -> &[String] {
        if self.off_from.is_none_or(|from| from <= major) { &self.off } else { &[] }
    }
}

/// A program or a library that a feature needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Need {
    /// The program, by name.
    #[serde(default)]
    pub program: Option<String>,
    /// The library, as pkg-config calls it.
    #[serde(default)]
    pub library: Option<String>,
    /// The Debian package that has it.
    pub package: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_print_as_they_are_written() {
        for text in ["o2", "o3", "o2+lz4", "o2+icu+lz4", "native@clang", "o2+zstd@/usr/bin/gcc-13"] {
            assert_eq!(text.parse::<VariantName>().unwrap().to_string(), text);
        }
        assert_eq!("o2+lz4+icu".parse::<VariantName>().unwrap().to_string(), "o2+icu+lz4", "features have one order");
        assert!("o2".parse::<VariantName>().unwrap().is_default());
        assert!(!"o2@gcc".parse::<VariantName>().unwrap().is_default());
        for text in ["", "+lz4", "o2+", "o2@", "O2", "o2@gcc -O3", "o2@$(x)", "o2 "] {
            assert!(text.parse::<VariantName>().is_err(), "{text:?}");
        }
    }
}
