//! The output of commands. Printing can fail, and never panics.

use std::fmt::{Display, Write as _};
use std::io::{self, Write};

use tollgate_policy::Printable;

/// Writes a command's answer to standard output.
///
/// # Errors
///
/// If it cannot be written. A closed pipe is not an error: its reader has read enough.
pub fn answer(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Writes an error to standard error, without control characters except line ends. If that fails, it cannot be reported
/// anywhere.
pub fn complain(error: impl Display) {
    for line in error.to_string().lines() {
        let _ = writeln!(io::stderr(), "{}", Printable(line));
    }
}

/// Returns the same JSON in printable ASCII, because a terminal may obey other characters. Outside of texts, JSON only
/// has ASCII and white space.
pub(super) fn in_ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for unit in json.encode_utf16() {
        match u8::try_from(unit) {
            Ok(byte @ b' '..=b'~') => text.push(byte.into()),
            Ok(b'\t' | b'\n' | b'\r') => text.push(' '),
            // Writing into a string does not fail.
            _ => drop(write!(text, "\\u{unit:04x}")),
        }
    }
    text
}
