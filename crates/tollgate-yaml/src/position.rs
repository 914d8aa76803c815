//! A place in a file.

use std::fmt;

/// A place in a file; lines and columns begin at 1, and a column is a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The index of the file among those that were read together.
    pub file: u32,
    /// The line.
    pub line: usize,
    /// The character in the line.
    pub column: usize,
}

impl Position {
    /// Returns a place in the only file, or in the first.
    #[must_use]
    pub const fn new(line: usize, column: usize) -> Self {
        Self { file: 0, line, column }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}
