//! How logs are read.

use std::time::Duration;

use jiff::tz::TimeZone;

use crate::attribute::{Attribute, TimeField};
use crate::format::Format;
use crate::request::Field;

/// How logs are read. The default fits most logs.
///
/// ```
/// use tollgate_logs::Options;
///
/// let options = Options {
///     attributes: vec!["user=json:/user/id".parse()?, "api_key=query:key".parse()?],
///     zone: Some(jiff::tz::TimeZone::get("Europe/Berlin")?),
///     ..Options::default()
/// };
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    /// The format of all files. Of the first 1,000 lines of each, it has to read one. `None`: that of each file is
    /// detected from these lines, of which it has to read more than 95 %.
    pub format: Option<Format>,
    /// The zone of times that are logged without one. Without it, such a log is an error.
    pub zone: Option<TimeZone>,
    /// Where the time is, for JSON lines and tables whose names of fields are not known here.
    pub time: Option<TimeField>,
    /// Values that requests have besides the usual fields; one with the name of a field replaces it.
    pub attributes: Vec<Attribute>,
    /// The text fields that are wanted. Others are `None`, which saves memory and time. All of them by default.
    pub fields: Vec<Field>,
    /// The share of lines that may be unreadable, and the share that may be late, each from 0 to 1. By default it is 0.01.
    pub max_unparsed: f64,
    /// How requests come into the order of time.
    pub order: Order,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            format: None,
            zone: None,
            time: None,
            attributes: Vec::new(),
            fields: Field::ALL.to_vec(),
            max_unparsed: 0.01,
            order: Order::default(),
        }
    }
}

/// How requests come into the order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Files are merged by time, and requests wait in memory for earlier ones. A request is late if it lies further back
    /// than the window, or if later ones could not wait for want of room. Late requests are counted and left out.
    Nearly {
        /// How far a request may lie behind the latest one of its file. One that alone lies further ahead does not count:
        /// its clock was wrong.
        window: Duration,
        /// How many requests may wait. They may also take 512 MiB at most.
        requests: usize,
    },
    /// Everything is read first and sorted, in temporary files if it does not fit in this many bytes of memory. No
    /// request is late.
    Sort {
        /// The bytes of memory to sort in.
        memory: usize,
    },
}

impl Order {
    /// Sorts in 256 MiB of memory.
    pub const SORT: Self = Self::Sort { memory: 256 << 20 };
}

/// A minute, or a million requests.
impl Default for Order {
    fn default() -> Self {
        Self::Nearly { window: Duration::from_secs(60), requests: 1_000_000 }
    }
}
