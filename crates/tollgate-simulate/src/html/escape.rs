//! Text in a page.

use std::fmt;

use tollgate_policy::Printable;

use super::name::Name;

/// Text that is shown as it is: no part of it is read as HTML, and control characters are visible.
///
/// Names of clients, programs and paths are written by strangers, and the page is read by administrators.
pub(super) struct Text<T>(pub(super) T);

impl<T: fmt::Display> fmt::Display for Text<T> {
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

/// Sentences in which names stand between backquotes.
pub(super) struct Prose<'a>(pub(super) &'a str);

impl fmt::Display for Prose<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some((before, name, after)) = rest
            .split_once('`')
            .and_then(|(before, rest)| rest.split_once('`').map(|(name, after)| (before, name, after)))
        {
            write!(f, "{}", Sentence(before))?;
            match name.strip_prefix("--") {
                // A line breaks between flags, and never within one.
                Some(flags) => {
                    let flags = flags.split(" --").map(|flag| format!("<kbd>--{}</kbd>", Text(flag)));
                    f.write_str(&flags.collect::<Vec<_>>().join(" "))?;
                }
                None => write!(f, "<code>{}</code>", Name(name))?,
            }
            rest = after;
        }
        write!(f, "{}", Sentence(rest))
    }
}

/// Text whose figures stay on one line with their `%`.
pub(super) struct Sentence<T>(pub(super) T);

impl<T: fmt::Display> fmt::Display for Sentence<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Text(&self.0).to_string().replace(" %", "\u{a0}%"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_read_as_html() {
        let text = Text("<img src=x onerror='a&b'>\u{1b}\"").to_string();
        assert_eq!(text, "&lt;img src=x onerror=&#39;a&amp;b&#39;&gt;\\u{1b}&quot;");
    }

    #[test]
    fn flags_stay_whole() {
        let html = Prose("all in an hour (`--from 2026-11-18T13:00Z --to <b>`)").to_string();
        let flags = "<kbd>--from 2026-11-18T13:00Z</kbd> <kbd>--to &lt;b&gt;</kbd>";
        assert_eq!(html, format!("all in an hour ({flags})"));
    }

    #[test]
    fn names_between_backquotes_are_code() {
        let html = Prose("Denied by `<b>` and `c`, not `d").to_string();
        assert_eq!(
            html,
            "Denied by <code><span class=\"whole\">&lt;b&gt;</span></code> and <code>c</code>, not `d"
        );
    }
}
