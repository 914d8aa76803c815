//! Lengths as quotas are written with: in the largest unit that divides them.

use std::fmt;

use super::{DAY, HOUR, MINUTE, SECOND};

/// A length in milliseconds.
pub(crate) struct LengthText(pub(crate) u64);

impl fmt::Display for LengthText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = [(DAY, "d"), (HOUR, "h"), (MINUTE, "m"), (SECOND, "s")]
            .into_iter()
            .find(|(unit, _)| self.0.is_multiple_of(*unit))
            .unwrap_or((1, "ms"));
        write!(f, "{}{name}", self.0 / unit)
    }
}
