//! What is live and can be replaced while the service runs, and where new content comes from.
//!
//! A [`target`] makes content live as a whole, whatever its source, and [`record`] keeps what the last reloads did.
//! Files are one kind of source, a management server is the other, and a [`rule_source`] is one of them. Of files, [`watch`] notices when they may have changed, [`follow`] waits until they are
//! complete, and [`reload`] reads them and hands their content to the target. A [`file_stamp`] shows whether a file was
//! written. [`text_files`] are files of text in some format; those of certificates are in `tls`.

#[cfg(test)]
mod captured_log;
pub(crate) mod cause;
pub(crate) mod file_stamp;
pub(crate) mod follow;
pub(crate) mod record;
pub(crate) mod reload;
pub(crate) mod rule_source;
pub(crate) mod target;
pub(crate) mod text_files;
pub(crate) mod watch;
