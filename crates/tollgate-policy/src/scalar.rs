//! Texts as a file has them.

use std::fmt::{self, Write as _};

/// A text as written in a file, in quotes if YAML would otherwise misread it or cut it short.
pub(crate) struct Scalar<'a>(pub(crate) &'a str);

impl fmt::Display for Scalar<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text) = self;
        if is_plain(text) {
            return f.write_str(text);
        }
        f.write_char('"')?;
        for (at, character) in text.char_indices() {
            match character {
                '"' | '\\' => write!(f, "\\{character}")?,
                // What would be read as a variable.
                '$' if text.get(at..).is_some_and(|rest| rest.starts_with("${")) => f.write_str("$$")?,
                '\n' => f.write_str("\\n")?,
                // All control characters are below 160.
                character if character.is_control() => write!(f, "\\x{:02X}", u32::from(character))?,
                character => f.write_char(character)?,
            }
        }
        f.write_char('"')
    }
}

/// Returns whether it needs no quotes anywhere in YAML, even in a list in brackets. It may return `false` if quotes
/// could be left out.
fn is_plain(text: &str) -> bool {
    let may_begin = |first: char| first.is_alphanumeric() || matches!(first, '/' | '_' | '.');
    let may_follow =
        |other: char| other.is_alphanumeric() || matches!(other, '/' | '_' | '.' | '-' | '*' | '?' | '=');
    text != "null" && text.starts_with(may_begin) && text.chars().all(may_follow)
}
