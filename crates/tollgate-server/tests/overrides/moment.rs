//! The time of this machine, which the stores share.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A point in time in microseconds since the epoch. The clock never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(i64);

impl Moment {
    pub(crate) fn now() -> Self {
        static BEGUN: OnceLock<(Instant, i64)> = OnceLock::new();
        let (begun, at) = BEGUN.get_or_init(|| {
            let at = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
            (Instant::now(), i64::try_from(at.as_micros()).expect("it is long before the end of time"))
        });
        Self(at + i64::try_from(begun.elapsed().as_micros()).expect("no proof takes so long"))
    }

    /// Whole milliseconds since the epoch.
    pub(crate) fn millis(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    pub(crate) fn later(self, by: Duration) -> Self {
        Self(self.0 + i64::try_from(by.as_micros()).expect("no proof takes so long"))
    }

    /// The time since then; zero if that is later.
    pub(crate) fn since(self, then: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0 - then.0).unwrap_or(0))
    }
}
