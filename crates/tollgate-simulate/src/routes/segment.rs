//! The segments of a path, with those that name one thing of many folded.
//!
//! A segment is folded by its form alone: numbers, identifiers, tokens, dates and addresses of people. This keeps most
//! secrets in paths out of a report, but not those that look like words.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Segments of a path that are told apart. Those behind are together.
pub(super) const MAX_DEPTH: usize = 8;

/// Bytes of a segment that is a name.
const MAX_NAME: usize = 64;

/// Digits in a row that make a segment an identifier: a year has four.
const MANY_DIGITS: usize = 5;

/// A name in place of all that are rarely asked for.
pub(super) const NAME: &[u8] = b"{name}";

/// A name in place of numbers, identifiers and tokens.
pub(super) const ID: &[u8] = b"{id}";

/// A name in place of all that the server did not find.
pub(super) const NOT_FOUND: &[u8] = b"{not found}";

/// The segments behind the last one that is told apart.
pub(super) const REST: &[u8] = b"...";

/// The folded segments of a path that begins with `/`, at most [`MAX_DEPTH`] and perhaps [`REST`]. An empty one at
/// the end stands for the last slash, and others are left out.
pub(super) fn segments(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = path.strip_prefix(b"/").filter(|rest| !rest.is_empty());
    let mut depth = 0;
    std::iter::from_fn(move || {
        loop {
            let path = rest?;
            let (segment, behind) = match path.iter().position(|byte| *byte == b'/') {
                Some(end) => (path.get(..end)?, path.get(end + 1..)),
                None => (path, None),
            };
            rest = behind;
            if segment.is_empty() && behind.is_some() {
                continue;
            }
            depth += 1;
            if depth > MAX_DEPTH {
                rest = None;
                return Some(REST);
            }
            return Some(folded(segment));
        }
    })
}

/// Whether this stands for many segments.
pub(super) const fn is_folded(segment: &[u8]) -> bool {
    matches!(segment, [b'{', ..] | b"..." | b"")
}

/// The segment, or what stands for all of its form.
fn folded(segment: &[u8]) -> &[u8] {
    // What is behind `;` are parameters, such as the identifier of a session.
    let end = segment.iter().position(|byte| *byte == b';').unwrap_or(segment.len());
    let segment = segment.get(..end).unwrap_or(segment);
    let form = SegmentForm::of(segment);
    match form {
        SegmentForm { letters: 0, digits: 0, .. } if segment.len() <= MAX_NAME && form.escapes == 0 => {
            segment
        }
        SegmentForm { ats: 1.., .. } => b"{email}",
        SegmentForm { equals: 1.., .. } => b"{value}",
        _ if is_date(segment) => b"{date}",
        _ if is_address(segment, form) => b"{ip}",
        _ if is_hardware_address(segment, form) || is_key(segment, form) => ID,
        _ if form.is_identifier(segment.len()) => identifier(segment),
        SegmentForm { escapes: 3.., .. } => NAME,
        _ if segment.len() > MAX_NAME || std::str::from_utf8(segment).is_err() => NAME,
        _ => segment,
    }
}

/// What a segment consists of.
#[derive(Debug, Clone, Copy, Default)]
struct SegmentForm {
    digits: usize,
    letters: usize,
    capitals: usize,
    /// Letters that are digits of hexadecimal numbers, too.
    hex_letters: usize,
    others: usize,
    dots: usize,
    hyphens: usize,
    ats: usize,
    equals: usize,
    /// Bytes written as `%2F`.
    escapes: usize,
    /// The most digits in a row.
    digits_in_a_row: usize,
    /// Whether a part of at least eight hexadecimal digits is one of a digest: one with letters is no date.
    has_digest: bool,
    /// Places where a digit, a small letter and a capital letter follow each other in another order.
    changes: usize,
}

impl SegmentForm {
    fn of(segment: &[u8]) -> Self {
        let (mut form, mut row, mut last) = (Self::default(), 0, 0_u8);
        let is_separator = |byte: &u8| matches!(byte, b'.' | b'-' | b'_');
        form.has_digest = segment.split(is_separator).any(is_digest);
        for (place, byte) in segment.iter().enumerate() {
            let kind = match byte {
                b'0'..=b'9' => 1,
                b'a'..=b'z' => 2,
                b'A'..=b'Z' => 3,
                _ => 0,
            };
            row = if kind == 1 { row + 1 } else { 0 };
            form.digits_in_a_row = form.digits_in_a_row.max(row);
            form.capitals += usize::from(kind == 3);
            form.changes += usize::from(kind != 0 && last != 0 && kind != last);
            last = kind;
            match byte {
                b'0'..=b'9' => form.digits += 1,
                b'a'..=b'f' | b'A'..=b'F' => {
                    (form.letters, form.hex_letters) = (form.letters + 1, form.hex_letters + 1)
                }
                b'a'..=b'z' | b'A'..=b'Z' => form.letters += 1,
                b'.' => form.dots += 1,
                b'-' => form.hyphens += 1,
                b'@' => form.ats += 1,
                b'=' => form.equals += 1,
                b'%' => {
                    form.escapes += 1;
                    form.ats += usize::from(segment.get(place + 1..place + 3) == Some(b"40"));
                    form.ats += usize::from(segment.get(place + 1..place + 5) == Some(b"2540"));
                }
                b'_' | b'~' => {}
                _ => form.others += 1,
            }
        }
        form
    }

