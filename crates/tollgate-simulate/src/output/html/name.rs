//! Names that strangers chose, with the places where a line may end.

use std::fmt;
use std::net::IpAddr;

use super::escape::HtmlText;

/// Characters without a place to end a line, at most. Longer words end wherever the column does.
const LONGEST_WORD: usize = 40;

/// Names below this many characters are never broken.
const SHORT: usize = 20;

/// A name of a client, a path, a file or a program: lines end only after `/`, `:`, `.`, `,`, `&` and blanks.
/// Addresses and digests stay on one line.
pub(crate) struct HtmlName<'a>(pub(crate) &'a str);

impl fmt::Display for HtmlName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_short(self.0) || is_whole(self.0) {
            return write!(f, "<span class=\"whole\">{}</span>", HtmlText(self.0));
        }
        let (mut begin, mut length) = (0, 0);
        for (place, character) in self.0.char_indices() {
            length = if character.is_whitespace() { 0 } else { length + 1 };
            let end = place + character.len_utf8();
            let rest = self.0.get(end..).unwrap_or_default();
            let ends_part = matches!(character, '/' | ':' | '.' | ',' | '&');
            let is_before_part = rest.chars().next().is_some_and(char::is_alphanumeric);
            if (ends_part && length > 3 && is_before_part) || length >= LONGEST_WORD {
                write!(f, "{}<wbr>", HtmlText(self.0.get(begin..end).unwrap_or_default()))?;
                (begin, length) = (end, 0);
            }
        }
        write!(f, "{}", HtmlText(self.0.get(begin..).unwrap_or_default()))
    }
}

/// Whether it fits into every column, and has a place at which a browser would break it.
fn is_short(name: &str) -> bool {
    name.len() < SHORT && name.contains(|character: char| !character.is_alphanumeric())
}

/// Whether it is an address, a network or a digest, of which a part says nothing.
fn is_whole(name: &str) -> bool {
    let value = name.split_once('=').map_or(name, |(_, value)| value);
    let address = value.split_once('/').map_or(value, |(address, _)| address);
    address.parse::<IpAddr>().is_ok() || (name.starts_with("client-") && name.len() < LONGEST_WORD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_between_the_parts_of_a_name() {
        for (name, html) in [
            ("/assets/notes/old/s.js", "/assets/<wbr>notes/<wbr>old/<wbr>s.js"),
            ("a/b/c/and/all/the/rest", "a/b/<wbr>c/and/<wbr>all/<wbr>the/<wbr>rest"),
            ("GET /products/{id}", "<span class=\"whole\">GET /products/{id}</span>"),
            ("search:candidate", "<span class=\"whole\">search:candidate</span>"),
            ("big.log", "<span class=\"whole\">big.log</span>"),
            ("login", "login"),
            ("ip=2001:db8:aaaa:bbbb::/64", "<span class=\"whole\">ip=2001:db8:aaaa:bbbb::/64</span>"),
            ("192.0.2.77", "<span class=\"whole\">192.0.2.77</span>"),
            ("client-0123456789", "<span class=\"whole\">client-0123456789</span>"),
            ("<b>.html", "<span class=\"whole\">&lt;b&gt;.html</span>"),
        ] {
            assert_eq!(HtmlName(name).to_string(), html);
        }
        assert_eq!(HtmlName(&"x".repeat(90)).to_string().matches("<wbr>").count(), 2);
    }
}
