//! Texts of users inside sentences.

use tollgate_policy::Printable;

/// Returns the text of a user between backquotes: control characters are visible, and nothing in it is read as
/// Markdown.
///
/// ```
/// assert_eq!(tollgate_simulate::code("a`\n<b>"), r"`a'\n<b>`");
/// ```
#[must_use]
pub fn code(text: &str) -> String {
    format!("`{}`", Printable(text).to_string().replace('`', "'"))
}
