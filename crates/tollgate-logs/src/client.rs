//! The text of a log's client field: one address, or something else.

use std::ops::Range;

use memchr::{memchr, memrchr};

use crate::value::{address, is_absent, without_brackets, without_port};

/// The kind of a text in the client field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientText {
    /// One address, perhaps with a port or in brackets.
    Address,
    /// A host name. Servers that resolve addresses log it.
    Name,
    /// Several addresses, or one with a comma: a piece of `X-Forwarded-For`.
    List,
    Other,
}

impl ClientText {
    /// Returns the kind of a text that is not absent.
    pub(crate) fn of(text: &[u8]) -> Self {
        if is_address(text) {
            return Self::Address;
        }
        if is_name(text) {
            return Self::Name;
        }
        let is_list = text.contains(&b',') || text.contains(&b' ');
        if is_list && words(text).any(is_address) { Self::List } else { Self::Other }
    }
}

/// Whether each request with this text has one client. It is fast, so a text that only looks like an address is taken
/// for one. A log in whose first lines are no names has none later.
pub(crate) fn is_one_client(text: &[u8], may_be_name: bool) -> bool {
    let (mut dots, mut colons) = (0_u32, 0_u32);
    for &byte in text {
        match byte {
            b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F' => {}
            b'.' => dots += 1,
            b':' => colons += 1,
            _ => return is_unusual_client(text, may_be_name),
        }
    }
    dots == 3 || colons > 1 || is_unusual_client(text, may_be_name)
}

/// Of a text that does not look like an address at once.
#[cold]
fn is_unusual_client(text: &[u8], may_be_name: bool) -> bool {
    // nginx has no address where a client comes through a socket in a file.
    is_address(text) || matches!(text, b"unix:" | b"unix") || (may_be_name && is_name(text))
}

/// Whether this is `X-Forwarded-For` with several entries, which have no blanks.
pub(crate) fn is_forwarded(text: &[u8]) -> bool {
    let mut entries = text.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    text.contains(&b',') && entries.all(|entry| !entry.contains(&b' ')) && words(text).any(is_address)
}

/// Returns whether a field that is not the client's has an address in it.
pub(crate) fn holds_address(text: &[u8]) -> bool {
    let count = |wanted: u8| text.iter().filter(|byte| **byte == wanted).count();
    if count(b'.') < 3 && count(b':') < 2 {
        return false;
    }
    text.split(|byte| b" ,;|=/".contains(byte)).any(|word| address_in(word).is_some())
}

/// Returns the place of the only address in a word, which may be in quotes or brackets, or follow a name and `=`,
/// `:` or `/`.
pub(crate) fn address_in(word: &[u8]) -> Option<Range<usize>> {
    let whole = word.len() - word.iter().rev().take_while(|byte| b"\"')>}|;".contains(byte)).count();
    let start = word.get(..whole)?.iter().rposition(|byte| b"\"'(<{=|".contains(byte)).map_or(0, |at| at + 1);
    let starts = [
        start,
        word.get(start..whole)?.iter().rposition(|byte| *byte == b'/').map_or(start, |at| start + at + 1),
        memchr(b':', word.get(start..whole)?).map_or(start, |at| start + at + 1),
    ];
    starts.into_iter().find(|start| word.get(*start..whole).is_some_and(is_address)).map(|start| start..whole)
}

/// Ports that servers listen on. Those of clients are higher.
const SERVERS: [&[u8]; 6] = [b"80", b"443", b"8000", b"8080", b"8081", b"8443"];

/// Whether a virtual host with its port may be a client in truth: an address, unless it has the port of a server. A
/// server without a name calls itself by its address.
pub(crate) fn is_client_as_host(text: &[u8]) -> bool {
    let has_port = text.starts_with(b"[") || text.iter().filter(|byte| **byte == b':').count() == 1;
    let port = memrchr(b':', text).filter(|_| has_port).and_then(|at| text.get(at + 1..));
    is_address(text) && port.is_none_or(|port| !SERVERS.contains(&port))
}

/// The texts between commas and blanks.
fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| b", ".contains(byte)).filter(|word| !word.is_empty())
}

