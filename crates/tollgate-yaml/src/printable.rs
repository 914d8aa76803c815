//! Untrusted text in messages.

use std::fmt::{self, Write};

/// A message that is safe to print on one line: control characters, line ends and characters that change the direction
/// of text are escaped.
///
/// Files, attributes and servers can hold an escape sequence that hides a line or a line end that forges one.
///
/// # Examples
///
/// ```
/// use tollgate_yaml::Printable;
///
/// assert_eq!(Printable("red: \x1b[31m\nINFO all is well").to_string(), r"red: \u{1b}[31m\nINFO all is well");
/// assert_eq!(Printable("naïve ✓").to_string(), "naïve ✓");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Printable<T>(pub T);

impl<T: fmt::Display> fmt::Display for Printable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(EscapingWriter(f), "{}", self.0)
    }
}

struct EscapingWriter<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for EscapingWriter<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(is_obeyed) {
            match part.char_indices().next_back().filter(|(_, last)| is_obeyed(*last)) {
                Some((end, last)) => {
                    self.0.write_str(&part[..end])?;
                    write!(self.0, "{}", last.escape_default())?;
                }
                None => self.0.write_str(part)?,
            }
        }
        Ok(())
    }
}

/// Control characters, separators of lines and paragraphs, and marks, embeddings, overrides and isolates of direction.
fn is_obeyed(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
