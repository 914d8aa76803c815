//! The files of listening Unix sockets: made with their permissions, and removed once nobody listens.
//!
//! A file is replaced only if it is a socket of this user on which nobody listens. All of this happens while the
//! folder is locked, so that a second service cannot take a socket for a dead one that is about to listen.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::Mode;
use rustix::process::{Uid, geteuid, umask};
use socket2::{Domain, SockAddr, Socket, Type};
use thiserror::Error;
use tokio::net::{UnixListener, UnixSocket};
use tokio::time::sleep;
use tracing::warn;

use crate::access::address::{SocketMode, SocketPath};
use crate::locked_file::LockedFile;

/// How often the lock of the folder is tried, which others hold for less than a millisecond, and the pause in between.
const LOCK_TRIES: u32 = 200;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The file of a listening socket. It is removed when this is dropped, unless another file has its place.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: SocketPath,
    device: u64,
    inode: u64,
}

impl SocketFile {
    pub(super) const fn path(&self) -> &SocketPath {
        &self.path
    }
}

/// Why a Unix socket cannot be listened on.
#[derive(Debug, Error)]
pub(super) enum SocketFileError {
    #[error("its folder cannot be opened: {0}")]
    Folder(io::Error),
    #[error("its folder is locked by another process, such as a service that is starting there")]
    Locked,
    #[error("there is a file that is not a socket: remove it, or choose another path")]
    NotASocket,
    #[error("another process listens on it")]
    Live,
    #[error(
        "the socket that is there belongs to another user (number {0}): remove it, or choose another path"
    )]
    OfAnotherUser(u32),
    #[error("whether anybody listens on the socket that is there is unknown: {0}")]
    Unknown(io::Error),
    #[error("the socket that is there, on which nobody listens, cannot be removed: {0}")]
    NotRemoved(io::Error),
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Listens on this path. A socket that a service left behind is replaced.
pub(super) async fn listen(
    path: &SocketPath,
    mode: SocketMode,
    backlog: u32,
) -> Result<(UnixListener, SocketFile), SocketFileError> {
    let folder = path.as_ref().parent().unwrap_or(Path::new("/"));
    let folder = File::open(folder).map_err(SocketFileError::Folder)?;
    // Until the socket listens.
    let _lock = locked(folder).await?;
    remove_dead(path.as_ref(), geteuid())?;
    let socket = UnixSocket::new_stream()?;
    bind(&socket, path.as_ref(), mode)?;
    let metadata = fs::symlink_metadata(path)?;
    let file = SocketFile { path: path.clone(), device: metadata.dev(), inode: metadata.ino() };
    Ok((socket.listen(backlog)?, file))
}

/// Locks a folder. Other programs need not care, but every service does.
async fn locked(folder: File) -> Result<LockedFile, SocketFileError> {
    for _ in 0..LOCK_TRIES {
        match folder.try_lock() {
            Ok(()) => return Ok(LockedFile::new(folder)),
            Err(TryLockError::WouldBlock) => sleep(LOCK_PAUSE).await,
            Err(TryLockError::Error(error)) => return Err(SocketFileError::Folder(error)),
        }
    }
    Err(SocketFileError::Locked)
}

/// Removes a socket of this user on which nobody listens.
fn remove_dead(path: &Path, user: Uid) -> Result<(), SocketFileError> {
    // A symbolic link is not followed, and is not a socket.
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if !metadata.file_type().is_socket() {
        return Err(SocketFileError::NotASocket);
    }
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // If the queue of its owner is full, the answer is that this call would block.
    probe.set_nonblocking(true)?;
    match probe.connect(&SockAddr::unix(path)?) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
        Ok(()) => return Err(SocketFileError::Live),
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(SocketFileError::Live),
        Err(error) => return Err(SocketFileError::Unknown(error)),
    }
    if metadata.uid() != user.as_raw() {
        return Err(SocketFileError::OfAnotherUser(metadata.uid()));
    }
    fs::remove_file(path).map_err(SocketFileError::NotRemoved)
}

/// Binds the socket to a file with exactly this mode.
///
/// The system makes the file with all rights but those of the mask, so at no time can anybody else connect. A change of
/// the mode afterwards would leave a moment, and would follow a link. The mask is the process's: files that another
/// thread made meanwhile would have fewer rights, never more, and the service makes none.
fn bind(socket: &UnixSocket, path: &Path, mode: SocketMode) -> io::Result<()> {
    let all = Mode::RWXU | Mode::RWXG | Mode::RWXO;
    let before = umask(all - Mode::from_bits_truncate(mode.bits().into()));
    let bound = socket.bind(path);
    umask(before);
    bound
}

impl Drop for SocketFile {
    /// Removes the file, which must happen before the socket is closed: until then, no other file has its inode.
    fn drop(&mut self) {
        let is_ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|it| (it.dev(), it.ino()) == (self.device, self.inode));
        if is_ours && let Err(error) = fs::remove_file(&self.path) {
            warn!(path = %self.path, %error, "the file of the socket cannot be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net;

    use super::*;

    /// Files of other users cannot be made here, so the service is taken for another one.
    #[test]
    fn a_dead_socket_of_another_user_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checks.sock");
        drop(net::UnixListener::bind(&path).unwrap());
        let user = geteuid();
        let refused = remove_dead(&path, Uid::from_raw(user.as_raw() + 1));
        assert!(matches!(refused, Err(SocketFileError::OfAnotherUser(of)) if of == user.as_raw()));
        assert!(remove_dead(&path, user).is_ok() && !path.exists());
    }
}
