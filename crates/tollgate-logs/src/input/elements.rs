//! Documents of JSON, as lines: each element of an array, or each object that spans lines, becomes one.
//!
//! `gcloud logging read --format json` prints an array, `aws logs filter-log-events` an array in an object, and
//! `journalctl -o json-pretty` objects over several lines. A document is never in memory whole.

use std::io::{self, Cursor, Read};

use memchr::memchr3;

use super::Stream;
use crate::lines::LONGEST;

/// How much is read at once.
const PIECE: usize = 64 << 10;

/// The first bytes that show whether a stream is a document. Objects on one line without a line feed between them need
/// the whole first one.
const FIRST: usize = 512;
const FIRST_OBJECT: usize = 64 << 10;

/// The longest element. A longer one is damaged: its brackets do not match.
const LONGEST_ELEMENT: usize = 1 << 20;

/// The arrays of the command line of AWS, of Azure, and of CloudTrail, if an object begins with one.
const ARRAYS: [&[u8]; 3] = [b"\"events\"", b"\"records\"", b"\"Records\""];

/// The byte-order mark.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Returns the stream, with the elements of a document as lines.
pub(super) fn as_lines(mut stream: Stream) -> io::Result<Stream> {
    let mut first = Vec::new();
    (&mut stream).take(FIRST as u64).read_to_end(&mut first)?;
    if text(&first).starts_with(b"{") && level(&first).is_none() {
        (&mut stream).take(FIRST_OBJECT as u64).read_to_end(&mut first)?;
    }
    let level = level(&first);
    let Some(level) = level else { return Ok(Box::new(Cursor::new(first).chain(stream))) };
    let mut begin = Cursor::new(first);
    begin.set_position(if begin.get_ref().starts_with(MARK) { MARK.len() as u64 } else { 0 });
    Ok(Box::new(Elements::new(begin.chain(stream), level)))
}

/// The bytes after a byte-order mark and blanks.
fn text(first: &[u8]) -> &[u8] {
    first.strip_prefix(MARK).unwrap_or(first).trim_ascii_start()
}

/// In how many brackets the elements of a document are; `None` if this is the begin of lines.
fn level(first: &[u8]) -> Option<usize> {
    let first = text(first);
    // A line of Envoy begins with `[2026-`.
    if let Some(array) = first.strip_prefix(b"[") {
        return matches!(array.trim_ascii_start(), [b'{' | b']', ..]).then_some(1);
    }
    let members = first.strip_prefix(b"{")?;
    // What a subscription of CloudWatch Logs delivers.
    let is_delivered = members.trim_ascii_start().starts_with(b"\"messageType\"");
    if is_delivered || ARRAYS.iter().any(|name| is_array(members, name)) {
        return Some(2);
    }
    let blanks = members.len() - members.trim_ascii_start().len();
    let is_indented = members.get(..blanks)?.contains(&b'\n');
    (is_indented || object(first).is_some_and(|rest| rest.starts_with(b"{"))).then_some(0)
}

/// Whether the first member has this name and is an array.
fn is_array(members: &[u8], name: &[u8]) -> bool {
    let colon = members.trim_ascii_start().strip_prefix(name).map(<[u8]>::trim_ascii_start);
    let value = colon.and_then(|rest| rest.strip_prefix(b":")).map(<[u8]>::trim_ascii_start);
    value.is_some_and(|value| value.starts_with(b"["))
}

/// What follows the first object, which may end there.
fn object(text: &[u8]) -> Option<&[u8]> {
    let mut brackets = Brackets::default();
    let end = text.iter().position(|&byte| {
        brackets.pass(byte);
        brackets.depth == 0
    })?;
    text.get(end + 1..)
}

/// The brackets that are open.
#[derive(Debug, Default)]
struct Brackets {
    depth: usize,
    is_string: bool,
    is_escaped: bool,
}

