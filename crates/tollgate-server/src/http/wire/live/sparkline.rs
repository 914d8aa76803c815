//! A figure in each second of the last minute.

use serde::{Serialize, Serializer};

use crate::dashboard::series::MINUTE;

/// The points, the oldest one first; `None` where nothing was recorded.
pub(super) struct Sparkline([Option<u32>; MINUTE]);

impl Sparkline {
    /// Returns all that were decided, and the denied among them.
    pub(super) fn pair(decided: [Option<(u32, u32)>; MINUTE]) -> [Self; 2] {
        let [mut all, mut denials] = [[None; MINUTE]; 2];
        // Not `map` of an array, which is slow: a thousand policies are written while somebody waits.
        for ((all, denials), counts) in all.iter_mut().zip(&mut denials).zip(decided) {
            *all = counts.map(|(allowed, denied)| allowed.saturating_add(denied));
            *denials = counts.map(|(_, denied)| denied);
        }
        [Self(all), Self(denials)]
    }
}

impl Serialize for Sparkline {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0)
    }
}
