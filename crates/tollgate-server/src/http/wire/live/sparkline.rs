//! A figure in each second of the last minute.

use serde::{Serialize, Serializer};

use crate::dashboard::series::MINUTE;

/// The points, the oldest one first; `None` where nothing was recorded.
pub(super) struct Sparkline([Option<u32>; MINUTE]);

impl Sparkline {
    /// Returns all that were decided, and the denied among them.
    pub(super) fn pair(decided: [Option<(u32, u32)>; MINUTE]) -> [Self; 2] {
        let all = decided.map(|counts| counts.map(|(allowed, denied)| allowed.saturating_add(denied)));
        [Self(all), Self(decided.map(|counts| counts.map(|(_, denied)| denied)))]
    }
}

impl Serialize for Sparkline {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0)
    }
}