    /// Whether this is a number, a UUID, a digest, or a token of random characters.
    const fn is_identifier(self, length: usize) -> bool {
        if self.has_digest
            || self.digits == length
            || self.digits_in_a_row >= MANY_DIGITS && self.escapes == 0
        {
            return true;
        }
        let is_hex =
            self.others == 0 && self.hex_letters == self.letters && self.dots == 0 && self.escapes == 0;
        // Words of the letters from a to f are short.
        if is_hex && length >= 16 {
            return true;
        }
        let is_plain = self.others == 0 && self.escapes == 0;
        let has_all = self.digits > 0 && self.capitals > 0 && self.capitals < self.letters;
        if is_plain && has_all && length >= 8 && self.changes * 5 >= length * 3 && self.dots == 0 {
            return true;
        }
        let is_token = is_plain && length >= 12;
        // Of random letters and digits every second follows one of another kind; of words in `camelCase` every sixth.
        is_token
            && (self.digits > 0 && self.changes * 4 >= length
                || length >= 20 && self.changes * 5 >= length * 2)
    }
}

/// Whether these are the digits of a hexadecimal number that is no word and no decimal number.
fn is_digest(part: &[u8]) -> bool {
    part.len() >= 8
        && part.iter().all(u8::is_ascii_hexdigit)
        && part.iter().any(u8::is_ascii_digit)
        && part.iter().any(u8::is_ascii_alphabetic)
}

/// Whether this is a day, such as `2026-11-28`, or a month.
fn is_date(segment: &[u8]) -> bool {
    let is_date = |form: &[u8]| {
        let fits =
            |(byte, form): (&u8, &u8)| if *form == b'0' { byte.is_ascii_digit() } else { byte == form };
        segment.len() == form.len() && segment.iter().zip(form).all(fits)
    };
    is_date(b"0000-00-00") || is_date(b"0000-00")
}

/// Whether this is an address of IPv4 or IPv6.
fn is_address(segment: &[u8], form: SegmentForm) -> bool {
    if form.dots == 3 && form.digits + 3 == segment.len() {
        return std::str::from_utf8(segment).is_ok_and(|text| text.parse::<Ipv4Addr>().is_ok());
    }
    let mut buffer = [0; LONGEST_ADDRESS];
    // At least two colons, perhaps encoded.
    let address = if form.others + form.escapes >= 2 { with_colons(segment, &mut buffer) } else { None };
    address.is_some_and(|address| address.trim_matches(['[', ']']).parse::<Ipv6Addr>().is_ok())
}

/// Whether this is an address of a network adapter, such as `00:1a:2b:3c:4d:5e`.
fn is_hardware_address(segment: &[u8], form: SegmentForm) -> bool {
    let mut buffer = [0; LONGEST_ADDRESS];
    let is_possible = form.digits + form.hex_letters >= 12 && form.others + form.escapes + form.hyphens >= 5;
    let Some(address) = with_colons(segment, &mut buffer).filter(|_| is_possible) else { return false };
    let is_byte = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    matches!(address.len(), 17 | 23)
        && [':', '-'].iter().any(|separator| address.split(*separator).all(is_byte))
}

/// Bytes of an address of IPv6 with its brackets, and some more.
const LONGEST_ADDRESS: usize = 48;

/// The text with its colons decoded, if it is short.
fn with_colons<'b>(segment: &[u8], buffer: &'b mut [u8; LONGEST_ADDRESS]) -> Option<&'b str> {
    let (mut rest, mut length) = (segment, 0);
    while let Some((first, behind)) = rest.split_first() {
        let byte;
        (byte, rest) = match rest {
            [b'%', b'3', b'a' | b'A', behind @ ..] => (b':', behind),
            _ => (*first, behind),
        };
        *buffer.get_mut(length)? = byte;
        length += 1;
    }
    std::str::from_utf8(buffer.get(..length)?).ok()
}

/// Whether this is a key of a well-known form: capital letters and digits, such as `AKIAIOSFODNN7EXAMPLE`; four or more
/// groups of as many of them; or `sk_live_...`.
fn is_key(segment: &[u8], form: SegmentForm) -> bool {
    if form.others + form.escapes + form.dots > 0 {
        return false;
    }
    let is_of_capitals = form.capitals > 0 && form.capitals == form.letters;
    if is_of_capitals && form.digits > 0 && form.capitals + form.digits == segment.len() {
        return segment.len() >= 16;
    }
    if is_of_capitals && form.hyphens >= 3 {
        let mut groups = segment.split(|byte| *byte == b'-').map(<[u8]>::len);
        let first = groups.next().unwrap_or(0);
        return first >= 4 && groups.all(|length| length == first);
    }
    matches!(segment, [b's' | b'p' | b'r', b'k', b'_', rest @ ..] if rest.starts_with(b"live_") || rest.starts_with(b"test_"))
}

