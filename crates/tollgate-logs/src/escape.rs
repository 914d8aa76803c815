//! Undoes the escapes of formats.

use memchr::{memchr, memchr2};

/// How a format escapes bytes inside of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escape {
    /// Not at all.
    None,
    /// `\xHH`, `\"`, `\\` and `\n`: nginx and Apache.
    Backslash,
    /// The escapes of JSON.
    Json,
    /// `#HH`: HAProxy.
    Hash,
    /// `%HH`: fields of CloudFront that are not URLs.
    Percent,
    /// `+` for a space: fields of IIS that are not URLs.
    Plus,
    /// `+` for a blank, and `%HH`: parameters of queries.
    Form,
    /// `""` for a quote: tables.
    Doubled,
}

impl Escape {
    /// Appends the unescaped text. Text that is not an escape stays unchanged.
    pub(crate) fn undo(self, text: &[u8], out: &mut Vec<u8>) {
        let mark = match self {
            Self::None => return out.extend_from_slice(text),
            Self::Backslash | Self::Json => b'\\',
            Self::Hash => b'#',
            Self::Percent => b'%',
            Self::Doubled => b'"',
            Self::Plus | Self::Form => return self.undo_blanks(text, out),
        };
        let mut rest = text;
        while let Some(at) = memchr(mark, rest) {
            let (before, from) = rest.split_at(at);
            out.extend_from_slice(before);
            let used = match self {
                Self::Json => json(from, out),
                Self::Backslash => backslash(from, out),
                Self::Doubled => doubled(from, out),
                _ => hex_pair(from.get(1..), out).map(|()| 3),
            };
            // What is no escape: its first byte is itself.
            let used = used.unwrap_or_else(|| {
                out.push(mark);
                1
            });
            rest = from.get(used..).unwrap_or_default();
        }
        out.extend_from_slice(rest);
    }

    fn undo_blanks(self, text: &[u8], out: &mut Vec<u8>) {
        for (at, part) in text.split(|&byte| byte == b'+').enumerate() {
            if at > 0 {
                out.push(b' ');
            }
            let within = if self == Self::Form { Self::Percent } else { Self::None };
            within.undo(part, out);
        }
    }
}

/// Appends the byte of two hexadecimal digits at the start.
fn hex_pair(digits: Option<&[u8]>, out: &mut Vec<u8>) -> Option<()> {
    let &[high, low] = digits?.first_chunk()?;
    out.push((hex(high)? << 4) | hex(low)?);
    Some(())
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Undoes the escape at the start, and returns its length.
fn backslash(text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let byte = match text.get(1)? {
        b'x' => return hex_pair(text.get(2..), out).map(|()| 4),
        byte @ (b'"' | b'\\') => *byte,
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 0x08,
        b'v' => 0x0b,
        b'f' => 0x0c,
        _ => return None,
    };
    out.push(byte);
    Some(2)
}

fn doubled(text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    text.starts_with(b"\"\"").then(|| {
        out.push(b'"');
        2
    })
}

fn json(text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let byte = match text.get(1)? {
        b'u' => return unicode(text, out),
        byte @ (b'"' | b'\\' | b'/') => *byte,
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 0x08,
        b'f' => 0x0c,
        _ => return None,
    };
    out.push(byte);
    Some(2)
}

/// Undoes `\uXXXX`, or a pair of surrogates. Half a pair is U+FFFD.
fn unicode(text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let first = code_unit(text)?;
    let second = || code_unit(text.get(6..)?);
    let (units, used) = match second() {
        Some(second) if (0xD800..0xDC00).contains(&first) && (0xDC00..0xE000).contains(&second) => {
            ([first, second], 12)
        }
        _ => ([first, 0], 6),
    };
    let units = units.into_iter().take(used / 6);
    for character in char::decode_utf16(units) {
        let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Some(used)
}

/// The four digits of `\uXXXX`.
fn code_unit(text: &[u8]) -> Option<u16> {
    let digits: &[u8; 4] = text.strip_prefix(b"\\u")?.first_chunk()?;
    digits.iter().try_fold(0_u16, |unit, &digit| Some((unit << 4) | u16::from(hex(digit)?)))
}

/// The first quote that is not escaped.
pub(crate) fn closing_quote(rest: &[u8], escape: Escape) -> Option<usize> {
    if !matches!(escape, Escape::Backslash | Escape::Json) {
        return memchr(b'"', rest);
    }
    let mut from = 0;
    loop {
        let at = from + memchr2(b'"', b'\\', rest.get(from..)?)?;
        if rest.get(at) == Some(&b'"') {
            return Some(at);
        }
        from = at + 2;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn undone(escape: Escape, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        escape.undo(text, &mut out);
        out
    }

    #[test]
    fn escapes_of_each_kind_are_undone() {
        let cases: &[(Escape, &str, &[u8])] = &[
            (Escape::None, r"a\x22", br"a\x22"),
            (Escape::Backslash, r"a\x22b\x5Cc\xE9", b"a\"b\\c\xe9"),
            (Escape::Backslash, r#"a\"b\\n\n\t"#, b"a\"b\\n\n\t"),
            (Escape::Hash, "a#22b#", b"a\"b#"),
            (Escape::Percent, "a%20b%2520", b"a b%20"),
            (Escape::Plus, "a+b%20", b"a b%20"),
            (Escape::Form, "a+b%2B%", b"a b+%"),
            (Escape::Doubled, r#"a""b""#, b"a\"b\""),
            (Escape::Json, r#"\"\\\/\n\u0041\u00e9"#, "\"\\/\nA\u{e9}".as_bytes()),
            (Escape::Json, r"\ud83d\ude00\ud83d!", "\u{1f600}\u{fffd}!".as_bytes()),
        ];
        for (escape, text, expected) in cases {
            assert_eq!(undone(*escape, text.as_bytes()), *expected, "{escape:?} {text}");
        }
    }

    #[test]
    fn text_without_an_escape_stays() {
        for text in [r"\", r"\x", r"\x2", r"\xg0", r"\q"] {
            assert_eq!(undone(Escape::Backslash, text.as_bytes()), text.as_bytes());
        }
        for text in [r"\", r"\u", r"\u12", r"\u12g4", r"\q"] {
            assert_eq!(undone(Escape::Json, text.as_bytes()), text.as_bytes());
        }
        for text in ["%", "%4", "%4g", "%%"] {
            assert_eq!(undone(Escape::Percent, text.as_bytes()), text.as_bytes());
        }
    }

    proptest! {
        #[test]
        fn escapes_of_nginx_are_undone(text: Vec<u8>) {
            let mut escaped = String::new();
            for &byte in &text {
                match byte {
                    b'"' | b'\\' | 0..0x20 | 0x7f.. => escaped.push_str(&format!("\\x{byte:02X}")),
                    _ => escaped.push(byte.into()),
                }
            }
            prop_assert_eq!(undone(Escape::Backslash, escaped.as_bytes()), text);
        }

        #[test]
        fn escapes_of_serde_are_undone(text: String) {
            let written = serde_json::to_string(&text).unwrap();
            let inner = written.strip_prefix('"').unwrap().strip_suffix('"').unwrap();
            prop_assert_eq!(undone(Escape::Json, inner.as_bytes()), text.into_bytes());
        }
    }
}
