//! The busiest second or minute.

use tollgate::Timestamp;

/// Requests by slots of time, of which only the busiest is kept. Times never go back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Busiest {
    /// In milliseconds.
    length: i64,
    start: i64,
    requests: u64,
    most: u64,
    start_of_most: i64,
}

impl Busiest {
    pub(super) const fn new(length: i64) -> Self {
        Self { length, start: i64::MIN, requests: 0, most: 0, start_of_most: 0 }
    }

    pub(super) fn note(&mut self, now: Timestamp) {
        let now = now.as_unix_millis();
        if self.start == i64::MIN || now >= self.start.saturating_add(self.length) {
            (self.start, self.requests) = (now.saturating_sub(now.rem_euclid(self.length)), 0);
        }
        self.requests += 1;
        // Of two that are as busy, it is the first.
        if self.requests > self.most {
            (self.most, self.start_of_most) = (self.requests, self.start);
        }
    }

    /// The most requests, and the start of their time; `None` without requests.
    pub(super) fn most(&self) -> Option<(u64, Timestamp)> {
        (self.most > 0).then_some((self.most, Timestamp::from_unix_millis(self.start_of_most)))
    }
}
