//! What is promised to whom, with the oracle's own arithmetic of windows.

use std::fmt;

use xxhash_rust::xxh64::xxh64;

use super::clock::Nanos;

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

/// Keys that are under the same quotas.
#[derive(Debug, Clone)]
pub struct Group {
    /// The policy's name.
    pub policy: &'static str,
    /// Its quotas: a request needs room in all of them.
    pub quotas: Vec<Terms>,
    /// Keys that everybody charges around the ends of their windows.
    pub crowd: u32,
    /// Keys that one thread charges until they are denied, and again exactly when it was told to return.
    pub obedient: u32,
}

/// Who is charged in a course.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The keys, by what they are promised.
    pub groups: Vec<Group>,
}

impl Terms {
    /// As the product writes and reads it, such as `5/1000ms@staggered`.
    #[must_use]
    pub fn written(&self) -> String {
        self.to_string()
    }

    pub(super) fn length(&self) -> Nanos {
        self.millis * MILLI
    }

    /// Where this key's windows start, as time since any of their starts; `None` if the first unit says it.
    pub(super) fn shift(&self, key: &str) -> Option<Nanos> {
        match self.start {
            Start::Epoch => Some(0),
            Start::Staggered => Some(shift_millis(key, self.millis) * MILLI),
            Start::FirstHit => None,
        }
    }

    /// The most that an interval as long as a window can admit. A `first_hit` window begins with a unit, so one more
    /// than an interval holds would have to begin in it.
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
    /// How many keys there are.
    #[must_use]
    pub fn keys(&self) -> u32 {
        self.crowd + self.obedient
    }
}

/// The name of the key with this index.
#[must_use]
pub(super) fn key(index: u32) -> String {
    format!("victim-{index}")
}

/// XXH64 with seed 0 of the key's canonical bytes, modulo the window: 1 for a text, its length in LEB128, the text.
fn shift_millis(key: &str, millis: i64) -> i64 {
    let length = u8::try_from(key.len()).ok().filter(|length| *length < 128);
    let mut bytes = vec![1, length.expect("keys are short, so that their length is one byte of LEB128")];
    bytes.extend_from_slice(key.as_bytes());
    let hash = u128::from(xxh64(&bytes, 0));
    i64::try_from(hash % millis.unsigned_abs() as u128).expect("it is less than the window")
}
