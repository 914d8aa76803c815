//! What commands print for whoever ran them. Printing can fail, and never panics.

use std::fmt::Display;
use std::io::{self, Write};

use tollgate_policy::Printable;

/// Writes a command's answer to standard output.
///
/// # Errors
///
/// If it cannot be written. A reader that closed its end of a pipe has read enough: that is no error.
pub fn answer(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Writes an error to standard error, with no control character but its line ends. If it cannot be written, nobody is
/// left to tell.
pub fn complain(error: impl Display) {
    for line in error.to_string().lines() {
        let _ = writeln!(io::stderr(), "{}", Printable(line));
    }
}
