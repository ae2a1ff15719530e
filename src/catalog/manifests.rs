//! The files of a catalogue as texts: read, edited and written without losing a comment.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};

use super::CatalogError;
use super::versions::{self, Catalogue};
use crate::domain::{Major, MajorRelease};

static BUILTIN: Dir = include_dir!("$CARGO_MANIFEST_DIR/versions");

/// One manifest per major.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifests {
    /// Where they are from; `versions` for those that are built in.
    directory: PathBuf,
    /// Text by file name.
    files: BTreeMap<String, String>,
}

impl Manifests {
    /// Those that come with the program.
    #[must_use]
    pub fn builtin() -> Self {
        let files = BUILTIN.files().filter(|file| is_manifest(file.path())).filter_map(|file| {
            let name = file.path().to_str()?.to_owned();
            Some((name, file.contents_utf8()?.to_owned()))
        });
        Self { directory: PathBuf::from("versions"), files: files.collect() }
    }

    #[cfg(test)]
    pub(super) fn of_texts(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        Self { directory: PathBuf::from("mine"), files }
    }

    /// Those in a directory, `<major>.toml` each; other files are ignored.
    pub fn read(directory: &Path) -> Result<Self, CatalogError> {
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(directory).map_err(read(directory))? {
            let path = entry.map_err(read(directory))?.path();
            if is_manifest(&path) {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                files.insert(name, fs::read_to_string(&path).map_err(read(&path))?);
            }
        }
        Ok(Self { directory: directory.to_owned(), files })
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// What they say.
    pub fn catalogue(&self) -> Result<Catalogue, CatalogError> {
        let majors = self.files.iter().map(|(name, text)| self.parse(name, text));
        Catalogue::from_majors(majors.collect::<Result<_, _>>()?, &self.directory)
    }

    /// Reads a text as the manifest `name`.
    pub(super) fn parse(&self, name: &str, text: &str) -> Result<MajorRelease, CatalogError> {
        versions::parse(text, Path::new(name), &self.file(name))
    }

    /// How errors call a manifest.
    pub(super) fn file(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    /// Name and text of a major's manifest.
    pub(super) fn of(&self, major: Major) -> Option<(&str, &str)> {
        let (name, text) = self.files.get_key_value(&format!("{major}.toml"))?;
        Some((name, text))
    }

    /// Takes another text for a manifest.
    pub(super) fn set(&mut self, name: &str, text: String) {
        self.files.insert(name.to_owned(), text);
    }

    /// Writes those of these manifests into their directory. Each is replaced by one rename.
    pub fn replace<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<(), CatalogError> {
        names.into_iter().try_for_each(|name| match self.files.get(name) {
            Some(text) => save(&self.directory.join(name), text),
            None => Ok(()),
        })
    }

    /// Writes all of them into a directory that does not exist or is empty. It appears filled, by one rename.
    pub fn fill(&self, directory: &Path) -> Result<(), CatalogError> {
        // Resolved, so that `.` and links can be replaced too.
        let place = match directory.canonicalize() {
            Ok(place) => place,
            Err(_) => std::path::absolute(directory).map_err(write(directory))?,
        };
        let parent = place.parent().unwrap_or(&place);
        fs::create_dir_all(parent).map_err(write(parent))?;
        let work = tempfile::Builder::new().prefix(".regtrack-versions-").tempdir_in(parent).map_err(write(parent))?;
        self.files.iter().try_for_each(|(name, text)| save(&work.path().join(name), text))?;
        fs::set_permissions(work.path(), Permissions::from_mode(0o755)).map_err(write(directory))?;
        fs::rename(work.path(), &place).map_err(write(directory))
    }
}

/// Writes a file under a temporary name, flushes it and renames it. A file that is replaced keeps its permissions.
fn save(path: &Path, text: &str) -> Result<(), CatalogError> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let mode = fs::metadata(path).map_or_else(|_| Permissions::from_mode(0o644), |metadata| metadata.permissions());
    let mut file = tempfile::NamedTempFile::new_in(directory).map_err(write(path))?;
    file.write_all(text.as_bytes()).map_err(write(path))?;
    file.as_file().set_permissions(mode).map_err(write(path))?;
    file.as_file().sync_all().map_err(write(path))?;
    file.persist(path).map_err(|error| write(path)(error.error))?;
    Ok(())
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "toml")
}

/// For `map_err`: what could not be read.
pub(super) fn read(path: &Path) -> impl FnOnce(std::io::Error) -> CatalogError + use<> {
    let path = path.to_owned();
    move |source| CatalogError::Read { path, source }
}

/// For `map_err`: what could not be written.
fn write(path: &Path) -> impl FnOnce(std::io::Error) -> CatalogError + use<> {
    let path = path.to_owned();
    move |source| CatalogError::Write { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_filled_at_once_and_files_are_replaced() {
        let home = tempfile::tempdir().unwrap();
        for directory in [home.path().join("deep/new"), home.path().join("empty")] {
            fs::create_dir_all(home.path().join("empty")).unwrap();
            Manifests::builtin().fill(&directory).unwrap();
            let mut manifests = Manifests::read(&directory).unwrap();
            assert_eq!(manifests.files, Manifests::builtin().files);
            let metadata = fs::metadata(directory.join("17.toml")).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, 0o644);

            fs::set_permissions(directory.join("17.toml"), Permissions::from_mode(0o640)).unwrap();
            manifests.set("17.toml", "new".to_owned());
            manifests.set("18.toml", "new".to_owned());
            manifests.replace(["17.toml"]).unwrap();
            assert_eq!(fs::read_to_string(directory.join("17.toml")).unwrap(), "new");
            assert_ne!(fs::read_to_string(directory.join("18.toml")).unwrap(), "new");
            let metadata = fs::metadata(directory.join("17.toml")).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, 0o640);
            let count = fs::read_dir(&directory).unwrap().count();
            assert_eq!(count, manifests.files.len(), "no temporary file stays");
        }
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_is_not_empty_is_not_filled() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("mine"), "").unwrap();
        let message = Manifests::builtin().fill(home.path()).unwrap_err().to_string();
        assert_eq!(message, format!("could not write {}", home.path().display()));
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }
}
