//! Options for reading logs.

use std::time::Duration;

use jiff::tz::TimeZone;

use crate::attribute::{Attribute, TimeField};
use crate::field::Field;
use crate::format::Format;
use crate::plan::Plan;

/// Options for reading logs. The default fits most logs.
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
    /// detected from these lines; it must read more than 95 % of them.
    pub format: Option<Format>,
    /// The zone of times that are logged without one. Without it, such a log is an error.
    pub zone: Option<TimeZone>,
    /// The place of the time, for JSON lines and tables with unknown field names.
    pub time: Option<TimeField>,
    /// Additional values of requests; one with the name of a field replaces it.
    pub attributes: Vec<Attribute>,
    /// The text fields that are wanted. Others are `None`, which saves memory and time. All of them by default.
    pub fields: Vec<Field>,
    /// Whether a log is an error if none of its first lines has a client. By default it is not.
    pub needs_client: bool,
    /// The share of lines that may be unreadable, and the share that may be late, each from 0 to 1. By default it is
    /// 0.01.
    pub max_unparsed: f64,
    /// How requests are ordered by time.
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
            needs_client: false,
            max_unparsed: 0.01,
            order: Order::default(),
        }
    }
}

impl Options {
    /// The plan for each line.
    pub(crate) fn plan(&self) -> Plan {
        Plan::new(self.attributes.clone(), self.time.clone(), &self.fields).with_client(self.needs_client)
    }

    /// The plan for the first lines, which show the format.
    pub(crate) fn detection_plan(&self) -> Plan {
        Plan::for_detection(self.attributes.clone(), self.time.clone()).with_client(self.needs_client)
    }
}

/// How requests are ordered by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Files are merged by time, and requests wait in memory for earlier ones. A request is late if it is further back
    /// than the window, or if later ones could not wait because memory ran out. Late requests are counted and left out.
    Nearly {
        /// How far a request may be behind the latest one of its file. A single one that is further ahead does not
        /// count: its clock was wrong.
        window: Duration,
        /// The maximum number of waiting requests. They may also take 512 MiB at most.
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
