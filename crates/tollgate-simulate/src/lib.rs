//! The effect of limits on traffic: past requests, replayed through policies.
//!
//! Use this crate to see which clients a limit would deny before it denies any. `tollgate simulate` and `tollgate
//! suggest` are its commands.
//!
//! ```
//! use tollgate::Timestamp;
//! use tollgate_policy::Config;
//! use tollgate_simulate::{Gate, GateVerdict, Hit, Options, Replay};
//!
//! let text = "
//! policies:
//!   - { name: login, match: { path: /login }, key: [ip], quotas: [2/1m] }
//! ";
//! let policies = Config::parse("tollgate.yaml", text)?.into_policies();
//! let mut replay = Replay::new(policies, None, Options::default())?;
//! for second in 0..5 {
//!     let time = Timestamp::from_unix_millis(1_700_000_040_000 + second * 1_000);
//!     let attributes = [("ip", "192.0.2.7"), ("path", "/login")].into_iter().collect();
//!     replay.request(Hit::new(time, attributes))?;
//! }
//! let report = replay.report();
//! assert_eq!((report.requests, report.denied), (5, 3));
//!
//! let gate: Gate = "denied > 10%".parse()?;
//! assert_eq!(gate.check(&report, 1)?.held, GateVerdict::Failed);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The crate has no optional features. It knows no format of logs and reads no files; `tollgate-logs` does. The manual
//! in `docs/` of the repository continues: `simulate.md` explains reports, gates and suggestions.
//!
//! # The way of a request
//!
//! A [`Replay`] decides on each request with the engine that decides live, under a clock that the requests drive. Its
//! [`Report`] says which requests and which clients would have been denied, when, by which quota, and what other limits
//! would have done. A [`Gate`] holds a report against what is allowed. [`suggest`] goes the other way: from traffic
//! and a share of clients that may be denied to a limit.
//!
//! ```text
//! requests ──▶ Replay ──▶ Report ──▶ text, Markdown, JSON, HTML
//!                           │
//!                           └──────▶ Gate
//! ```

mod class;
mod curve;
mod decimal;
mod fingerprint;
mod followed;
mod gate;
mod histogram;
mod hit;
mod limits;
pub mod look;
mod output;
mod quoted;
mod replay;
mod report;
mod role;
mod routes;
mod shortened;
pub mod suggest;
mod time;

pub use self::class::{ClassError, Classes, KnownClients};
pub use self::curve::{Basis, Curve, Point};
pub use self::gate::{Certainty, Gate, GateError, GateResult, GateVerdict, MeasuredValue};
pub use self::histogram::Histogram;
pub use self::hit::Hit;
pub use self::output::{CheckedReport, Style, percent, percentage, share_of_clients};
pub use self::quoted::code;
pub use self::replay::{Options, Replay, ReplayError, other_kinds};
pub use self::report::*;
pub use self::role::Role;
