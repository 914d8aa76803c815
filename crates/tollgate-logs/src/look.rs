//! What a file looks like that no format reads.

use std::fmt;

use memchr::memmem;

use crate::attribute::TimeForm;
use crate::client::is_address;
use crate::time;

/// What a file looks like that no format reads. It is a hint for people, and decides nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Look {
    /// Text in UTF-16, as `iconv` calls this form of it.
    Utf16(&'static str),
    /// Data of this kind, such as `an image (PNG)`.
    Data(&'static str),
    /// Compressed once more: this program undoes it.
    Compressed(&'static str),
    /// A page of HTML, or XML.
    Markup,
    /// An array of JSON with lines in quotes.
    Strings,
    /// An array of JSON with arrays, which are rows of a table.
    Rows,
    /// An array of JSON with arrays of objects.
    Pages,
    /// One object of JSON, with everything inside of it.
    Object,
    /// `name=value name=value`
    Logfmt,
    /// A table with another character between its columns.
    Table(char),
    /// A table without a header, with this character between its columns.
    Headless(char),
    /// A table with a blank after each comma.
    Spaced,
    /// Lines with a request that has no quotes.
    BareRequest,
}

/// The first bytes of files.
const MAGIC: [(&[u8], Look); 9] = [
    (b"\x89PNG", Look::Data("an image (PNG)")),
    (b"\xff\xd8\xff", Look::Data("an image (JPEG)")),
    (b"GIF8", Look::Data("an image (GIF)")),
    (b"%PDF", Look::Data("a PDF")),
    (b"PK\x03\x04", Look::Data("a ZIP archive; unpack it")),
    (b"\x7fELF", Look::Data("a program")),
    (b"\x1f\x8b", Look::Compressed("zcat")),
    (b"\x28\xb5\x2f\xfd", Look::Compressed("zstdcat")),
    (b"SQLite format 3", Look::Data("a database")),
];

impl Look {
    /// Returns what the first bytes of a file look like, which begin with these lines.
    pub(crate) fn of(bytes: &[u8], lines: &[&[u8]]) -> Option<Self> {
        if let Some((_, look)) = MAGIC.iter().find(|(magic, _)| bytes.starts_with(magic)) {
            return Some(*look);
        }
        let start = bytes.get(..bytes.len().min(4096)).unwrap_or_default();
        let zeros = start.iter().filter(|byte| **byte == 0).count();
        if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
            return Some(Self::Utf16("UTF-16"));
        }
        // Without a mark, its Latin letters show which of their two bytes comes first.
        let high = start.iter().step_by(2).filter(|byte| **byte == 0).count();
        for (is_half, name) in [(high, "UTF-16BE"), (zeros - high, "UTF-16LE")] {
            if is_half * 5 > start.len() * 2 && is_half * 10 > zeros * 9 {
                return Some(Self::Utf16(name));
            }
        }
        let odd = start.iter().filter(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace()).count();
        if zeros > 0 || odd * 10 > start.len() {
            return Some(Self::Data("binary data"));
        }
        let first = lines.iter().map(|line| line.trim_ascii()).find(|line| !line.is_empty())?;
        if first.starts_with(b"<") && !first.get(1).is_some_and(u8::is_ascii_digit) {
            return Some(Self::Markup);
        }
        if let Some(array) = first.strip_prefix(b"[") {
            let next = lines.iter().map(|line| line.trim_ascii()).filter(|line| !line.is_empty()).nth(1);
            let inside = if array.is_empty() { next.unwrap_or(b"\"") } else { array.trim_ascii_start() };
            match inside.first() {
                Some(b'"') => return Some(Self::Strings),
                Some(b'[') if inside.get(1..).is_some_and(|row| row.trim_ascii_start().starts_with(b"{")) => {
                    return Some(Self::Pages);
                }
                Some(b'[') => return Some(Self::Rows),
                _ => {}
            }
        }
        let pairs = first.split(|byte| *byte == b' ').filter(|word| is_pair(word)).count();
        if pairs > 2 {
            return Some(Self::Logfmt);
        }
        let is_columns = |separator: &&char| {
            let count = |line: &[u8]| line.iter().filter(|byte| char::from(**byte) == **separator).count();
            let is_alike = |line: &&[u8]| line.is_empty() || count(line) == count(first);
            count(first) > 1 && first.is_ascii() && lines.iter().all(is_alike)
        };
        if let Some(separator) = [';', '|', ',', '\t'].iter().find(is_columns) {
            let is_value = |cell: &[u8]| {
                let cell = cell.trim_ascii();
                is_address(cell) || time::parse(&TimeForm::Any, cell).is_some()
            };
            let has_header = !first.split(|byte| char::from(*byte) == *separator).any(is_value);
            match (has_header, separator) {
                (false, _) => return Some(Self::Headless(*separator)),
                (true, ';' | '|') => return Some(Self::Table(*separator)),
                (true, ',') if memmem::find(first, b", ").is_some() => return Some(Self::Spaced),
                (true, _) => {}
            }
        }
        is_bare_request(first).then_some(Self::BareRequest)
    }

    /// Returns what a file looks like whose only line is too long, and begins with these bytes.
    pub(crate) fn of_long(bytes: &[u8]) -> Option<Self> {
        let is_object = || bytes.trim_ascii_start().starts_with(b"{").then_some(Self::Object);
        Self::of(bytes, &[bytes]).or_else(is_object)
    }
}

/// `name=value`
fn is_pair(word: &[u8]) -> bool {
    let Some(at) = word.iter().position(|byte| *byte == b'=').filter(|at| *at > 0) else { return false };
    word.iter().take(at).all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(byte))
}

