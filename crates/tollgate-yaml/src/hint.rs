//! The word that was probably meant.

use std::fmt;

/// The probable word, or all known words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// Advice of the crate that knows these files.
    advice: Option<Box<str>>,
    meant: Option<&'static str>,
    known: &'static [&'static str],
}

/// Returns the known word that was probably meant. A word counts as a misspelling of the nearest known one if they
/// differ in at most two fifths of the longer one.
#[must_use]
pub fn nearest(written: &str, known: &[&'static str]) -> Option<&'static str> {
    let written = written.to_ascii_lowercase().replace('-', "_");
    let distances = known.iter().map(|word| (strsim::osa_distance(&written, &word.replace('-', "_")), *word));
    let nearest = distances.min_by_key(|(distance, _)| *distance);
    let is_near = |(distance, word): &(usize, &str)| 5 * distance <= 2 * word.len().max(written.len());
    nearest.filter(is_near).map(|(_, word)| word)
}

impl Hint {
    pub(crate) fn new(written: &str, known: &'static [&'static str], advice: Option<Box<str>>) -> Self {
        Self { advice, meant: nearest(written, known), known }
    }

    /// Returns the word that was probably meant.
    #[must_use]
    pub const fn meant(&self) -> Option<&'static str> {
        self.meant
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.advice, self.meant) {
            (Some(advice), _) => f.write_str(advice),
            (None, Some(meant)) => write!(f, "did you mean `{meant}`?"),
            (None, None) => write!(f, "expected {}", self.known.join(", ")),
        }
    }
}