/// Whether this is one address. A port and brackets are allowed, and the name of an interface.
pub(crate) fn is_address(text: &[u8]) -> bool {
    let host = without_brackets(without_port(text));
    let host = match host.iter().position(|byte| *byte == b'%') {
        Some(at) if host.contains(&b':') => host.get(..at).unwrap_or_default(),
        _ => host,
    };
    // `::` alone is an address that no client has, and a name of C++.
    host.iter().any(u8::is_ascii_alphanumeric) && address(host).is_some()
}

/// Whether this may be the name of a host: it has a letter. Numbers and times have none.
fn is_name(text: &[u8]) -> bool {
    let host = without_port(text);
    !is_absent(host)
        && host.iter().any(u8::is_ascii_alphabetic)
        && host.iter().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(byte))
        && host.first().is_some_and(u8::is_ascii_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_is_told_from_names_lists_and_text() {
        use ClientText::{Address, List, Name, Other};
        let cases = [
            ("192.0.2.1", Address),
            ("192.0.2.1:4711", Address),
            ("[2001:db8::1]:4711", Address),
            ("[2001:db8::1]", Address),
            ("2001:db8::1", Address),
            ("::ffff:192.0.2.1", Address),
            ("fe80::1%eth0", Address),
            ("host.example", Name),
            ("host.example:443", Name),
            ("web-7d9f", Name),
            ("192.0.2.1.", Other),
            ("192.0.2.1,198.51.100.2", List),
            ("192.0.2.1, 198.51.100.2", List),
            ("192.0.2.1,", List),
            ("192.0.2.1 198.51.100.2", List),
            ("unknown,", Other),
            ("2026-11-23", Other),
            ("16:00:10.123", Other),
            ("\"192.0.2.1\"", Other),
            ("::", Other),
            ("300.0.2.1", Other),
        ];
        for (text, expected) in cases {
            assert_eq!(ClientText::of(text.as_bytes()), expected, "{text}");
            let is_one = matches!(expected, Address | Name);
            // Times are told from addresses only in the first lines.
            if !["::", "300.0.2.1", "16:00:10.123"].contains(&text) {
                assert_eq!(is_one_client(text.as_bytes(), true), is_one, "{text}");
                assert_eq!(is_one_client(text.as_bytes(), false), expected == Address, "{text}");
            }
        }
        assert!(is_one_client(b"unix:", false));
    }

    #[test]
    fn an_address_is_found_in_quotes_and_behind_a_name() {
        let cases = [
            ("192.0.2.1", Some("192.0.2.1")),
            ("\"192.0.2.1", Some("192.0.2.1")),
            ("\"192.0.2.1\"", Some("192.0.2.1")),
            ("(192.0.2.1)", Some("192.0.2.1")),
            ("[192.0.2.1]", Some("[192.0.2.1]")),
            ("client=192.0.2.1:80;", Some("192.0.2.1:80")),
            ("xff:192.0.2.1", Some("192.0.2.1")),
            ("-/192.0.2.1", Some("192.0.2.1")),
            ("std::string", None),
            ("-", None),
            ("\"\"", None),
            ("frank", None),
            ("1.2.3", None),
        ];
        for (word, expected) in cases {
            let found = address_in(word.as_bytes()).map(|range| &word[range]);
            assert_eq!(found, expected, "{word}");
        }
        for (host, is_client) in [
            ("a.example:443", false),
            ("192.0.2.1:443", false),
            ("192.0.2.1:4711", true),
            ("192.0.2.1", true),
            ("2001:db8:a::1", true),
            ("2001:db8:a::80", true),
            ("[2001:db8:a::1]:443", false),
            ("[2001:db8:a::1]:4711", true),
        ] {
            assert_eq!(is_client_as_host(host.as_bytes()), is_client, "{host}");
        }
        assert!(holds_address(b"frank 192.0.2.1 -") && holds_address(b"203.0.113.1,"));
        assert!(!holds_address(b"frank 1.2.3 -"));
        assert!(
            holds_address(b"xff:192.0.2.1")
                && holds_address(b"ip:2001:db8::1")
                && holds_address(b"-/192.0.2.1")
        );
        assert!(!holds_address(b"a:1") && !holds_address(b"std::string") && !holds_address(b"16:00:10"));
    }
}
