//! Proof for stores: one conformance suite, one reference model, and the races and attacks every store must stand.
//!
//! A store comes in as a [`Subject`]: itself, and a way to wait for its time. What a subject can do besides is
//! said by traits ([`SteeredClock`], [`Capped`]), so that a rule that needs more is never skipped in silence: it
//! does not compile for a store that lacks it.
//!
//! | to prove | use |
//! |---|---|
//! | every rule of the semantics, one test each | [`conformance!`] |
//! | any sequence of steps gives the answers of a simple model | [`plan`] or [`crowd`], [`replay`] |
//! | counts are exact under any number of threads | [`race`] |
//! | a boundary lets through twice the limit and never more | [`boundary`] |
//! | no window admits more than its limit on the real clock | `realtime`, on Linux, which tells of its ticks |
//! | service and middleware see one request and decide alike | [`requests`] |
//! | trouble of a store is answered as the policy says | [`FaultyStore`] |
//! | what a shared store does with real servers, and when they are in trouble | `servers`, a feature |
//!
//! Everything here asserts: a broken promise is a panic that says which.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a testkit's errors are failed tests")]

pub mod boundary;
mod caller;
pub mod conformance;
mod faulty;
mod memory;
mod model;
mod plan;
pub mod race;
#[cfg(target_os = "linux")]
pub mod realtime;
mod replay;
pub mod requests;
mod runtime;
mod seen;
#[cfg(all(feature = "servers", unix))]
pub mod servers;
mod steps;
mod subject;
pub mod windows;

pub use self::caller::Caller;
pub use self::faulty::{Fault, FaultyStore, Unreachable};
pub use self::memory::{ManualMemory, SystemMemory};
pub use self::model::Model;
pub use self::plan::{Ask, Moves, Op, Plan, crowd, plan, quota};
pub use self::replay::replay;
pub use self::runtime::block_on;
pub use self::seen::{Count, Counted, Given};
pub use self::steps::StoreSteps;
pub use self::subject::{Capped, SteeredClock, Subject, instant};
/// The library as the testkit sees it. Inside its unit tests the library is built a second time.
pub use tollgate;
