//! Files and folders that are locked, so that one process uses them at a time.

use std::fs::File;
use std::ops::Deref;

/// A file whose lock this process has. Dropping it unlocks the file.
///
/// The system keeps a lock until the last copy of the open file is closed. A process that is being started has copies
/// of all open files for a moment, so closing ours would leave the file locked until then.
#[derive(Debug)]
pub(crate) struct LockedFile(File);

impl LockedFile {
    /// Takes a file that is locked.
    pub(crate) const fn new(locked: File) -> Self {
        Self(locked)
    }
}

impl Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // If this fails, the lock ends with the last copy.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another thread started a process at the moment at which a folder was left, which was then reported as in use.
    #[test]
    fn unlocks_although_another_process_has_a_copy() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join("lock")).unwrap();
        file.lock().unwrap();
        let locked = LockedFile::new(file);
        let copy = locked.try_clone().unwrap();
        let other = File::open(folder.path().join("lock")).unwrap();
        assert!(other.try_lock().is_err());
        drop(locked);
        other.try_lock().unwrap();
        drop(copy);
    }
}
