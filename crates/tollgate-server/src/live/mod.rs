//! Files that are read again while the service runs: `watch` notices when they may have changed, `look` reads them,
//! `follow` waits until they are complete, and `reload` makes their content live.

pub(crate) mod cause;
pub(crate) mod follow;
pub(crate) mod followed_files;
pub(crate) mod look;
pub(crate) mod reload;
pub(crate) mod watch;
