//! Unpacks tar archives, and nothing outside of the directory they are unpacked into.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::{Component, Path};

use super::error::{BuildError, io};

/// Unpacks a bzip2, gzip or plain tar archive into `directory`, which exists. File times are kept:
/// PostgreSQL's archives rely on generated files being newer than what they were made from.
pub(super) fn unpack(archive: &Path, directory: &Path) -> Result<(), BuildError> {
    let mut file = File::open(archive).map_err(io("open", archive))?;
    let mut magic = [0; 262];
    let length = read_up_to(&mut file, &mut magic).map_err(io("read", archive))?;
    file.rewind().map_err(io("read", archive))?;
    let file = BufReader::with_capacity(1 << 16, file);
    let stream: Box<dyn Read> = match &magic[..length] {
        [b'B', b'Z', b'h', ..] => Box::new(bzip2::read::MultiBzDecoder::new(file)),
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(file)),
        [.., b'u', b's', b't', b'a', b'r'] => Box::new(file),
        _ => return Err(BuildError::ArchiveKind { path: archive.to_owned() }),
    };
    for entry in tar::Archive::new(stream).entries().map_err(io("read", archive))? {
        let mut entry = entry.map_err(io("read", archive))?;
        let path = entry.path().map_err(io("read", archive))?.into_owned();
        let link = entry.link_name().map_err(io("read", archive))?;
        let safe = is_inside(&path) && link.is_none_or(|target| link_stays_inside(&path, &target));
        if !safe || !entry.unpack_in(directory).map_err(io("unpack", archive))? {
            return Err(BuildError::UnsafePath { archive: archive.to_owned(), entry: path.display().to_string() });
        }
    }
    Ok(())
}

fn read_up_to(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}

/// Whether a relative path goes down only.
pub(super) fn is_inside(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// Whether a link at `path` with this target leads to a place below the archive's root.
fn link_stays_inside(path: &Path, target: &Path) -> bool {
    let mut depth = path.components().filter(|part| matches!(part, Component::Normal(_))).count().saturating_sub(1);
    for part in target.components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 => depth -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    true
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A tar entry for tests: a file with content, or a symbolic link to a target.
    pub(in super::super) enum Entry<'a> {
        File(&'a str, &'a str),
        Link(&'a str, &'a str),
    }

    /// A gzip tar archive; names are written as they are, however bad.
    pub(in super::super) fn tgz(path: &Path, entries: &[Entry]) -> PathBuf {
        let stream = flate2::write::GzEncoder::new(File::create(path).unwrap(), flate2::Compression::fast());
        let mut builder = tar::Builder::new(stream);
        for entry in entries {
            let mut header = tar::Header::new_gnu();
            let (name, content) = match entry {
                Entry::File(name, content) => (name, *content),
                Entry::Link(name, target) => {
                    header.set_entry_type(tar::EntryType::Symlink);
                    header.set_link_name_literal(target).unwrap();
                    (name, "")
                }
            };
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_mode(0o644);
            header.set_mtime(1_000_000_000);
            header.set_size(content.len() as u64);
            header.set_cksum();
            builder.append(&header, content.as_bytes()).unwrap();
        }
        builder.into_inner().unwrap().finish().unwrap();
        path.to_owned()
    }

    #[test]
    fn files_come_out_with_their_times() {
        let home = tempfile::tempdir().unwrap();
        let archive = tgz(&home.path().join("a.tgz"), &[Entry::File("x/y", "hello"), Entry::Link("x/l", "y")]);
        unpack(&archive, home.path()).unwrap();
        assert_eq!(std::fs::read_to_string(home.path().join("x/l")).unwrap(), "hello");
        let modified = home.path().join("x/y").metadata().unwrap().modified().unwrap();
        assert_eq!(modified.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs(), 1_000_000_000);
    }

    #[test]
    fn nothing_leaves_the_directory() {
        for (case, entry) in [
            Entry::File("../evil", "x"),
            Entry::File("a/../../evil", "x"),
            Entry::File("/tmp/regtrack-evil", "x"),
            Entry::Link("a", "../evil"),
            Entry::Link("a/b", "/etc/passwd"),
        ]
        .into_iter()
        .enumerate()
        {
            let home = tempfile::tempdir().unwrap();
            let inner = home.path().join("inner");
            std::fs::create_dir(&inner).unwrap();
            let archive = tgz(&home.path().join("a.tgz"), &[entry]);
            let error = unpack(&archive, &inner).unwrap_err();
            assert!(matches!(error, BuildError::UnsafePath { .. }), "case {case}: {error}");
            assert_eq!(std::fs::read_dir(&inner).unwrap().count(), 0, "case {case}");
        }
    }

    #[test]
    fn other_compressions_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let archive = home.path().join("a.tar.xz");
        std::fs::write(&archive, b"\xfd7zXZ\0rest").unwrap();
        assert!(matches!(unpack(&archive, home.path()).unwrap_err(), BuildError::ArchiveKind { .. }));
    }
}
