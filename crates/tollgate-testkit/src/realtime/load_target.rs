//! What a course needs of a limiter: clients that charge its keys.

use super::answer::{LoadedKey, UnitAnswer};
use super::clock::RealClock;

/// A limiter or a service under test.
pub trait LoadTarget: Sync {
    /// The client of one thread.
    type Client<'t>: LoadClient
    where
        Self: 't;

    /// Creates another client.
    fn client(&self) -> Self::Client<'_>;
}

/// One thread's access to a limiter.
pub trait LoadClient: Send {
    /// Charges a unit for each of these keys, and adds the answers in any order. If a limiter is full, there is no
    /// answer to add.
    fn ask(&mut self, clock: &RealClock, victims: &[LoadedKey], answers: &mut Vec<UnitAnswer>);

    /// Charges keys that were never charged before: the one with this number and some that follow. Returns the next
    /// number.
    fn bring(&mut self, number: u64) -> u64;

    /// Returns the time by the limiter's clock, in Unix milliseconds.
    fn now(&mut self) -> i64;
}
