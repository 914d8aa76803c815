//! Sentences in a page.

use std::fmt;

use super::escape::HtmlText;
use super::name::HtmlName;

/// Sentences in which names stand between backquotes.
pub(crate) struct Prose<'a>(pub(crate) &'a str);

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
                    let flags = flags.split(" --").map(|flag| format!("<kbd>--{}</kbd>", HtmlText(flag)));
                    f.write_str(&flags.collect::<Vec<_>>().join(" "))?;
                }
                None => write!(f, "<code>{}</code>", HtmlName(name))?,
            }
            rest = after;
        }
        write!(f, "{}", Sentence(rest))
    }
}

/// Text whose figures stay on one line with their `%`.
pub(crate) struct Sentence<T>(pub(crate) T);

impl<T: fmt::Display> fmt::Display for Sentence<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HtmlText(&self.0).to_string().replace(" %", "\u{a0}%"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
