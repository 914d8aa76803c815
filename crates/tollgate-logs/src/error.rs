//! The reason why logs cannot be read.

use std::{fmt, io};

use thiserror::Error;

use crate::doubt::Doubt;
use crate::look::Look;
use crate::summary::Example;

/// The reason why logs cannot be read. A retry does not help.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A pattern of names is invalid. The user can correct it.
    #[error("{pattern}: invalid pattern of file names")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// The error in it.
        source: glob::PatternError,
    },
    /// There is no such file, or nothing has the pattern. The user can correct it.
    #[error("{name}: no such file")]
    NoFile {
        /// The requested name.
        name: String,
    },
    /// A folder has no files. The user can correct it.
    #[error("{name}: no files in this folder")]
    EmptyFolder {
        /// The folder.
        name: String,
    },
    /// The standard input is named more than once.
    #[error("the standard input can be read only once")]
    StdinTwice,
    /// A file or a folder cannot be opened: it is not permitted, or does not exist. The user can correct it.
    #[error("{name}: cannot be opened")]
    Open {
        /// The file or the folder.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// Reading failed, or compressed data is damaged or cut off.
    #[error("{name}: cannot be read")]
    Read {
        /// The file.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// No known format reads the first lines of a file.
    #[error(
        "{name}: no known format fits these lines; {}",
        advice(line, *look, format.as_deref(), nearest.as_deref())
    )]
    UnknownFormat {
        /// The file.
        name: String,
        /// Its first line that is not empty.
        line: Example,
        /// What it looks like.
        look: Option<Look>,
        /// A format that reads its first lines, written out from one of them.
        format: Option<String>,
        /// A line that shows why.
        nearest: Option<Box<Nearest>>,
    },
    /// The first lines of a file do not show for certain who the clients are. The user can choose.
    #[error("{name}: {doubt}")]
    UnclearClient {
        /// The file.
        name: String,
        /// What a line may mean.
        doubt: Doubt,
    },
    /// No first line of a file has a client, and [`Options::needs_client`](crate::Options::needs_client) is set. The
    /// user can name its field.
    #[error(
        "{name}: none of the first lines has the address of a client; name its field with --attr ip=SOURCE, write the format \
         out with --format, or do not count by `ip`"
    )]
    NoClient {
        /// The file.
        name: String,
    },
    /// A format fits the first lines of a file, and one with more fields fits most of them. The user can choose.
    #[error(
        "{name}: the format {richer} fits most of these lines, but not line {}; choose it with --format {richer}, and \
         --max-unparsed if more than 1 % of lines do not fit, or {poorer}, which fits them all and has fewer fields, with \
         --format {poorer}; the shape of this line: {}", line.line, line.shape()
    )]
    UnclearFormat {
        /// The file.
        name: String,
        /// The format that fits.
        poorer: String,
        /// The format with more fields.
        richer: String,
        /// The first line that the second one does not fit.
        line: Example,
    },
    /// The format that was given reads none of the first lines of a file.
    #[error("{name}: the given format does not fit line {}, of the shape: {}", line.line, line.shape())]
    OtherFormat {
        /// The file.
        name: String,
        /// One of these lines.
        line: Example,
    },
    /// A format lacks the field with the time, or one that an attribute needs.
    #[error("{name}: lines of the format {format} have no field {field}{}", hint(field))]
    NoField {
        /// The file.
        name: String,
        /// Its format.
        format: String,
        /// The missing field.
        field: String,
    },
    /// Times have no zone, and no zone is set.
    #[error(
        "{name}: the times in this log have no time zone; give it, such as --tz Europe/Berlin or --tz UTC"
    )]
    NoZone {
        /// The file.
        name: String,
    },
    /// Too many lines cannot be read. [`Reader::summary`](crate::Reader::summary) has examples.
    #[error(
        "{unparsed} of {lines} lines cannot be read, which is more than {} %; --max-unparsed allows more{hint}",
        percent(*max_unparsed)
    )]
    Unparsed {
        /// The number of unreadable lines.
        unparsed: u64,
        /// The number of all lines, without empty lines and comments.
        lines: u64,
        /// The share that is allowed.
        max_unparsed: f64,
        /// The flag that reads most of them, if their clients are not certain.
        hint: String,
    },
    /// Too many requests are late, so they were left out. [`Reader::summary`](crate::Reader::summary) has examples.
    #[error(
        "{late} of {lines} lines are too far out of order, which is more than {} %; use --sort",
        percent(*max_unparsed)
    )]
    Late {
        /// The number of late lines.
        late: u64,
        /// The number of all lines, without empty lines and comments.
        lines: u64,
        /// The share that is allowed.
        max_unparsed: f64,
    },
    /// The requests of one second do not fit into the memory for them.
    #[error("more than {} MiB of requests in one second of the log", Error::SECOND >> 20)]
    Dense,
    /// More files must be read at the same time than allowed. Sorting reads one after the other.
    #[error("more than {} files overlap in time; use --sort", Error::FILES)]
    Overlap,
    /// There is no room for temporary files, or they cannot be written.
    #[error("sorting: a temporary file failed")]
    Temporary(#[source] io::Error),
}

