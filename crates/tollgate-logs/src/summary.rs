//! The summary of a reading.

use std::collections::HashMap;

use crate::field::{Instant, Precision};
use crate::gaps::Gaps;

/// Files with fewer requests may be alike by chance.
const LEAST_OF_COPIES: u64 = 100;

/// The summary of what has been read. It is complete once [`Reader::read`](crate::Reader::read) has found no more
/// requests, or returned [`Error::Unparsed`](crate::Error::Unparsed) or [`Error::Late`](crate::Error::Late).
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// The files, in the order in which a server wrote them: by the times in their first lines. Files without a request
    /// there come last. [`Request::file`](crate::Request::file) is a place in here.
    pub files: Vec<LogFile>,
    /// All lines, of every kind. Empty ones count.
    pub lines: u64,
    /// The requests that were put in order. If reading fails, the last of them are not returned.
    pub requests: u64,
    /// Readable lines that are not requests: empty ones, headers, comments, other messages of the server, and JSON
    /// without a known field of a request.
    pub others: u64,
    /// The lines that could not be read, by reason.
    pub unparsed: Vec<UnparsedLines>,
    /// Requests that were left out because later ones had been replayed already.
    pub late: u64,
    /// Some of them.
    pub late_examples: Vec<Example>,
    /// The beginning of the first request, in microseconds since the epoch. `None` without requests.
    pub first_micros: Option<i64>,
    /// The beginning of the last request, in microseconds since the epoch.
    pub last_micros: Option<i64>,
    /// The longest times without requests.
    pub gaps: Gaps,
    /// Requests whose local time exists twice, at the end of summer time. The order in the file decided which was
    /// meant.
    pub ambiguous: u64,
    /// Whether a request had the header `X-Forwarded-For` that an attribute asks for
    /// ([`AttributeSource::Xff`](crate::AttributeSource::Xff)).
    pub has_forwarded: bool,
    /// Requests whose client a trusted proxy hides: its entry in `X-Forwarded-For` is no address, such as `unknown`.
    /// They count for that proxy, or for nobody if the log has no other address.
    pub hidden_clients: u64,
    /// Requests whose client a trusted proxy does not name: its entry in `X-Forwarded-For` is empty. They have no
    /// client.
    pub unnamed_clients: u64,
}

impl Summary {
    /// Returns pairs of files that are probably the same log, such as `access.log.1` and `access.log.1.gz`: they have
    /// the same number of lines and of requests, and these begin and end at the same times.
    #[must_use]
    pub fn copies(&self) -> Vec<(&LogFile, &LogFile)> {
        let mut known: HashMap<_, &LogFile> = HashMap::new();
        let files = self.files.iter().filter(|file| file.requests >= LEAST_OF_COPIES);
        let pairs = files.filter_map(|file| {
            let first = *known.entry((file.lines, file.requests, file.span)).or_insert(file);
            (!std::ptr::eq(first, file)).then_some((first, file))
        });
        pairs.collect()
    }

    /// Returns the number of unreadable lines.
    #[must_use]
    pub fn unparsed_lines(&self) -> u64 {
        self.unparsed.iter().map(|unparsed| unparsed.lines).sum()
    }
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LogFile {
    /// Its path, or the name of the input.
    pub name: String,
    /// The name of the format, with the prefix of its lines: `nginx-combined`, `haproxy in syslog`. `None` if the file
    /// has no lines.
    pub format: Option<String>,
    /// Which instant the format logs.
    pub instant: Option<Instant>,
    /// The precision of the format's times.
    pub precision: Option<Precision>,
    /// Whether the log may hold only a sample of all requests: its first lines have the fields of Cloudflare's
    /// Logpush, or of load balancers of Google Cloud.
    pub may_be_sampled: bool,
    /// Whether clients in its first lines are names of hosts, in place of addresses.
    pub has_names: bool,
    /// A field in which most of the first lines have other addresses than those of their clients, which may be proxies.
    pub others: Option<OtherAddresses>,
    /// All its lines.
    pub lines: u64,
    /// The requests among them, with late ones.
    pub requests: u64,
    /// The earliest time in its first lines and the latest time, except a lone one far ahead, in microseconds since the
    /// epoch.
    pub(crate) span: (i64, i64),
}

/// A field with addresses that are not those of the clients.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OtherAddresses {
    /// The field: `X-Forwarded-For`, or `the field x_real_ip`.
    pub place: String,
    /// How many of the first lines have another address there,
    pub lines: usize,
    /// of so many requests.
    pub requests: usize,
    /// The name of the field that is read as the client's.
    pub client: String,
    /// The flags that read the clients from the other field, as they are typed in a shell.
    pub flags: String,
}

/// Lines that could not be read for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnparsedLines {
    /// Why, such as `the time is invalid`.
    pub reason: &'static str,
    /// How many.
    pub lines: u64,
    /// The first ones, at most [`Example::MOST`].
    pub examples: Vec<Example>,
}

/// A line, to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Example {
    /// A place in [`Summary::files`]. It is 0 in an error that names the file.
    pub file: usize,
    /// The number of the line in its file, from 1.
    pub line: u64,
    /// The beginning of the line: at most [`Example::LENGTH`] bytes, with unprintable characters as `\xHH`.
    pub text: String,
}

impl Example {
    /// The maximum number of examples for one reason.
    pub const MOST: usize = 3;
    /// The maximum number of bytes of a line that are shown.
    pub const LENGTH: usize = 200;

    /// Line `line` of the file at place `file`.
    pub(crate) fn new(file: usize, line: u64, text: &[u8]) -> Self {
        let mut shown = String::new();
        for &byte in text.iter().take(Self::LENGTH) {
            match byte {
                b' '..=b'~' => shown.push(byte.into()),
                _ => shown.push_str(&format!("\\x{byte:02X}")),
            }
        }
        Self { file, line, text: shown }
    }

    /// Returns the structure of the line, without its contents: `0` means a number and `a` a word, of any length.
    ///
    /// So a line can be compared with a format where addresses and tokens must not be seen.
    #[must_use]
    pub fn shape(&self) -> String {
        let mut shape = String::new();
        for character in self.text.chars() {
            let is_word = character.is_ascii_alphanumeric();
            let last = shape.chars().next_back().filter(char::is_ascii_alphanumeric);
            match (last, character.is_ascii_digit()) {
                (Some('a'), _) if is_word => {}
                (Some('0'), true) => {}
                (Some('0'), false) if is_word => {
                    shape.pop();
                    shape.push('a');
                }
                _ if !is_word => shape.push(character),
                (_, true) => shape.push('0'),
                (_, false) => shape.push('a'),
            }
        }
        shape
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_has_no_words_and_no_numbers() {
        let line = br#"203.0.113.7 - me [23/Nov/2026] "GET /a?key=5f00aa&b HTTP/1.1" 200 "#;
        let example = Example::new(0, 1, &[line, &b"\xff"[..]].concat());
        assert_eq!(example.shape(), r#"0.0.0.0 - a [0/a/0] "a /a?a=a&a a/0.0" 0 \a"#);
    }
}