/// ` GET /path HTTP/1.1` without a quote before its method.
fn is_bare_request(line: &[u8]) -> bool {
    let mut words = line
        .split(|byte| *byte == b' ')
        .skip_while(|word| word.len() < 3 || !word.iter().all(u8::is_ascii_uppercase));
    words.next().is_some() && words.nth(1).is_some_and(|version| version.starts_with(b"HTTP/"))
}

/// What to do.
impl fmt::Display for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Utf16(form) => write!(
                f,
                "it looks like UTF-16, and only UTF-8 is read: iconv -f {form} -t UTF-8 FILE | tollgate ... -"
            ),
            Self::Data(kind) => write!(f, "it looks like {kind}"),
            Self::Compressed(program) => {
                write!(f, "it is compressed twice: {program} FILE | tollgate ... -")
            }
            Self::Markup => f.write_str("it looks like HTML or XML"),
            Self::Strings => f.write_str(
                "it looks like an array of JSON whose elements are no objects: jq -r '.[]' FILE | tollgate ... -",
            ),
            Self::Rows => f.write_str(
                "it looks like an array of JSON whose elements are rows of a table; name its columns, such as \
                 (echo time,ip,method,path,status; jq -r '.[] | @csv' FILE) | tollgate ... -",
            ),
            Self::Pages => {
                f.write_str("it looks like an array of JSON with arrays in it: jq -c '.[][]' FILE | tollgate ... -")
            }
            Self::Object => f.write_str(
                "it looks like one object of JSON with all requests in an array inside of it: \
                 jq -c '[.. | arrays] | max_by(length)[]' FILE | tollgate ... -",
            ),
            Self::Logfmt => f.write_str(
                "it looks like logfmt, which has no format of its own; write its lines out, for example --format \
                 'time=$time_iso8601 ip=$remote_addr method=$request_method path=$request_uri status=$status'",
            ),
            Self::Table(separator) => write!(
                f,
                "it looks like a table with {separator} between its columns, and only commas and tabs are read: \
                 tr '{separator}' '\\t' < FILE | tollgate ... -"
            ),
            Self::Headless(separator) => {
                let names = "time,ip,method,path,status";
                let names = if *separator == ',' { names.to_owned() } else { names.replace(',', "\\t") };
                let rows = match separator {
                    ',' | '\t' => "cat FILE".to_owned(),
                    other => format!("tr '{other}' '\\t' < FILE"),
                };
                write!(
                    f,
                    "it looks like a table without a header; name its columns, such as \
                     (printf '{names}\\n'; {rows}) | tollgate ... -"
                )
            }
            Self::Spaced => f.write_str(
                "it looks like a table with blanks after its commas: sed 's/, */,/g' FILE | tollgate ... -",
            ),
            Self::BareRequest => f.write_str(
                "its requests have no quotes; write its lines out, for example --format '$remote_addr [$time_iso8601] $request \
                 $status'",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_by_their_first_bytes() {
        let utf16: Vec<u8> = "192.0.2.1 - -".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = utf16.chunks(2).flat_map(|pair| [pair[1], pair[0]]).collect();
        let cases: [(&[u8], Option<Look>); 24] = [
            (b"\x89PNG\r\n\x1a\n", Some(Look::Data("an image (PNG)"))),
            (b"\x1f\x8b\x08", Some(Look::Compressed("zcat"))),
            (&utf16, Some(Look::Utf16("UTF-16LE"))),
            (&big, Some(Look::Utf16("UTF-16BE"))),
            (b"\xff\xfe1\0", Some(Look::Utf16("UTF-16"))),
            (&[0; 100], Some(Look::Data("binary data"))),
            (b"a\0b\x01\x02\x03cdefg", Some(Look::Data("binary data"))),
            (b"<!doctype html>\n<p>", Some(Look::Markup)),
            (b"<134>Nov 23 16:00:00 host a: b", None),
            (b"[\n  \"192.0.2.1 - -\",\n", Some(Look::Strings)),
            (b"[\"192.0.2.1 - -\"]", Some(Look::Strings)),
            (b"[[\"2026\",\"192.0.2.1\"]]", Some(Look::Rows)),
            (b"[\n  [\n    \"2026\"", Some(Look::Rows)),
            (b"time=2026 level=info path=/a", Some(Look::Logfmt)),
            (b"GET /a?b=c&d=e&f=g x=1", None),
            (b"time;ip;path\n2026;1;/", Some(Look::Table(';'))),
            (b"time|ip|path\n2026|1|/", Some(Look::Table('|'))),
            (b"time;ip;path\n2026;1", None),
            (b"2026-05-24T10:00:00Z|192.0.2.1|/", Some(Look::Headless('|'))),
            (b"2026-05-24T10:00:00Z,192.0.2.1,/", Some(Look::Headless(','))),
            (b"Time, Client IP, Path\n2026-05-24T10:00:00Z, 192.0.2.1, /", Some(Look::Spaced)),
            (b"[[{\"time\":1}]]", Some(Look::Pages)),
            (b"192.0.2.1 [2026-05-24T10:00:00Z] GET /a HTTP/1.1 200", Some(Look::BareRequest)),
            (b"192.0.2.1 [2026-05-24T10:00:00Z] \"GET /a HTTP/1.1\" 200", None),
        ];
        for (bytes, expected) in cases {
            let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
            assert_eq!(Look::of(bytes, &lines), expected, "{}", bytes.escape_ascii());
        }
    }
}
