//! Reads a journal line by line, in bounded memory.

use std::io::{self, BufRead, Read as _};

use super::line::MAX_LINE;

/// The lines of a journal, with their places.
pub(super) struct JournalLines<R> {
    reader: R,
    line: u64,
    offset: u64,
    bytes: Vec<u8>,
}

/// One line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlacedLine<'a> {
    /// From 1.
    pub(super) line: u64,
    /// The bytes before it.
    pub(super) offset: u64,
    /// Its length with its line feed.
    pub(super) length: u64,
    pub(super) content: LineContent<'a>,
}

/// The bytes of a line, without its line feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineContent<'a> {
    Whole(&'a [u8]),
    /// The file ends in it.
    Cut(&'a [u8]),
    /// It is longer than any line that is written.
    TooLong,
}

impl<R: BufRead> JournalLines<R> {
    /// Reads from the start of a journal.
    pub(super) fn new(reader: R) -> Self {
        Self { reader, line: 0, offset: 0, bytes: Vec::new() }
    }

    /// Returns the number of the last line; 0 before the first.
    pub(super) const fn line(&self) -> u64 {
        self.line
    }

    /// Returns how many bytes were read.
    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the next line; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<PlacedLine<'_>>> {
        self.bytes.clear();
        let limit = MAX_LINE as u64 + 1;
        let mut length = self.reader.by_ref().take(limit).read_until(b'\n', &mut self.bytes)? as u64;
        if length == 0 {
            return Ok(None);
        }
        let has_end = self.bytes.last() == Some(&b'\n');
        let is_too_long = !has_end && length == limit;
        if is_too_long {
            length += self.skip_line()?;
        }
        let (line, offset) = (self.line + 1, self.offset);
        (self.line, self.offset) = (line, offset + length);
        let content = match self.bytes.strip_suffix(b"\n") {
            _ if is_too_long => LineContent::TooLong,
            Some(whole) => LineContent::Whole(whole),
            None => LineContent::Cut(&self.bytes),
        };
        Ok(Some(PlacedLine { line, offset, length, content }))
    }

    /// Passes over the rest of a line, and returns its length.
    fn skip_line(&mut self) -> io::Result<u64> {
        let mut skipped = 0;
        loop {
            let bytes = match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                bytes => bytes?,
            };
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (passed, is_over) = match end {
                Some(place) => (place + 1, true),
                None => (bytes.len(), bytes.is_empty()),
            };
            self.reader.consume(passed);
            skipped += passed as u64;
            if is_over {
                return Ok(skipped);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_their_places_and_none_is_longer_than_the_bound() {
        let long = "x".repeat(MAX_LINE);
        let longer = "x".repeat(3 * MAX_LINE);
        let text = format!("one\n\n{long}\n{longer}\ncut");
        let mut lines = JournalLines::new(io::BufReader::with_capacity(7, text.as_bytes()));
        let mut found = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            let length = match line.content {
                LineContent::Whole(bytes) => bytes.len(),
                LineContent::Cut(bytes) => 1_000_000 + bytes.len(),
                LineContent::TooLong => 2_000_000,
            };
            found.push((line.line, line.offset, line.length, length));
        }
        let (most, three) = (MAX_LINE as u64, 3 * MAX_LINE as u64);
        let expected = [
            (1, 0, 4, 3),
            (2, 4, 1, 0),
            (3, 5, most + 1, MAX_LINE),
            (4, most + 6, three + 1, 2_000_000),
            (5, most + three + 7, 3, 1_000_003),
        ];
        assert_eq!(found, expected);
    }
}
