//! Lines of a stream of bytes.

use std::io::{self, Read};

use memchr::memchr;

/// The longest line that is read, in bytes without its end.
pub(crate) const LONGEST: usize = 64 << 10;

/// How much is read at once. Larger pieces are not faster.
const PIECE: usize = 256 << 10;

/// Splits a stream into lines, without copying those that lie whole in the buffer.
pub(crate) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    /// What has been read and is not yet given out is `start..end`. There is no line feed before `searched`.
    start: usize,
    searched: usize,
    end: usize,
    is_at_end: bool,
    /// How many lines have been given out.
    number: u64,
}

/// A line without its end, which is LF or CRLF. Without the byte-order mark, if it is the first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'l> {
    Whole(&'l [u8]),
    /// The begin of a line that is too long. The rest has been skipped.
    TooLong(&'l [u8]),
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        let buffer = vec![0; PIECE + LONGEST];
        Self { input, buffer, start: 0, searched: 0, end: 0, is_at_end: false, number: 0 }
    }

    /// The number of the line that was given out last, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        let (from, to) = loop {
            if let Some(at) = memchr(b'\n', self.buffer.get(self.searched..self.end).unwrap_or_default()) {
                let found = (self.start, self.searched + at);
                self.start = found.1 + 1;
                self.searched = self.start;
                break found;
            }
            self.searched = self.end;
            if self.end - self.start > LONGEST + 1 {
                return self.too_long();
            }
            if self.is_at_end {
                if self.start == self.end {
                    return Ok(None);
                }
                let last = (self.start, self.end);
                self.start = self.end;
                break last;
            }
            self.fill()?;
        };
        self.number += 1;
        let line = self.buffer.get(from..to).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_too_long = line.len() > LONGEST;
        let line = if self.number == 1 { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line };
        Ok(Some(if is_too_long { Line::TooLong(line) } else { Line::Whole(line) }))
    }

    /// Skips to the end of a line, and keeps its beginning.
    fn too_long(&mut self) -> io::Result<Option<Line<'_>>> {
        let kept = LONGEST;
        self.move_to_front();
        self.number += 1;
        loop {
            // What is behind the begin of the line is overwritten piece by piece.
            self.end = kept;
            self.fill()?;
            let piece = self.buffer.get(kept..self.end).unwrap_or_default();
            let found = memchr(b'\n', piece);
            if found.is_some() || piece.is_empty() {
                self.start = found.map_or(self.end, |at| kept + at + 1);
                self.searched = self.start;
                return Ok(Some(Line::TooLong(self.buffer.get(..kept).unwrap_or_default())));
            }
        }
    }

    fn move_to_front(&mut self) {
        self.buffer.copy_within(self.start..self.end, 0);
        self.searched -= self.start;
        self.end -= self.start;
        self.start = 0;
    }

    fn fill(&mut self) -> io::Result<()> {
        self.move_to_front();
        let room = self.buffer.get_mut(self.end..).unwrap_or_default();
        let read = loop {
            match self.input.read(room) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        self.end += read;
        self.is_at_end = read == 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Gives so many bytes at once.
    struct Drops<'b>(&'b [u8], usize);

    impl Read for Drops<'_> {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            let most = self.1.min(room.len()).min(self.0.len());
            let (now, later) = self.0.split_at(most);
            room[..most].copy_from_slice(now);
            self.0 = later;
            Ok(most)
        }
    }

    /// The length of too long lines is given as `None`.
    fn lines(bytes: &[u8], drop: usize) -> Vec<Option<Vec<u8>>> {
        let mut lines = Lines::new(Drops(bytes, drop));
        let mut all = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            all.push(match line {
                Line::Whole(line) => Some(line.to_vec()),
                Line::TooLong(_) => None,
            });
        }
        assert_eq!(lines.number(), all.len() as u64);
        all
    }

    #[test]
    fn ends_of_lines_are_cut_off() {
        let cases: &[(&str, &[&str])] = &[
            ("", &[]),
            ("a", &["a"]),
            ("a\n", &["a"]),
            ("a\r\n\r\nb\rc\n\n", &["a", "", "b\rc", ""]),
            ("\u{feff}a\n\u{feff}b", &["a", "\u{feff}b"]),
        ];
        for (text, expected) in cases {
            let expected: Vec<_> = expected.iter().map(|line| Some(line.as_bytes().to_vec())).collect();
            assert_eq!(lines(text.as_bytes(), 3), expected, "{text:?}");
        }
    }

    #[test]
    fn a_line_above_the_bound_is_skipped_to_its_end() {
        for length in [LONGEST - 1, LONGEST, LONGEST + 1, LONGEST + 2, LONGEST + PIECE, 3 * PIECE] {
            for end in ["\n", "\r\n"] {
                let text = format!("a{end}{}{end}b", "x".repeat(length));
                for drop in [7777, 1 << 20] {
                    let found = lines(text.as_bytes(), drop);
                    assert_eq!(found.len(), 3, "{length}");
                    assert_eq!(found[1].is_none(), length > LONGEST, "{length} {end:?}");
                    assert_eq!(found[2].as_deref(), Some(&b"b"[..]));
                }
            }
        }
        let last = "x".repeat(LONGEST + PIECE);
        assert_eq!(lines(last.as_bytes(), 1 << 20), [None]);
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_how_bytes_arrive(text in "[ab\r\n]{0,40}", drop in 1_usize..9) {
            let expected: Vec<_> = text.split_inclusive('\n').map(|line| {
                let line = line.strip_suffix('\n').unwrap_or(line);
                Some(line.strip_suffix('\r').unwrap_or(line).as_bytes().to_vec())
            }).collect();
            prop_assert_eq!(lines(text.as_bytes(), drop), expected);
        }
    }
}
