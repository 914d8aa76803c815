//! Requests of the past, decided by the engine that decides live.
//!
//! ```text
//!      perhaps a second thread                  the caller's thread
//! Hit ──▶ Decider ──────────▶ decisions ──▶ Noter ──▶ policies   what each policy denied
//!         clock of the hits                           quotas     the windows of each client
//!         policies, baseline                          clients    who was denied, and who was not before
//!                                                     times      when
//!                                                     rungs      what other limits would deny
//! ```

mod all;
mod bits;
mod burst;
mod by_class;
mod calendar;
mod clients;
mod decider;
mod engine;
mod error;
mod example;
mod finish;
mod hit;
mod noter;
mod numbers;
mod options;
mod outcome;
mod packed;
mod per_client;
mod policy_track;
mod quota_track;
mod role;
mod rungs;
mod subjects;
#[cfg(test)]
mod tests;

use std::sync::mpsc::channel;
use std::thread;

use tollgate::ManualClock;
use tollgate_policy::Policies;

use self::by_class::ByClass;
use self::decider::{Decider, Part};
use self::engine::Engine;
pub use self::error::ReplayError;
pub(crate) use self::finish::written;
pub use self::hit::Hit;
pub(crate) use self::noter::mix;
use self::noter::{ClientNumbers, Noter};
pub(crate) use self::options::MAX_ATTRIBUTE_BYTES;
pub use self::options::Options;
pub(crate) use self::outcome::Clientless;
use self::policy_track::{PolicyTrack, Tracks};
pub use self::role::Role;
use self::rungs::Rungs;
pub(crate) use self::subjects::{Found, Subjects, digest, keep};

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

/// Parts at once: a few, because two threads are never equally fast.
const PARTS: usize = 5;

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
        let (engine, baseline) = (new(policies), baseline.map(new));
        let max = options.max_clients.get();
        let mut subjects = vec![Subjects::new(options.client.clone(), max)];
        let tracks = Tracks::new(engine.policies(), classes, |identity| {
            let known = subjects.iter().position(|other| other.identity() == identity);
            known.unwrap_or_else(|| {
                subjects.push(Subjects::new(identity.clone(), max));
                subjects.len() - 1
            })
        });
        let rungs = Rungs::new(engine.policies(), &tracks, &options)?;
        let decider = Decider::new(clock, engine, baseline, options.client.clone());
        Ok(Self { decider, noter: Noter::new(subjects, tracks, rungs, options) })
    }

    /// Decides on a request, as it would have been decided on at its time.
    ///
    /// # Errors
    ///
    /// If there are more live counters than memory is reserved for.
    pub fn request(&mut self, hit: Hit<'_>) -> Result<(), ReplayError> {
        self.requests([hit])
    }

    /// Decides on requests, in this order. Some ten thousand together are faster than one by one: the processor waits for
    /// the memory of several clients at once, and other limits are tried on all cores. From 1,024 on, a second thread
    /// decides while this one takes up to 5,120 of the next requests and notes what was decided.
    ///
    /// # Errors
    ///
    /// The same as [`request`](Self::request), or if the thread cannot be started. The requests before the error count.
    pub fn requests<'h>(&mut self, hits: impl IntoIterator<Item = Hit<'h>>) -> Result<(), ReplayError> {
        let Self { decider, noter } = self;
        let mut hits = hits.into_iter();
        let mut part = Part::of(&mut hits);
        if part.is_last() {
            return noter.note(decider.decide(part)).map(drop);
        }
        thread::scope(|scope| {
            let (to_decide, undecided) = channel();
            let (to_note, decided) = channel();
            let decide = move || {
                for part in undecided {
                    let part = decider.decide(part);
                    let has_failed = part.result.is_err();
                    if to_note.send(part).is_err() || has_failed {
                        return;
                    }
                }
            };
            let named = thread::Builder::new().name("decide".to_owned());
            named.spawn_scoped(scope, decide).map_err(ReplayError::Thread)?;
            for sent in 1.. {
                let is_last = part.is_last();
                // If the thread has ended early, its last part says why.
                if to_decide.send(part).is_err() || is_last {
                    break;
                }
                part = if sent < PARTS {
                    Part::of(&mut hits)
                } else {
                    let Ok(decided) = decided.recv() else { break };
                    noter.note(decided)?.refilled(&mut hits)
                };
            }
            drop(to_decide);
            decided.into_iter().try_for_each(|part| noter.note(part).map(drop))
        })
    }

    /// Returns how many requests have been denied so far.
    #[must_use]
    pub const fn denied(&self) -> u64 {
        self.noter.all.verdicts.denied
    }
}
