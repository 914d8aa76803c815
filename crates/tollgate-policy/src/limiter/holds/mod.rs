//! Holds: units in flight and charges that belong to an id until they are settled or expire.
//!
//! A reservation is matched and decided as a check is. Its [`PolicyHold`] has everything that later calls need, so the
//! policies may change in between.

mod answer;
mod cancel;
mod overrun;
mod policy_hold;
mod renew;
mod reserve;
mod settle;

pub use self::answer::{HoldSettlement, RenewAnswer, ReserveAnswer, SettleAnswer};
pub use self::policy_hold::{HoldPart, InFlightPart, PolicyHold};
pub use self::reserve::AskedHold;
