//! Files with secrets that every user of this machine can read.

use std::fs::{self, Metadata};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tracing::warn;

/// Returns the mode of a file if every user of this machine can read it.
pub(crate) fn public_mode(metadata: &Metadata) -> Option<u32> {
    const READ_BY_OTHERS: u32 = 0o004;
    let mode = metadata.permissions().mode() & 0o777;
    (mode & READ_BY_OTHERS != 0).then_some(mode)
}

/// Logs a warning if every user of this machine can read the file.
pub(crate) fn warn_if_public(path: &Path) {
    if let Some(mode) = fs::metadata(path).ok().as_ref().and_then(public_mode) {
        let (file, mode) = (path.display(), format_args!("{mode:o}"));
        warn!(%file, %mode, "every user of this machine can read this secret");
    }
}
