//! Bounds how often the live figures are asked for.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tollgate::Timestamp;

/// The last requests that were admitted, as a log. A viewer asks once a second, so this is enough for eight of them.
///
/// It counts requests and not connections, because a proxy may open one for each request.
#[derive(Debug, Default)]
pub(crate) struct Viewers(Mutex<VecDeque<Timestamp>>);

impl Viewers {
    /// The number of requests that are admitted in each [`SPAN`](Self::SPAN).
    pub(crate) const MAX: usize = 40;
    pub(crate) const SPAN: Duration = Duration::from_secs(5);

    /// Returns whether a request may be answered now.
    pub(crate) fn admit(&self, now: Timestamp) -> bool {
        let mut admitted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while admitted.front().is_some_and(|first| now.since(*first) >= Self::SPAN) {
            admitted.pop_front();
        }
        let has_room = admitted.len() < Self::MAX;
        if has_room {
            admitted.push_back(now);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_viewers_may_ask_once_a_second_and_a_ninth_may_not() {
        let at = |millis| Timestamp::from_unix_millis(1_700_000_000_000 + millis);
        let play = |viewers: i64| {
            let bound = Viewers::default();
            let times = (0..60).flat_map(|second| (0..viewers).map(move |viewer| second * 1_000 + viewer));
            times.filter(|millis| !bound.admit(at(*millis))).count()
        };
        assert_eq!(play(8), 0);
        assert!(play(9) > 0);
        let bound = Viewers::default();
        assert_eq!((0..100).filter(|_| bound.admit(at(0))).count(), Viewers::MAX);
        assert!(!bound.admit(at(4_999)) && bound.admit(at(5_000)));
    }
}