/// A line that shows why a log has no known format.
///
/// Lines hold addresses and tokens, so its text is a line's [shape](Example::shape).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nearest {
    /// The name of the format that reads many lines, but not this one.
    /// `None` if the line is JSON without a known field of a request.
    pub format: Option<String>,
    /// The line.
    pub line: Example,
}

impl fmt::Display for Nearest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { format, line: example } = self;
        let (line, shape) = (example.line, example.shape());
        match format {
            Some(format) => {
                write!(
                    f,
                    "the format {format} fits many lines, but not line {line}; if it is the right one, add --format \
                     {format}, and --max-unparsed if more than 1 % of lines do not fit; the shape of this line: \
                     {shape}"
                )
            }
            None => write!(
                f,
                "line {line} is JSON without a request: it needs a time (--time names its field), and a path, a method or \
                 what --attr names; its shape: {shape}"
            ),
        }
    }
}

impl Error {
    /// The maximum memory for the requests of one second, in bytes.
    pub const SECOND: usize = 1 << 30;
    /// The maximum number of files that are merged at the same time.
    pub const FILES: usize = 512;
}

/// Returns what to do about a file that no format reads. Of text, it shows the shape of a line.
fn advice(line: &Example, look: Option<Look>, format: Option<&str>, nearest: Option<&Nearest>) -> String {
    let shape = || format!("line {} has the shape: {}", line.line, line.shape());
    if let Some(format) = format {
        let name = match look {
            Some(Look::Logfmt) => "it looks like logfmt; ",
            Some(Look::BareRequest) => "its requests have no quotes; ",
            _ => "",
        };
        return format!(
            "{name}a format that reads them, if its only address is that of the client: --format '{format}'; {}",
            shape()
        );
    }
    match (look, nearest) {
        (_, Some(nearest)) => format!("{WRITTEN_OUT}; {nearest}"),
        (Some(look @ (Look::Utf16(_) | Look::Data(_) | Look::Compressed(_))), None) => look.to_string(),
        (Some(look), None) => format!("{look}; {}", shape()),
        (None, None) => format!("{WRITTEN_OUT}; {}", shape()),
    }
}

/// What helps with every text.
const WRITTEN_OUT: &str = "name one (nginx: --format 'log_format ...', Apache: --format 'LogFormat ...')";

/// Returns the advice for a missing field.
fn hint(field: &str) -> &'static str {
    if field == "time" {
        "; in JSON lines and tables, name the field with the time, such as --time created"
    } else {
        ""
    }
}

/// A share as a percentage with at most two digits behind the point.
fn percent(share: f64) -> f64 {
    (share * 10_000.0).round() / 100.0
}