impl Brackets {
    fn pass(&mut self, byte: u8) {
        if self.is_string {
            // No string has a line feed: so a damaged one ends with its line.
            match byte {
                _ if std::mem::take(&mut self.is_escaped) => {}
                b'\\' => self.is_escaped = true,
                b'"' | b'\n' => self.is_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => self.is_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }
}

/// A stream of lines, each with an element of a document.
struct Elements<R> {
    input: R,
    piece: Vec<u8>,
    brackets: Brackets,
    level: usize,
    /// The length of the element that has begun.
    element: Option<usize>,
    /// Whether text that is no element has begun.
    is_other: bool,
    ready: Vec<u8>,
    given: usize,
}

impl<R: Read> Elements<R> {
    fn new(input: R, level: usize) -> Self {
        let (piece, ready) = (vec![0; PIECE], Vec::with_capacity(PIECE));
        let brackets = Brackets::default();
        Self { input, piece, brackets, level, element: None, is_other: false, ready, given: 0 }
    }

    /// Turns the next piece into lines. Returns whether there was one.
    fn advance(&mut self) -> io::Result<bool> {
        let mut piece = std::mem::take(&mut self.piece);
        let read = loop {
            match self.input.read(&mut piece) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        self.ready.clear();
        self.given = 0;
        let mut rest = piece.get(..read).unwrap_or_default();
        while let Some((&byte, after)) = rest.split_first() {
            // Most bytes are inside of strings.
            let run = if self.brackets.is_string && !self.brackets.is_escaped {
                memchr3(b'"', b'\\', b'\n', rest).unwrap_or(rest.len())
            } else {
                0
            };
            if run > 0 {
                let (text, next) = rest.split_at(run);
                self.give(text)?;
                rest = next;
            } else {
                self.pass(byte)?;
                rest = after;
            }
        }
        self.piece = piece;
        Ok(read > 0)
    }

    fn pass(&mut self, byte: u8) -> io::Result<()> {
        let (was_string, before) = (self.brackets.is_string, self.brackets.depth);
        // The bracket of an array or an object that nothing has opened.
        let is_stray = byte == b'}' && !was_string && self.element.is_none() && before == self.level;
        if !is_stray {
            self.brackets.pass(byte);
        }
        match byte {
            b'{' if !was_string && self.element.is_none() && before == self.level => {
                self.end_other();
                self.element = Some(0);
                self.give(b"{")
            }
            // Between the strings and numbers of an element, blanks are not needed.
            b'\n' | b'\r' | b'\t' | b' ' if !was_string => {
                if byte == b'\n' {
                    self.end_other();
                }
                Ok(())
            }
            b'\n' | b'\r' => self.give(b" "),
            b'[' | b']' | b',' if self.element.is_none() && !was_string => Ok(()),
            _ => {
                self.give(&[byte])?;
                if self.element.is_some() && !was_string && self.brackets.depth == self.level {
                    self.element = None;
                    self.ready.push(b'\n');
                }
                Ok(())
            }
        }
    }

    /// Writes text of an element. Other text becomes a line as well, which no format reads, except the names and values
    /// around an array that is in an object.
    fn give(&mut self, text: &[u8]) -> io::Result<()> {
        match &mut self.element {
            Some(length) => {
                *length += text.len();
                if *length > LONGEST_ELEMENT {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "a value of this JSON has more than 1 MiB: its brackets do not match",
                    ));
                }
                // As much as shows that it is too long.
                if *length - text.len() <= LONGEST {
                    self.ready.extend_from_slice(text);
                }
            }
            None if self.level < 2 => {
                self.is_other = true;
                self.ready.extend_from_slice(text);
            }
            None => {}
        }
        Ok(())
    }

    fn end_other(&mut self) {
        if std::mem::take(&mut self.is_other) {
            self.ready.push(b'\n');
        }
    }
}

impl<R: Read> Read for Elements<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        while self.given == self.ready.len() {
            if !self.advance()? {
                return Ok(0);
            }
        }
        let left = self.ready.get(self.given..).unwrap_or_default();
        let count = left.len().min(room.len());
        if let (Some(to), Some(from)) = (room.get_mut(..count), left.get(..count)) {
            to.copy_from_slice(from);
        }
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Gives so many bytes at once.
    struct Drops(Cursor<Vec<u8>>, usize);

