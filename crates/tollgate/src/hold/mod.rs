//! Holds with an id: what a store is asked, and what it answers.
//!
//! A hold is units that belong to an id until it is settled or has expired: units in flight, units charged to quotas, or
//! both. The id makes every call repeatable after a lost reply. The guard of one process, which needs no id, is
//! [`Hold`](crate::Hold).

mod answer;
mod id;
mod length;
mod step;

pub use self::answer::{HoldAnswer, HoldPlace, HoldStates, SettledStates};
pub use self::id::HoldId;
pub use self::length::HoldLength;
pub use self::step::{HoldAdjustment, HoldStep, HoldTerms, InFlightCharge};
