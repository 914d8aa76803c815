//! The summary of the logs that were replayed.

use std::fmt;

use serde::Serialize;

/// The summary of a reading.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ReadReport {
    /// The files.
    pub files: Vec<ReadFile>,
    /// All lines, of every kind.
    pub lines: u64,
    /// Readable lines that are not requests: empty ones, headers, comments and other messages.
    pub others: u64,
    /// Lines that could not be read.
    pub unparsed_lines: u64,
    /// The same by reason, with examples.
    pub unparsed: Vec<UnreadLines>,
    /// Requests that were left out because later ones had been replayed already.
    pub late: u64,
    /// Some of them.
    pub late_examples: Vec<UnreadLine>,
    /// The longest times without requests, of those that were replayed.
    pub gaps: Vec<ReadGap>,
    /// Requests whose local time exists twice.
    pub ambiguous: u64,
    /// Whether the logs hold only a sample of all requests.
    pub is_sample: bool,
}

impl ReadReport {
    /// Keeps only the shape of unreadable and late lines.
    pub fn hide_lines(&mut self) {
        let examples = self.unparsed.iter_mut().flat_map(|unread| &mut unread.examples);
        examples.chain(&mut self.late_examples).for_each(|example| example.text = None);
    }
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReadFile {
    /// Its name.
    pub name: String,
    /// Its format.
    pub format: Option<String>,
    /// Which instant of a request the format logs, in words.
    pub instant: Option<String>,
    /// The precision of its times, in words.
    pub precision: Option<String>,
    /// Its lines.
    pub lines: u64,
    /// The requests among them.
    pub requests: u64,
}

/// Lines that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnreadLines {
    /// Why.
    pub reason: String,
    /// How many.
    pub lines: u64,
    /// Some of them.
    pub examples: Vec<UnreadLine>,
}

/// A line that could not be read, or was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnreadLine {
    /// Its file and its number: `access.log:12`.
    pub place: String,
    /// The structure of its beginning, without the contents.
    pub shape: String,
    /// Its begin. `None` if keys are hidden, as it may hold some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl fmt::Display for UnreadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => write!(f, "{}: {text}", self.place),
            None => write!(f, "{}, of the shape: {}", self.place, self.shape),
        }
    }
}

/// A time without requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadGap {
    /// The last request before it.
    pub from: String,
    /// The first request after it.
    pub to: String,
    /// Its length in seconds.
    pub seconds: f64,
}
