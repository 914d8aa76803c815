//! The quotas and keys of a plan.

use std::fmt;

use tollgate::{Quota, Timestamp};

use super::clock::Nanos;
use crate::windows::holding;

const MILLI: Nanos = 1_000_000;

/// One quota: at most `limit` units in each window.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Units in a window.
    pub limit: usize,
    /// The length of a window in milliseconds.
    pub millis: i64,
    /// Where windows start, or what else counts.
    pub start: Start,
}

/// Where windows start, or the kind of a quota that has no fixed windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At multiples of the length.
    Epoch,
    /// The same, shifted for each key.
    Staggered,
    /// At the first unit.
    FirstHit,
    /// Nowhere: it is a bucket with this burst.
    Bucket(usize),
    /// At multiples of the length, and the previous one counts in part.
    Sliding,
    /// Nowhere: it is an exact log.
    Log,
}

/// Keys with the same quotas.
#[derive(Debug, Clone)]
pub struct Group {
    /// The policy's name.
    pub policy: &'static str,
    /// Its quotas: a request needs room in all of them.
    pub quotas: Vec<Terms>,
    /// Keys that every thread charges around the ends of their windows.
    pub crowd: u32,
    /// Keys that one thread charges until they are denied, and again exactly when it was told to return.
    pub obedient: u32,
}

/// The keys of a run.
#[derive(Debug, Clone)]
pub struct LoadPlan {
    /// The groups of keys, by their quotas.
    pub groups: Vec<Group>,
}

impl Terms {
    /// Returns the written form, such as `5/1000ms@staggered`.
    #[must_use]
    pub fn written(&self) -> String {
        self.to_string()
    }

    /// Returns whether it counts in fixed windows.
    #[must_use]
    pub fn has_fixed_windows(&self) -> bool {
        matches!(self.start, Start::Epoch | Start::Staggered | Start::FirstHit)
    }

    /// Returns the quota.
    ///
    /// # Panics
    ///
    /// If there is none with this limit and this length.
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.written().parse().expect("the written form is a quota")
    }

    /// Returns the most that a bucket, a sliding window or a log admits in an interval of this length, both ends counted;
    /// `None` if that has no bound.
    pub(super) fn most_in(&self, interval: Nanos) -> Option<usize> {
        // Limiters know only milliseconds.
        let (limit, millis) = (self.limit as i64, -(-interval).div_euclid(MILLI) + 1);
        let more = match self.start {
            Start::Bucket(burst) => burst as i64 - limit + millis * limit / self.millis,
            Start::Sliding if millis < self.millis => limit * (millis - 1).max(0) / self.millis,
            Start::Log if millis < self.millis => 0,
            _ => return None,
        };
        usize::try_from(limit + more).ok()
    }

    pub(super) fn length(&self) -> Nanos {
        self.millis * MILLI
    }

    /// Returns when one of this key's windows starts; `None` if that depends on the first unit.
    pub(super) fn shift(&self, key: &str) -> Option<Nanos> {
        let quota = self.quota();
        let start = || holding(&quota, &key.into(), Timestamp::EPOCH).start().as_unix_millis() * MILLI;
        (self.start != Start::FirstHit).then(start)
    }

    /// Returns the most that an interval as long as a window can admit. A `first_hit` window begins with a unit: an
    /// interval that contains this unit ends before the next window begins.
    pub(super) fn most_in_an_interval(&self) -> usize {
        2 * self.limit - usize::from(self.start == Start::FirstHit)
    }
}

impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}ms", self.limit, self.millis)?;
        match self.start {
            Start::Epoch => Ok(()),
            Start::Staggered => f.write_str("@staggered"),
            Start::FirstHit => f.write_str("@first_hit"),
            Start::Bucket(burst) => write!(f, "~burst:{burst}"),
            Start::Sliding => f.write_str("~sliding"),
            Start::Log => f.write_str("~log"),
        }
    }
}

impl Group {
    /// Returns the number of keys.
    #[must_use]
    pub fn keys(&self) -> u32 {
        self.crowd + self.obedient
    }
}

/// Returns the name of the key with this index.
#[must_use]
pub(super) fn key(index: u32) -> String {
    format!("victim-{index}")
}
