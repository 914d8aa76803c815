//! The time of a charge, as its counter sees it.

use crate::Timestamp;

/// The time of a charge, as its counter sees it. A refund names it, so that units return to the window that was
/// charged.
///
/// For fixed windows it is the start of the window that was charged. Limiters keep it in a
/// [`Receipt`](crate::Receipt). Make one only to refund without a receipt, as administrators do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mark(Timestamp);

impl Mark {
    /// Returns the mark at this time.
    #[must_use]
    pub const fn at(time: Timestamp) -> Self {
        Self(time)
    }

    /// Returns the time that it marks.
    #[must_use]
    pub const fn time(self) -> Timestamp {
        self.0
    }
}
