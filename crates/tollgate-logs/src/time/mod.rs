//! Times as logs write them.

mod form;
mod zone;

pub(crate) use self::form::{Stamp, day_of, micros_of_day, parse};
pub(crate) use self::zone::{Fold, Zone};

/// A second.
pub(crate) const SECOND: i64 = 1_000_000;
/// A day without leap seconds, as in Unix time.
pub(crate) const DAY: i64 = 86_400 * SECOND;