    impl Read for Drops {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            let most = self.1.min(room.len());
            self.0.read(&mut room[..most])
        }
    }

    fn lines(text: &str, drop: usize) -> io::Result<String> {
        let mut lines = String::new();
        as_lines(Box::new(Drops(Cursor::new(text.into()), drop)))?.read_to_string(&mut lines)?;
        Ok(lines)
    }

    #[test]
    fn elements_of_documents_are_lines() {
        let cases = [
            ("[]", ""),
            ("[{\"a\":1},{\"b\":[{}]}]", "{\"a\":1}\n{\"b\":[{}]}\n"),
            (
                "\u{feff}\n[\n  {\n    \"a\": \"x y\",\n    \"b\": true\n  },\n  {}\n]\n",
                "{\"a\":\"x y\",\"b\":true}\n{}\n",
            ),
            ("[\n{\"a\":\"]}\\\"{\"},\r\n{\"b\":\"\\\\\"}\n]", "{\"a\":\"]}\\\"{\"}\n{\"b\":\"\\\\\"}\n"),
            // One page after another.
            ("[{\"a\":1}]\n[{\"a\":2}]", "{\"a\":1}\n{\"a\":2}\n"),
            ("{\n\t\"a\" : {\"b\":1}\n}\n{\n\t\"a\" : 2\n}\n", "{\"a\":{\"b\":1}}\n{\"a\":2}\n"),
            ("{\"a\":1}{\"a\":2}{\"a\":3}", "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n"),
            (
                "{\n  \"events\": [\n    {\"message\": \"a\"},\n    {\"message\": \"b\"}\n  ],\n  \"nextToken\": \"t\"\n}",
                "{\"message\":\"a\"}\n{\"message\":\"b\"}\n",
            ),
            (
                "{\"records\":[{\"a\":1},{\"a\":2}]}{\"Records\": [{\"a\":3}]}",
                "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n",
            ),
            (
                "{\"messageType\":\"DATA_MESSAGE\",\"subscriptionFilters\":[\"f\"],\"logEvents\":[{\"id\":\"1\"}]}{\"messageType\":\
                 \"DATA_MESSAGE\",\"logEvents\":[{\"id\":\"2\"}]}",
                "{\"id\":\"1\"}\n{\"id\":\"2\"}\n",
            ),
            // Damage is read as lines that no format reads.
            ("[{\"a\":1},\nwarning: x\n{\"a\":2}]", "{\"a\":1}\nwarning:x\n{\"a\":2}\n"),
            ("[{\"a\":1}},{\"a\":2}]", "{\"a\":1}\n}\n{\"a\":2}\n"),
            ("[{\"a\":\"1\n\"},{\"a\":2}]", "{\"a\":\"1 \"},{\"a\":2}]"),
            ("[{\"a\":1},{\"a\":", "{\"a\":1}\n{\"a\":"),
        ];
        for (text, expected) in cases {
            for drop in [1, 7, PIECE] {
                assert_eq!(lines(text, drop).unwrap(), expected, "{text}");
            }
        }
    }

    #[test]
    fn lines_stay_lines() {
        for text in [
            "",
            "\n",
            "[2026-11-23T16:00:00Z] \"GET / HTTP/1.1\"\n",
            "[23/Nov/2026:16:00:00 +0000] a\n",
            "{\"a\":1}\n{\"a\":2}\n",
            "{\"a\":1} \n {\"a\":2}\n",
            "{\"a\":1}",
            "{\"event\":[{\"message\":1}]}\n",
            "{\"path\":\"/\",\"events\":[{\"a\":1}]}\n",
            "{\"a\":\n",
        ] {
            assert_eq!(lines(text, 3).unwrap(), text);
        }
        let long = format!("{{\"a\":\"{}\"}}\n{{}}\n", "x".repeat(FIRST_OBJECT));
        assert_eq!(lines(&long, PIECE).unwrap(), long);
    }

    #[test]
    fn elements_are_bounded() {
        let element = |length: usize| format!("[{{\"a\":\"{}\"}},{{}}]", "x".repeat(length));
        let read = lines(&element(LONGEST + 10), PIECE).unwrap();
        let (first, rest) = read.split_once('\n').unwrap();
        assert!(first.len() > LONGEST && first.len() <= LONGEST + PIECE, "{}", first.len());
        assert_eq!(rest, "{}\n");
        let error = lines(&element(LONGEST_ELEMENT), PIECE).unwrap_err();
        assert!(error.to_string().contains("brackets do not match"));
        let damaged = "[{\"a\":{\"b\":1},".to_owned() + &"{\"a\":1},".repeat(LONGEST_ELEMENT / 8);
        assert!(lines(&damaged, PIECE).is_err());
    }

    proptest! {
        #[test]
        fn elements_are_those_of_another_reader(texts: Vec<String>, indented: bool, drop in 1_usize..40) {
            let all: Vec<_> = texts.iter().map(|text| serde_json::json!({ "a": text, "b": [{ "c": text }] })).collect();
            let text = if indented { serde_json::to_string_pretty(&all) } else { serde_json::to_string(&all) };
            let expected: String = all.iter().map(|one| format!("{one}\n")).collect();
            prop_assert_eq!(lines(&text.unwrap(), drop).unwrap(), expected);
        }
    }
}
