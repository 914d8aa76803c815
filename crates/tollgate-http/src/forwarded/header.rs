//! Proxy headers, read from the end.
//!
//! Every proxy appends the address it has heard from. So the end of the header is from the nearest proxy, and the start
//! may be from the client. Reading begins at the end and never parses the text before the current entry, so a quote
//! that a client left open cannot swallow what a proxy appended.

use std::net::IpAddr;

use smallvec::SmallVec;

use super::node;

/// The header in which proxies list addresses. Only the chosen one is read: a proxy that appends to one passes the
/// other on as the client sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ForwardedHeader {
    /// `Forwarded`, of RFC 7239: `for=192.0.2.7, for="[2001:db8::1]:4711";proto=https`.
    Forwarded,
    /// `X-Forwarded-For`, which has no standard: `192.0.2.7, 2001:db8::1`.
    XForwardedFor,
}

impl ForwardedHeader {
    /// Returns its name in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forwarded => "forwarded",
            Self::XForwardedFor => "x-forwarded-for",
        }
    }

    /// Returns the entries of the header, from the nearest proxy on. Several lines are one list, in their order.
    pub fn hops<'r>(self, lines: impl DoubleEndedIterator<Item = &'r [u8]>) -> impl Iterator<Item = Hop> {
        let elements = lines.rev().flat_map(move |line| Elements { rest: Some(line), header: self });
        elements.map(move |element| match (element, self) {
            (None, _) => Hop::Hidden,
            (Some(element), Self::Forwarded) => forwarded_for(element),
            (Some(element), Self::XForwardedFor) => Hop::of(element),
        })
    }
}

/// An entry of such a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hop {
    /// The address from which a proxy was reached.
    Address(IpAddr),
    /// The entry hides the address: `unknown`, an obfuscated identifier, garbage.
    Hidden,
    /// The entry names nobody, for this reason.
    Invalid(&'static str),
}

impl Hop {
    /// Reads one entry without parameters.
    #[must_use]
    pub fn of(node: &[u8]) -> Self {
        if node.trim_ascii().is_empty() {
            return Self::Invalid("has an empty entry");
        }
        node::address(node).map_or(Self::Hidden, Self::Address)
    }
}

/// The elements of a line from its end; `None` for one whose start cannot be found.
struct Elements<'r> {
    rest: Option<&'r [u8]>,
    header: ForwardedHeader,
}

impl<'r> Iterator for Elements<'r> {
    type Item = Option<&'r [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.rest.take()?;
        let may_quote = self.header == ForwardedHeader::Forwarded;
        let mut is_quoted = false;
        for (at, byte) in line.iter().enumerate().rev() {
            match byte {
                b'"' if may_quote && !is_escaped(line, at) => is_quoted = !is_quoted,
                b',' if !is_quoted => {
                    self.rest = line.get(..at);
                    return Some(line.get(at + 1..));
                }
                _ => {}
            }
        }
        Some((!is_quoted).then_some(line))
    }
}

/// Returns whether an odd number of backslashes precedes this place.
fn is_escaped(line: &[u8], at: usize) -> bool {
    line.iter().take(at).rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1
}

/// Reads the node of an element's `for`. Without one, or with more than one, it is hidden.
fn forwarded_for(element: &[u8]) -> Hop {
    if element.trim_ascii().is_empty() {
        return Hop::of(element);
    }
    let (mut is_quoted, mut is_escaped) = (false, false);
    let pairs = element.split(|&byte| {
        if is_escaped {
            is_escaped = false;
        } else if byte == b'"' {
            is_quoted = !is_quoted;
        } else if is_quoted {
            is_escaped = byte == b'\\';
        } else {
            return byte == b';';
        }
        false
    });
    let mut nodes = pairs.filter_map(|pair| {
        let (name, value) = pair.split_at_checked(pair.iter().position(|&byte| byte == b'=')?)?;
        name.trim_ascii().eq_ignore_ascii_case(b"for").then_some(value.get(1..)?)
    });
    let (Some(node), None) = (nodes.next().map(<[u8]>::trim_ascii), nodes.next()) else { return Hop::Hidden };
    let Some(quoted) = node.strip_prefix(b"\"") else { return Hop::of(node) };
    quoted.strip_suffix(b"\"").map_or(Hop::Hidden, |quoted| Hop::of(&unescaped(quoted)))
}

