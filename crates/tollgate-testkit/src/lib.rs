//! Tests for stores: one conformance suite, one reference model, and the races and attacks that every store must
//! withstand.
//!
//! A store comes in as a [`StoreUnderTest`]: the store, and a way to wait for its time. Traits add further abilities
//! ([`SettableClock`], [`CappedStore`]), so that a rule that needs them is never silently skipped: it does not compile
//! for a store without them.
//!
//! | to prove | use |
//! |---|---|
//! | every rule of the semantics, one test each | [`conformance!`] |
//! | any sequence of steps gets the answers of a simple model | [`plan`] or [`crowd`], [`replay`] |
//! | buckets and sliding windows admit what their definitions say | [`kinds`] |
//! | counts are exact under any number of threads | [`race`] |
//! | a boundary lets through twice the limit and never more | [`boundary`] |
//! | no window admits more than its limit on the real clock | `realtime`, on Linux, for its clock ticks |
//! | service and middleware read a request alike and decide alike | [`requests`] |
//! | no kind of value is a way past policies | [`pairs`] |
//! | what the manual shows is what the programs do | [`manual`] |
//! | a failing store is handled as the policy says | [`FaultyStore`] |
//! | how a shared store works with real servers, and when they fail | `servers`, a feature |
//!
//! Everything here asserts: a broken promise is a panic that names it.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a testkit's errors are failed tests")]

pub mod boundary;
pub mod conformance;
mod counter_under_test;
mod faulty;
mod hold_under_test;
pub mod kinds;
pub mod manual;
mod memory;
mod model;
pub mod pairs;
mod plan;
pub mod race;
#[cfg(target_os = "linux")]
pub mod realtime;
mod replay;
pub mod requests;
mod runtime;
#[cfg(all(feature = "servers", unix))]
pub mod servers;
mod step_counts;
mod steps;
mod store_under_test;
pub mod windows;

pub use self::counter_under_test::CounterUnderTest;
pub use self::faulty::{FaultyStore, StoreFault, Unreachable};
pub use self::hold_under_test::{HoldsUnderTest, TestedHold, TestedStep};
pub use self::memory::{ManualMemory, SystemMemory};
pub use self::model::{Model, ModelCounter};
pub use self::plan::{ClockMoves, PlannedCharge, PlannedStep, StepPlan, crowd, plan, quota};
pub use self::replay::replay;
pub use self::runtime::block_on;
pub use self::step_counts::{ChargeCount, GivenBackUnits, StepCounts};
pub use self::steps::StoreSteps;
pub use self::store_under_test::{CappedStore, SettableClock, StoreUnderTest, instant};
/// The library as the testkit sees it. The library's own unit tests build it a second time.
pub use tollgate;
