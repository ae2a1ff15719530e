//! A directory of this machine, such as that of a web server.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use super::{Finished, Present, PublishError, Published, Stamp, io};
use crate::site::output;

pub(super) fn present(path: &Path) -> Result<Present, PublishError> {
    let read = |file: &str| match fs::read_to_string(path.join(file)) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(io("read", &path.join(file))(source)),
    };
    let mut all = BTreeSet::new();
    if path.exists() {
        for entry in walkdir::WalkDir::new(path).min_depth(1) {
            let entry = entry.map_err(|error| io("read", path)(error.into()))?;
            if !entry.file_type().is_dir() {
                let relative = entry.path().strip_prefix(path).unwrap_or(entry.path());
                all.insert(relative.to_string_lossy().into_owned());
            }
        }
    }
    Present::new(&path.display().to_string(), read(output::MARKER)?.as_deref(), read(Stamp::FILE)?.as_deref(), all)
}

/// Copies the files, each appearing whole, the first page last; then removes those of the last site that are left.
pub(super) fn publish(next: &Finished<'_>, path: &Path, present: &Present) -> Result<Published, PublishError> {
    fs::create_dir_all(path).map_err(io("make", path))?;
    let same =
        |one: &Path, other: &Path| one.canonicalize().ok().zip(other.canonicalize().ok()).is_some_and(|(a, b)| a == b);
    if same(path, next.directory) {
        return Err(PublishError::Itself { path: path.to_owned() });
    }
    // Whatever happens now, all that is ours is known to be.
    let known: BTreeSet<&String> = present.ours.union(&next.files).collect();
    let marker = output::marker(known.into_iter().map(String::as_str).filter(|file| *file != output::MARKER));
    save(&path.join(output::MARKER), marker.as_bytes())?;
    let last = |file: &String| (file.as_str() == "index.html", file.as_str() == Stamp::FILE);
    let mut files: Vec<&String> = next.files.iter().filter(|file| *file != output::MARKER).collect();
    files.sort_by_key(|file| last(file));
    for file in files {
        let source = next.directory.join(file);
        let bytes = fs::read(&source).map_err(io("read", &source))?;
        let to = path.join(file);
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).map_err(io("make", parent))?;
        }
        save(&to, &bytes)?;
    }
    remove(path, &present.obsolete(next))?;
    let source = next.directory.join(output::MARKER);
    save(&path.join(output::MARKER), &fs::read(&source).map_err(io("read", &source))?)?;
    Ok(Published::Done)
}

/// Removes files, and the directories that are empty without them.
fn remove(path: &Path, files: &[String]) -> Result<(), PublishError> {
    for file in files {
        let gone = path.join(file);
        match fs::remove_file(&gone) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io("remove", &gone)(error)),
            _ => {}
        }
        for parent in gone.ancestors().skip(1).take_while(|parent| *parent != path) {
            if fs::remove_dir(parent).is_err() {
                break;
            }
        }
    }
    Ok(())
}

/// Writes a file under another name and renames it, unless it has that content already.
fn save(path: &Path, bytes: &[u8]) -> Result<(), PublishError> {
    if fs::read(path).is_ok_and(|known| known == bytes) {
        return Ok(());
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let unfinished = path.with_file_name(format!(".{name}.regtrack-new"));
    fs::write(&unfinished, bytes).map_err(io("write", &unfinished))?;
    fs::rename(&unfinished, path).map_err(io("write", path))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{put, site, stamp};
    use super::super::{Destination, publish};
    use super::*;

    fn tree(root: &Path) -> Vec<String> {
        let files = walkdir::WalkDir::new(root).min_depth(1).sort_by_file_name().into_iter().map(Result::unwrap);
        files.map(|entry| entry.path().strip_prefix(root).unwrap().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn own_files_are_replaced_and_removed_and_others_stay() {
        let root = tempfile::tempdir().unwrap();
        let www = root.path().join("www");
        let to = Destination::Directory(www.clone());
        let first = site(&[("index.html", "one"), ("bench/a.html", "a")], &stamp(1, &[("17", 2)]));
        assert_eq!(put(&first, &to).unwrap(), Published::Done);
        fs::write(www.join("CNAME"), "example.org").unwrap();
        let second = site(&[("index.html", "two"), ("week/2026-W49.html", "w")], &stamp(2, &[("17", 2)]));
        put(&second, &to).unwrap();
        assert_eq!(
            tree(&www),
            [".regtrack-site", "CNAME", "index.html", "regtrack-site.json", "week", "week/2026-W49.html"]
        );
        assert_eq!(fs::read_to_string(www.join("index.html")).unwrap(), "two");
        // The older site again: the guard holds, until it is told not to.
        let error = put(&first, &to).unwrap_err();
        assert!(matches!(error, PublishError::Older { .. }), "{error}");
        publish(&first.path().join("site"), &to, true).unwrap();
        assert!(www.join("bench/a.html").exists() && !www.join("week").exists() && www.join("CNAME").exists());
    }

    #[test]
    fn a_foreign_directory_and_a_file_in_the_way_are_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let one = site(&[("index.html", "one")], &stamp(1, &[]));
        fs::create_dir(root.path().join("photos")).unwrap();
        fs::write(root.path().join("photos/cat.jpg"), "meow").unwrap();
        let photos = Destination::Directory(root.path().join("photos"));
        let message = put(&one, &photos).unwrap_err().to_string();
        assert!(message.contains("holds 'cat.jpg' and no site of regtrack"), "{message}");
        assert_eq!(tree(&root.path().join("photos")), ["cat.jpg"]);

        let www = Destination::Directory(root.path().join("www"));
        put(&one, &www).unwrap();
        fs::write(root.path().join("www/about.html"), "mine").unwrap();
        let with_about = site(&[("index.html", "two"), ("about.html", "ours")], &stamp(2, &[]));
        let message = put(&with_about, &www).unwrap_err().to_string();
        assert!(message.starts_with("'about.html' in"), "{message}");
        assert_eq!(fs::read_to_string(root.path().join("www/index.html")).unwrap(), "one");
        let itself = Destination::Directory(one.path().join("site"));
        assert!(matches!(put(&one, &itself), Err(PublishError::Itself { .. })));
    }
}