/// Returns the text that a quoted string represents.
fn unescaped(quoted: &[u8]) -> SmallVec<[u8; 64]> {
    let mut is_escaped = false;
    let kept = quoted.iter().copied().filter(|&byte| {
        is_escaped = byte == b'\\' && !is_escaped;
        !is_escaped
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hops(header: ForwardedHeader, lines: &[&str]) -> Vec<String> {
        let hop = |hop: Hop| match hop {
            Hop::Address(address) => address.to_string(),
            Hop::Hidden => "-".to_owned(),
            Hop::Invalid(_) => String::new(),
        };
        header.hops(lines.iter().map(|line| line.as_bytes())).map(hop).collect()
    }

    #[test]
    fn x_forwarded_for_is_read_from_its_end() {
        let cases: &[(&[&str], &[&str])] = &[
            (&[], &[]),
            (&["192.0.2.1"], &["192.0.2.1"]),
            (&["192.0.2.1, 192.0.2.2"], &["192.0.2.2", "192.0.2.1"]),
            (&["192.0.2.1,192.0.2.2 ,\t192.0.2.3:80"], &["192.0.2.3", "192.0.2.2", "192.0.2.1"]),
            (&["192.0.2.1", "192.0.2.2, 192.0.2.3"], &["192.0.2.3", "192.0.2.2", "192.0.2.1"]),
            (&["::1, [2001:db8::1]:80"], &["2001:db8::1", "::1"]),
            (&[""], &[""]),
            (&["192.0.2.1,"], &["", "192.0.2.1"]),
            (&["192.0.2.1, \t, 192.0.2.2"], &["192.0.2.2", "", "192.0.2.1"]),
            (&["192.0.2.1", "", ",192.0.2.2"], &["192.0.2.2", "", "", "192.0.2.1"]),
            (&["unknown, 192.0.2.2, _x"], &["-", "192.0.2.2", "-"]),
            // Quotes mean nothing here.
            (&["\", 192.0.2.2"], &["192.0.2.2", "-"]),
            (&["\"192.0.2.1\", 192.0.2.2"], &["192.0.2.2", "-"]),
        ];
        for (lines, expected) in cases {
            assert_eq!(hops(ForwardedHeader::XForwardedFor, lines), *expected, "{lines:?}");
        }
    }

    #[test]
    fn forwarded_is_read_from_its_end() {
        let cases: &[(&[&str], &[&str])] = &[
            (&[], &[]),
            (&["for=192.0.2.1"], &["192.0.2.1"]),
            (&["For=192.0.2.1;proto=http;by=203.0.113.43"], &["192.0.2.1"]),
            (&["proto=http; FOR=\"192.0.2.1:47011\" ;host=a"], &["192.0.2.1"]),
            (&["for=192.0.2.1, for=\"[2001:db8::1]:4711\""], &["2001:db8::1", "192.0.2.1"]),
            (&["for=192.0.2.1", "for=192.0.2.2"], &["192.0.2.2", "192.0.2.1"]),
            (&["for=\"_a\", for=_b,for=unknown"], &["-", "-", "-"]),
            (&["proto=https"], &["-"]),
            (&["for="], &[""]),
            (&["for=\"\""], &[""]),
            (&["for=\" \";proto=https"], &[""]),
            (&["for=192.0.2.1,,for=192.0.2.2, "], &["", "192.0.2.2", "", "192.0.2.1"]),
            (&["for=\""], &["-"]),
            (&["192.0.2.1"], &["-"]),
            (&["for=192.0.2.1;for=192.0.2.2"], &["-"]),
            (&["xfor=192.0.2.1"], &["-"]),
            (&["for=\"192.0.2.1"], &["-"]),
            (&["for=192.0.2.1\""], &["-"]),
            // A quoted string may escape whatever it wants.
            (&["for=\"1\\92.0.2.1\""], &["192.0.2.1"]),
            (&["host=\"a;for=192.0.2.9\";for=192.0.2.1"], &["192.0.2.1"]),
            (&["host=\"a\\\";for=192.0.2.9,\";for=192.0.2.1, for=192.0.2.2"], &["192.0.2.2", "192.0.2.1"]),
            (&["host=\"a\\\\\", for=192.0.2.2"], &["192.0.2.2", "-"]),
        ];
        for (lines, expected) in cases {
            assert_eq!(hops(ForwardedHeader::Forwarded, lines), *expected, "{lines:?}");
        }
    }

    /// Read from the start, the quote would take in what the proxy has appended.
    #[test]
    fn open_quotes_of_clients_do_not_swallow_entries_of_proxies() {
        for sent in
            ["for=\"", "for=\"a\\", "\"", "\\", "for=\"\\\"", ";", "=", "for=192.0.2.9;x=\"", "\"\"\"", ",,,"]
        {
            for appended in ["for=192.0.2.1", "for=\"[2001:db8::1]:80\";by=\"_\\\"\""] {
                let line = format!("{sent}, {appended}");
                let alone = hops(ForwardedHeader::Forwarded, &[appended]);
                assert_eq!(hops(ForwardedHeader::Forwarded, &[&line])[..1], alone, "{line}");
            }
        }
    }
}
