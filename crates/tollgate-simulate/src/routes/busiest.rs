//! The busiest second or minute.

use tollgate::Timestamp;

/// Requests by slots of time, of which only the busiest is kept. Times never go back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Busiest {
    /// In milliseconds.
    length: i64,
    start: i64,
    requests: u64,
    most: u64,
    start_of_most: i64,
}

impl Busiest {
    pub(crate) const fn new(length: i64) -> Self {
        Self { length, start: i64::MIN, requests: 0, most: 0, start_of_most: 0 }
    }

    /// Notes so many requests of one time.
    pub(crate) fn note(&mut self, now: Timestamp, requests: u64) {
        let now = now.as_unix_millis();
        if self.start == i64::MIN || now >= self.start.saturating_add(self.length) {
            (self.start, self.requests) = (self.start_of_millis(now), 0);
        }
        self.requests += requests;
        // Of two that are as busy, it is the first.
        if self.requests > self.most {
            (self.most, self.start_of_most) = (self.requests, self.start);
        }
    }

    /// The start of the time that this one is in.
    pub(crate) const fn start_of(&self, time: Timestamp) -> Timestamp {
        Timestamp::from_unix_millis(self.start_of_millis(time.as_unix_millis()))
    }

    const fn start_of_millis(&self, millis: i64) -> i64 {
        millis.saturating_sub(millis.rem_euclid(self.length))
    }

    /// The most requests, and the start of their time; `None` without requests.
    pub(crate) fn most(&self) -> Option<(u64, Timestamp)> {
        (self.most > 0).then_some((self.most, Timestamp::from_unix_millis(self.start_of_most)))
    }
}
