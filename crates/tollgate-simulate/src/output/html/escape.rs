//! Text in a page.

use std::fmt;

use tollgate_policy::Printable;

/// Text that is shown as it is: no part of it is read as HTML, and control characters are visible.
///
/// Names of clients, programs and paths are written by strangers, and the page is read by administrators.
pub(crate) struct HtmlText<T>(pub(crate) T);

impl<T: fmt::Display> fmt::Display for HtmlText<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = Printable(&self.0).to_string();
        for character in text.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                other => fmt::Write::write_char(f, other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_read_as_html() {
        let text = HtmlText("<img src=x onerror='a&b'>\u{1b}\"").to_string();
        assert_eq!(text, "&lt;img src=x onerror=&#39;a&amp;b&#39;&gt;\\u{1b}&quot;");
    }
}
