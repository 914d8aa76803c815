//! Costs above the reserved one.

use std::fmt;

/// What settling a hold charges if its actual cost is above the reserved one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Overrun {
    /// All of it, whether or not there is room, as [`record`](crate::PolicyLimiter::record) does.
    #[default]
    Charge,
    /// As much as there is room for under the limit. The rest is forgiven.
    Cap,
}

impl Overrun {
    /// Returns its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Charge => "charge",
            Self::Cap => "cap",
        }
    }
}

impl fmt::Display for Overrun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
