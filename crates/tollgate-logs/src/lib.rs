//! Access logs as one stream of requests, ordered by time.
//!
//! A [`Reader`] reads files, folders and pipes, compressed or not, of web servers, proxies, load balancers and CDNs.
//! Their formats are detected, named, or pasted from the server's configuration. It is independent of limits.
//!
//! ```no_run
//! use tollgate_logs::{Batch, Options, Reader};
//!
//! let mut reader = Reader::open(["/var/log/nginx/access.log*"], Options::default())?;
//! let mut batch = Batch::default();
//! while reader.read(&mut batch)? {
//!     for request in batch.requests() {
//!         println!("{} {:?}", request.time_micros(), request.path());
//!     }
//! }
//! println!("{} lines could not be read", reader.summary().unparsed_lines());
//! # Ok::<(), tollgate_logs::Error>(())
//! ```
//!
//! The crate has no optional features. The manual in `docs/` of the repository continues: `simulate.md` lists the
//! formats and names the fields that become attributes. The example `busiest` lists the clients that asked most often.
//!
//! # The way of a line
//!
//! ```text
//! inputs ─▶ lines ─▶ format ─▶ record ─▶ buckets ─▶ Request
//!           bytes    fields    one       the order
//!           until    of a      time in   of time
//!           a feed   line      UTC
//! ```

mod attribute;
mod batch;
mod client;
mod doubt;
mod draft;
mod error;
mod escape;
mod field;
mod format;
mod forwarded;
mod gaps;
mod input;
mod known;
mod lines;
mod look;
mod meaning;
mod open;
mod options;
mod order;
mod plan;
mod progress;
mod reader;
mod reason;
mod record;
mod request;
mod summary;
mod tally;
mod time;
mod value;

pub use self::attribute::{Attribute, AttributeError, AttributeSource, TimeField, TimeForm};
pub use self::batch::Batch;
pub use self::doubt::{Doubt, Reading};
pub use self::error::{Error, Nearest};
pub use self::field::{Field, Instant, Precision};
pub use self::format::{Format, FormatError};
pub use self::gaps::{Gap, Gaps};
pub use self::input::Input;
pub use self::look::Look;
pub use self::options::{Options, Order};
pub use self::progress::{Progress, Watch};
pub use self::reader::Reader;
pub use self::request::Request;
pub use self::summary::{Example, LogFile, OtherAddresses, Summary, UnparsedLines};
