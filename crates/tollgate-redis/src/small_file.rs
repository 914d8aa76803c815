//! Small files, such as secrets and certificates, read within bounds of size and time.
//!
//! Only regular files are read. A device has no end, and a pipe under a name may have no writer. The exception is a
//! pipe that the process has inherited and that a path such as `/dev/fd/3` names, as shells pass secrets.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::Path;

/// The contents of a small file, and its metadata at the time of the read. Its `Debug` does not show the contents.
#[non_exhaustive]
pub struct SmallFile {
    /// The contents.
    pub bytes: Vec<u8>,
    /// Of the file that was read: another one may have its name by now.
    pub metadata: Metadata,
}

impl SmallFile {
    /// The maximum size of a file of certificates or keys, in bytes: four times that of a system's list of trusted
    /// certificates.
    pub const MOST_PEM_BYTES: usize = 1024 * 1024;

    /// The maximum size of a file with a secret, in bytes.
    pub const MOST_SECRET_BYTES: usize = 64 * 1024;

    /// Reads a file of at most this many bytes. It blocks; a pipe is waited for ten seconds at most.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is larger, or is neither a regular file nor an inherited pipe; or if the pipe's writer
    /// does not close it in time.
    pub fn read(path: impl AsRef<Path>, max_bytes: usize) -> io::Result<Self> {
        let path = path.as_ref();
        let file = system::open(path)?;
        let metadata = file.metadata()?;
        let bytes = if metadata.is_file() {
            Self::read_open(&file, max_bytes)?
        } else if system::is_inherited_pipe(path, &metadata) {
            system::read_pipe(&file, max_bytes)?
        } else {
            return Err(not_regular(&metadata, "; use a regular file, or `<(...)`, `/dev/fd/3`"));
        };
        Ok(Self { bytes, metadata })
    }

    /// Opens a regular file. It never waits, not even for the writer of a pipe.
    ///
    /// # Errors
    ///
    /// If it cannot be opened, or is not a regular file.
    pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
        let file = system::open(path.as_ref())?;
        let metadata = file.metadata()?;
        if metadata.is_file() { Ok(file) } else { Err(not_regular(&metadata, "")) }
    }

    /// Reads the rest of an open regular file, of at most this many bytes.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is larger.
    pub fn read_open(file: &File, max_bytes: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        file.take(max_bytes as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() > max_bytes { Err(too_large(max_bytes)) } else { Ok(bytes) }
    }
}

impl std::fmt::Debug for SmallFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SmallFile({} bytes)", self.bytes.len())
    }
}

/// The error of a file of another kind. `instead_of_pipe` says what to use instead of a named pipe.
fn not_regular(metadata: &Metadata, instead_of_pipe: &str) -> io::Error {
    let (kind, instead) = match metadata {
        folder if folder.is_dir() => ("a folder", ""),
        pipe if system::is_pipe(pipe) => ("a named pipe", instead_of_pipe),
        _ => ("a device or a socket", ""),
    };
    io::Error::new(io::ErrorKind::InvalidInput, format!("it is not a regular file, but {kind}{instead}"))
}

fn too_large(max_bytes: usize) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {max_bytes} bytes"))
}

#[cfg(unix)]
mod system {
    use std::fs::{File, Metadata};
    use std::io::{self, Read};
    use std::os::unix::fs::FileTypeExt;
    use std::path::Path;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::{Mode, OFlags};

    use crate::time::instant;

    /// Longer than a program takes that decrypts a secret.
    const PIPE_TIME: Duration = Duration::from_secs(10);

    /// Opens the file without waiting for the writer of a pipe.
    pub(super) fn open(path: &Path) -> io::Result<File> {
        let open = rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
        Ok(File::from(open?))
    }

    pub(super) fn is_inherited_pipe(path: &Path, metadata: &Metadata) -> bool {
        let is_inherited = path == Path::new("/dev/stdin")
            || ["/dev/fd", "/proc/self/fd"].into_iter().any(|folder| path.starts_with(folder));
        is_inherited && is_pipe(metadata)
    }

    pub(super) fn is_pipe(metadata: &Metadata) -> bool {
        metadata.file_type().is_fifo()
    }

    /// Reads until the writer closes the pipe.
    pub(super) fn read_pipe(mut pipe: &File, max_bytes: usize) -> io::Result<Vec<u8>> {
        let (mut bytes, mut piece, begun) = (Vec::new(), [0; 4096], instant());
        while bytes.len() <= max_bytes {
            match pipe.read(&mut piece) {
                Ok(0) => return Ok(bytes),
                Ok(read) => bytes.extend_from_slice(&piece[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let left = PIPE_TIME.saturating_sub(instant() - begun);
                    if left.is_zero() {
                        let reason = format!("its writer did not close the pipe within {PIPE_TIME:?}");
                        return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
                    }
                    let left = Timespec::try_from(left).map_err(io::Error::other)?;
                    // If it fails, as when a signal comes, the pipe is read again.
                    let _ = poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&left));
                }
                Err(error) => return Err(error),
            }
        }
        Err(super::too_large(max_bytes))
    }
}

/// Other systems have no pipes among their files.
#[cfg(not(unix))]
mod system {
    use std::fs::{File, Metadata};
    use std::io;
    use std::path::Path;

    pub(super) fn open(path: &Path) -> io::Result<File> {
        File::open(path)
    }

    pub(super) fn is_inherited_pipe(_: &Path, _: &Metadata) -> bool {
        false
    }

    pub(super) fn is_pipe(_: &Metadata) -> bool {
        false
    }

    pub(super) fn read_pipe(file: &File, max_bytes: usize) -> io::Result<Vec<u8>> {
        super::SmallFile::read_open(file, max_bytes)
    }
}
