//! What limits would do to traffic: requests of the past, replayed through policies.
//!
//! A [`Replay`] decides on each request with the engine that decides live, under a clock that the requests drive. Its
//! [`Report`] says which requests and which clients would have been denied, when, by which quota, and what other limits
//! would have done. A [`Gate`] holds a report against what is allowed. [`suggest`] goes the other way: from traffic and a
//! share of clients that may be denied to a limit.
//!
//! ```text
//! requests ──▶ Replay ──▶ Report ──▶ text, Markdown, JSON, HTML
//!                           │
//!                           └──────▶ Gate
//! ```
//!
//! The crate knows no format of logs and reads no files.

mod class;
mod curve;
mod decimal;
mod gate;
mod histogram;
mod html;
mod output;
mod replay;
mod report;
mod shortened;
pub mod suggest;

pub use self::class::{ClassError, Classes, Known};
pub use self::curve::{Basis, Curve, Point};
pub use self::gate::{Gate, GateError, GateResult, Held};
pub use self::histogram::Histogram;
pub use self::output::{Answer, code};
pub use self::replay::{Hit, Options, Replay, ReplayError, Role};
pub use self::report::*;
