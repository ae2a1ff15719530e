//! One measuring process per machine: two would measure each other.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::MeasureError;

/// The lock is released when this is dropped, or by the kernel when the process ends.
#[derive(Debug)]
pub struct MachineLock {
    _file: File,
}

impl MachineLock {
    /// Name of the lock file in the system's temporary directory.
    pub const FILE: &str = "regtrack-measuring.lock";

    /// Takes the lock at `path`, or says who holds it.
    pub fn take(path: &Path) -> Result<Self, MeasureError> {
        let error = |source| MeasureError::LockFile { path: path.to_owned(), source };
        // Another user's file in a sticky directory may be opened for reading only, which is enough
        // for a lock.
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o644)
            .open(path)
            .or_else(|_| File::open(path))
            .map_err(error)?;
        match file.try_lock() {
            Ok(()) => {
                // Best effort: the lock itself does not depend on the text.
                let _ = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
                Ok(Self { _file: file })
            }
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                let _ = file.read_to_string(&mut pid);
                Err(MeasureError::OtherMeasurement { pid: pid.trim().to_owned() })
            }
            Err(TryLockError::Error(source)) => Err(error(source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_told_who_the_first_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let first = MachineLock::take(&path).unwrap();
        let error = MachineLock::take(&path).unwrap_err().to_string();
        assert!(error.contains(&std::process::id().to_string()), "{error}");
        drop(first);
        MachineLock::take(&path).unwrap();
    }
}
