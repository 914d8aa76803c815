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
    /// Where windows start.
    pub start: Start,
}

/// Where windows start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At multiples of the length.
    Epoch,
    /// The same, shifted for each key.
    Staggered,
    /// At the first unit.
    FirstHit,
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

    pub(super) fn length(&self) -> Nanos {
        self.millis * MILLI
    }

    /// Returns when one of this key's windows starts; `None` if that depends on the first unit.
    pub(super) fn shift(&self, key: &str) -> Option<Nanos> {
        let quota: Quota = self.written().parse().expect("the written form is a quota");
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
        let anchor = match self.start {
            Start::Epoch => "",
            Start::Staggered => "@staggered",
            Start::FirstHit => "@first_hit",
        };
        write!(f, "{}/{}ms{anchor}", self.limit, self.millis)
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