/// `{id}`, with the extension of a well-known kind of file: images differ from pages.
pub(super) fn identifier(segment: &[u8]) -> &'static [u8] {
    const KNOWN: [(&[u8], &[u8]); 16] = [
        (b"css", b"{id}.css"),
        (b"gif", b"{id}.gif"),
        (b"html", b"{id}.html"),
        (b"ico", b"{id}.ico"),
        (b"jpeg", b"{id}.jpeg"),
        (b"jpg", b"{id}.jpg"),
        (b"js", b"{id}.js"),
        (b"json", b"{id}.json"),
        (b"mp4", b"{id}.mp4"),
        (b"pdf", b"{id}.pdf"),
        (b"png", b"{id}.png"),
        (b"svg", b"{id}.svg"),
        (b"ts", b"{id}.ts"),
        (b"webp", b"{id}.webp"),
        (b"woff2", b"{id}.woff2"),
        (b"xml", b"{id}.xml"),
    ];
    let extension = segment.iter().rposition(|byte| *byte == b'.').and_then(|dot| segment.get(dot + 1..));
    let known = KNOWN.iter().find(|(known, _)| extension == Some(*known));
    known.map_or(ID, |(_, folded)| folded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold(path: &str) -> String {
        let segments = segments(path.as_bytes()).map(|segment| String::from_utf8_lossy(segment).into_owned());
        "/".to_owned() + &segments.collect::<Vec<_>>().join("/")
    }

    #[test]
    fn identifiers_and_secrets_are_folded() {
        for (path, expected) in [
            ("/users/17", "/users/{id}"),
            ("/users/17/", "/users/{id}/"),
            ("/orders/3f2504e0-4f89-41d3-9a0c-0305e82c3301/items", "/orders/{id}/items"),
            ("/blobs/9e107d9d372bb6826bd81d3542a419d6", "/blobs/{id}"),
            ("/assets/app-3f2a91bc.js", "/assets/{id}.js"),
            ("/assets/app.9f2a91bc.min.js", "/assets/{id}.js"),
            ("/assets/9e107d9d372bb682.js", "/assets/{id}.js"),
            ("/reset/dGhpcyBpcyBhIHRva2Vu", "/reset/{id}"),
            ("/reset/V1StGXR8Z5jdHi6B", "/reset/{id}"),
            ("/session/eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4", "/session/{id}"),
            ("/k/01ARZ3NDEKTSV4RRFFQ69G5FAV", "/k/{id}"),
            ("/order-123456/pay", "/{id}/pay"),
            ("/report/2026-11-28", "/report/{date}"),
            ("/2026/11/on-limits", "/{id}/{id}/on-limits"),
            ("/of/alice@example.com", "/of/{email}"),
            ("/of/alice%40example.com", "/of/{email}"),
            ("/who/203.0.113.7", "/who/{ip}"),
            ("/who/2001:db8::1", "/who/{ip}"),
            ("/who/[2001:DB8::1]", "/who/{ip}"),
            ("/who/2001%3Adb8%3a%3A1", "/who/{ip}"),
            ("/of/bob%2540example.com", "/of/{email}"),
            ("/nic/00:1a:2b:3c:4d:5e", "/nic/{id}"),
            ("/nic/00-1A-2B-3C-4D-5E/x", "/nic/{id}/x"),
            ("/nic/de%3Aad%3Abe%3Aef%3Aca%3Afe", "/nic/{id}"),
            ("/key/AKIAIOSFODNN7EXAMPLE", "/key/{id}"),
            ("/key/sk_live_abcdefghijklmnop", "/key/{id}"),
            ("/key/rk_test_4eC39HqLyjWDarjtT1zdp7dc", "/key/{id}"),
            ("/key/ABCD-EFGH-IJKL-MNOP", "/key/{id}"),
            ("/watch/dQw4w9WgXcQ", "/watch/{id}"),
            ("/page;jsessionid=1A2B3C", "/page"),
            ("/set/limit=5", "/set/{value}"),
        ] {
            assert_eq!(fold(path), expected, "{path}");
        }
    }

    #[test]
    fn words_and_versions_are_kept() {
        for path in [
            "/",
            "/login",
            "/login/",
            "/api/v1/oauth2/authorize",
            "/GetUserProfileSettings",
            "/getting-started-with-rate-limiting",
            "/10-tips-for-better-sleep-in-2026",
            "/wp-login.php",
            "/facade/1.2.3/2026-q4",
            "/.well-known/acme-challenge",
            "/-/utf8/mp3",
            "/mp3Files2Go/OAuth2Token/iPhone15Pro",
            "/COPYING/README/MAX_LENGTH_OF_NAME_2/READ-ME-FIRST",
            "/task_live_view/sky_live_tv/a:b:c/10:30",
        ] {
            assert_eq!(fold(path), path);
        }
        assert_eq!(fold("//a///b"), "/a/b");
        assert_eq!(fold("/a/b/c/d/e/f/g/h/i/j"), "/a/b/c/d/e/f/g/h/...");
        assert_eq!(fold(&format!("/{}", "long-".repeat(20))), "/{name}");
    }
}
