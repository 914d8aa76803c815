//! Requests of the past, decided by the engine that decides live.
//!
//! ```text
//!      the next requests                        those before
//! Hit ──▶ Decider ──────────▶ decisions ──▶ Noter ──▶ policies   what each policy denied
//!         clock of the hits                           quotas     the windows of each client
//!         policies, baseline                          clients    who was denied, and who was not before
//!                                                     times      when
//!                                                     rungs      what other limits would deny
//! ```

mod all;
mod clients;
mod counted_window;
mod decider;
mod error;
mod load;
mod noter;
mod options;
mod policies;
mod report;
mod rungs;
mod statuses;
#[cfg(test)]
mod tests;
mod traffic;
mod verdict;

use std::mem;

use tollgate::ManualClock;
use tollgate_policy::Policies;

use self::decider::engine::Engine;
use self::decider::{Decider, RequestPart};
pub use self::error::ReplayError;
use self::noter::Noter;
pub use self::options::Options;
use self::policies::classes::ByClass;
use self::policies::{PolicyTrack, Tracks};
use self::rungs::Rungs;
pub use self::rungs::other_kinds;
use crate::followed::FollowedClients;
use crate::hit::Hit;

/// A running replay: accepts requests in the order of their times, and then [creates the report](Self::report).
///
/// # Examples
///
/// ```
/// use tollgate::Timestamp;
/// use tollgate_policy::Config;
/// use tollgate_simulate::{Hit, Options, Replay};
///
/// let text = "
/// policies:
///   - { name: login, match: { path: /login }, key: [ip], quotas: [2/1m] }
/// ";
/// let policies = Config::parse("tollgate.yaml", text)?.into_policies();
/// let mut replay = Replay::new(policies, None, Options::default())?;
/// for second in 0..5 {
///     let time = Timestamp::from_unix_millis(1_700_000_040_000 + second * 1_000);
///     let attributes = [("ip", "192.0.2.7"), ("path", "/login")].into_iter().collect();
///     replay.request(Hit::new(time, attributes))?;
/// }
/// let report = replay.report();
/// assert_eq!((report.requests, report.denied), (5, 3));
/// assert_eq!(report.policies[0].quotas[0].curve.at(3).map(|point| point.denied), Some(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Replay {
    decider: Decider,
    noter: Noter,
}

/// Live counters for each client that is followed, and at most: 2 GiB of them. A table for more counters is spread over
/// more memory, also while it holds few.
const COUNTERS_PER_CLIENT: usize = 8;
const MAX_COUNTERS: usize = 64 << 20;

/// Requests whose memory is prefetched together: about as many as a core can wait for.
const BATCH: usize = 16;

/// Requests that are decided on before any of them is noted.
const PART: usize = 1_024;

impl Replay {
    /// Begins a replay through these policies, and through others to compare them with.
    ///
    /// # Errors
    ///
    /// If there are too many policies and classes for the memory, or if policies with other limits are not valid, which
    /// does not happen.
    pub fn new(
        policies: Policies,
        baseline: Option<Policies>,
        options: Options,
    ) -> Result<Self, ReplayError> {
        let max_counters = options.max_clients.get().saturating_mul(COUNTERS_PER_CLIENT);
        Self::with_counters(policies, baseline, options, max_counters.clamp(MAX_COUNTERS / 64, MAX_COUNTERS))
    }

    /// With so many counters at most, for each of the policies and those to compare with.
    fn with_counters(
        policies: Policies,
        baseline: Option<Policies>,
        options: Options,
        max_counters: usize,
    ) -> Result<Self, ReplayError> {
        let classes = options.classes.len();
        let pairs = policies.as_slice().len().saturating_mul(classes);
        if pairs > ByClass::MAX_PAIRS {
            return Err(ReplayError::TooManyPairs { policies: policies.as_slice().len(), classes });
        }
        let clock = ManualClock::default();
        let new = |policies| Engine::new(policies, &clock, max_counters, options.max_attribute_bytes);
        let in_flight = policies.as_slice().iter().filter(|policy| policy.has_in_flight());
        let in_flight = in_flight.map(|policy| policy.name().to_owned()).collect();
        // A log does not say when a request ends.
        let (engine, baseline) =
            (new(policies.without_in_flight()), baseline.map(Policies::without_in_flight).map(new));
        let max = options.max_clients.get();
        let mut subjects = vec![FollowedClients::new(options.client.clone(), max)];
        let tracks = Tracks::new(engine.policies(), classes, |identity| {
            let known = subjects.iter().position(|other| other.identity() == identity);
            known.unwrap_or_else(|| {
                subjects.push(FollowedClients::new(identity.clone(), max));
                subjects.len() - 1
            })
        });
        let rungs = Rungs::new(engine.policies(), &tracks, &options)?;
        let decider = Decider::new(clock, engine, baseline, options.client.clone());
        let mut noter = Noter::new(subjects, tracks, rungs, options);
        noter.in_flight = in_flight;
        Ok(Self { decider, noter })
    }

    /// Decides on a request, as it would have been decided on at its time.
    ///
    /// # Errors
    ///
    /// If there are more live counters than memory is reserved for.
    pub fn request(&mut self, hit: Hit<'_>) -> Result<(), ReplayError> {
        self.requests([hit])
    }

    /// Decides on requests, in this order. Some ten thousand together are faster than one by one: the processor waits
    /// for the memory of several clients at once, and other limits are tried on all cores. From 1,024 requests on,
    /// one thread of the current rayon pool decides on the next part while another notes the last one.
    ///
    /// # Errors
    ///
    /// The same as [`request`](Self::request). The requests before the error count.
    ///
    /// # Panics
    ///
    /// If there is no rayon pool yet, and its threads cannot be started.
    pub fn requests<'h, I>(&mut self, hits: I) -> Result<(), ReplayError>
    where
        I: IntoIterator<Item = Hit<'h>, IntoIter: Send>,
    {
        let Self { decider, noter } = self;
        let mut hits = hits.into_iter();
        let mut part = RequestPart::of(&mut hits);
        decider.decide(&mut part);
        if part.is_last() {
            return noter.note(&mut part);
        }
        let mut next = RequestPart::of(&mut hits);
        // Inside the pool, its threads hand parts to each other without waking the caller's thread.
        rayon::scope(|_| {
            while part.error.is_none() && !part.is_last() {
                let note = || noter.note(&mut part).map(|()| part.fill(&mut hits));
                let (noted, ()) = rayon::join(note, || decider.decide(&mut next));
                noted?;
                mem::swap(&mut part, &mut next);
            }
            noter.note(&mut part)
        })
    }

    /// Returns how many requests have been denied so far.
    #[must_use]
    pub const fn denied(&self) -> u64 {
        self.noter.all.verdicts.denied
    }
}
