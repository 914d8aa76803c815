//! A line of JSON, read value by value.

use crate::escape::{Escape, closing_quote};

/// A line, and how far it has been read.
pub(in super::super) struct Text<'l> {
    pub(super) line: &'l [u8],
    pub(super) at: usize,
}

impl<'l> Text<'l> {
    pub(in super::super) const fn new(line: &'l [u8]) -> Self {
        Self { line, at: 0 }
    }

    #[inline(always)]
    pub(super) fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    #[inline(always)]
    pub(super) fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek() == Some(byte)).then(|| self.at += 1)
    }

    #[inline(always)]
    pub(super) fn skip_blanks(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Returns whether this byte is next, which is read then.
    #[inline(always)]
    pub(super) fn ends_with(&mut self, byte: u8) -> bool {
        self.skip_blanks();
        self.expect(byte).is_some()
    }

    /// Reads the next member of an object, and returns its name and its value as written. `None` at the end, and if
    /// this is no object.
    pub(in super::super) fn member(&mut self) -> Option<(&'l [u8], &'l [u8])> {
        self.skip_blanks();
        self.expect(b'{').or_else(|| self.expect(b','))?;
        self.skip_blanks();
        let (start, end) = self.string()?;
        self.skip_blanks();
        self.expect(b':')?;
        self.skip_blanks();
        let from = self.at;
        self.skip_value()?;
        Some((self.line.get(start..end)?, self.line.get(from..self.at)?))
    }

    /// Reads a string, and returns where its inside begins and ends.
    #[inline(always)]
    pub(super) fn string(&mut self) -> Option<(usize, usize)> {
        self.expect(b'"')?;
        let start = self.at;
        let end = start + closing_quote(self.line.get(start..)?, Escape::Json)?;
        self.at = end + 1;
        Some((start, end))
    }

    /// Skips a value of any kind and depth. What is inside is not checked, except that brackets and quotes end.
    pub(super) fn skip_value(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => drop(self.string()?),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                b',' | b':' if depth == 0 => return None,
                byte if depth > 0 && (byte.is_ascii_whitespace() || b",:".contains(&byte)) => self.at += 1,
                byte if is_scalar(byte) => {
                    while self.peek().is_some_and(is_scalar) {
                        self.at += 1;
                    }
                }
                _ => return None,
            }
            if depth == 0 {
                return Some(());
            }
        }
    }
}

/// Returns whether numbers, `true`, `false` and `null` have this byte.
fn is_scalar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)
}
