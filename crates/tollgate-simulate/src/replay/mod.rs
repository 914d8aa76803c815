//! Requests of the past, decided by the engine that decides live.
//!
//! ```text
//! Hit ──▶ clock ──▶ Engine ─────▶ decision ──▶ policies   what each policy denied
//!         driven    the policies               quotas     the windows of each client
//!         by it     baseline                   clients    who was denied, and who was not before
//!                   other limits               times      when
//! ```

mod bits;
mod burst;
mod by_class;
mod calendar;
mod clients;
mod engine;
mod error;
mod example;
mod finish;
mod hit;
mod note;
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

use std::collections::HashMap;
use std::hint::black_box;

use smallvec::SmallVec;
use tollgate::{Counter, Key, ManualClock, Timestamp};
use tollgate_policy::Policies;

use self::by_class::ByClass;
use self::calendar::Calendar;
use self::clients::Clients;
use self::engine::Engine;
pub use self::error::ReplayError;
use self::example::Examples;
pub(crate) use self::finish::written;
pub use self::hit::Hit;
pub(crate) use self::note::mix;
pub(crate) use self::options::MAX_ATTRIBUTE_BYTES;
pub use self::options::Options;
pub(crate) use self::outcome::Clientless;
use self::outcome::Verdict;
use self::per_client::PerClient;
use self::policy_track::{CLIENT, PolicyTrack, Tracks};
pub use self::role::Role;
use self::rungs::{Rungs, Untried};
pub(crate) use self::subjects::{Found, Subjects, digest, keep};
use crate::code;

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
///     replay.request(&Hit::new(time, attributes))?;
/// }
/// let report = replay.report();
/// assert_eq!((report.requests, report.denied), (5, 3));
/// assert_eq!(report.policies[0].quotas[0].curve.at(3).map(|point| point.denied), Some(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Replay {
    clock: ManualClock,
    now: Option<Timestamp>,
    engine: Engine,
    baseline: Option<Engine>,
    /// The first are the clients of figures over all policies.
    subjects: Vec<Subjects>,
    tracks: Tracks,
    rungs: Rungs,
    /// The requests that the rungs have still to decide on; `None` for one that is refused.
    untried: Vec<Option<Untried>>,
    all: All,
    /// The most memory for the clients of classes, and whether it did not suffice.
    max_class_bytes: usize,
    is_short_of_class_bytes: bool,
    options: Options,
}

/// Figures over all policies.
#[derive(Default)]
struct All {
    first: Option<Timestamp>,
    verdicts: outcome::Verdicts,
    /// Requests that were answered 429 or 503 when the log was written.
    refused_in_log: u64,
    /// Requests whose time is before that of a previous one; they are replayed at that time.
    late: u64,
    /// Reasons why requests cannot be decided.
    undecided: HashMap<String, u64>,
    unlimited: u64,
    clientless: Clientless,
    clients: Clients,
    classes: ByClass,
    calendar: Calendar,
    examples: Examples,
    /// Examples of requests that the policies to compare with deny.
    before_examples: Examples,
    /// Of each client, how often a policy on trial would deny a request that is allowed, and the first of these.
    tried: PerClient<u32>,
    tried_examples: Examples,
    /// Depends on every request, so that it cannot be guessed without the log.
    fingerprint: u128,
}

/// Live counters for each client that is followed, and at most: 2 GiB of them. A table for more counters is spread over
/// more memory, also while it holds few.
const COUNTERS_PER_CLIENT: usize = 8;
const MAX_COUNTERS: usize = 64 << 20;

/// Reasons that are told apart.
const MAX_REASONS: usize = 64;

/// Requests whose memory is requested at once: about as many as a core can wait for.
const BATCH: usize = 16;

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
        let classes = options.classes.len();
        let pairs = policies.as_slice().len().saturating_mul(classes);
        if pairs > ByClass::MAX_PAIRS {
            return Err(ReplayError::TooManyPairs { policies: policies.as_slice().len(), classes });
        }
        let clock = ManualClock::default();
        let max_counters = options.max_clients.get().saturating_mul(COUNTERS_PER_CLIENT);
        let max_counters = max_counters.clamp(MAX_COUNTERS / 64, MAX_COUNTERS);
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
        let calendar = Calendar::new(options.zone.clone());
        let all = All { calendar, classes: ByClass::new(classes), ..All::default() };
        Ok(Self {
            clock,
            now: None,
            engine,
            baseline,
            subjects,
            tracks,
            rungs,
            untried: Vec::new(),
            all,
            max_class_bytes: ByClass::MAX_BYTES,
            is_short_of_class_bytes: false,
            options,
        })
    }

    /// Decides on a request, as it would have been decided on at its time.
    ///
    /// # Errors
    ///
    /// If there are more live counters than memory is reserved for.
    pub fn request(&mut self, hit: &Hit<'_>) -> Result<(), ReplayError> {
        self.requests(std::slice::from_ref(hit))
    }

    /// Decides on requests, in this order. A thousand requests together are faster than one by one: with millions of
    /// clients, the processor waits for the memory of several at once, and other limits are tried on all cores.
    ///
    /// # Errors
    ///
    /// The same as [`request`](Self::request).
    pub fn requests(&mut self, hits: &[Hit<'_>]) -> Result<(), ReplayError> {
        self.untried.clear();
        let decided = hits.chunks(BATCH).try_for_each(|hits| {
            let digests = self.digests(hits);
            hits.iter().zip(digests).try_for_each(|(hit, digest)| {
                self.decide(hit, digest)?;
                self.bound_classes();
                Ok(())
            })
        });
        // If a request failed, the limits are tried on those before it.
        self.try_other_limits(hits.get(..self.untried.len()).unwrap_or(hits));
        decided
    }

    /// The clients of requests. Requests the memory of all of them before any is waited for.
    fn digests(&self, hits: &[Hit<'_>]) -> SmallVec<[Option<u128>; BATCH]> {
        let Some(subjects) = self.subjects.get(CLIENT) else {
            return SmallVec::from_elem(None, hits.len());
        };
        let keys = hits.iter().map(|hit| subjects.identity().key(&hit.attributes).ok());
        let keys: SmallVec<[Option<Key<'_>>; BATCH]> = keys.collect();
        let digests: SmallVec<[Option<u128>; BATCH]> =
            keys.iter().map(|key| key.as_ref().map(digest)).collect();
        if hits.len() > 1 {
            let counters = |key| self.tracks.near().map(move |quota| Counter::new(quota, key));
            for engine in self.baseline.iter().chain([&self.engine]) {
                engine.prefetch(keys.iter().flatten().flat_map(counters));
            }
            let known = || digests.iter().flatten().copied();
            black_box(known().fold(0, |all, digest| all ^ subjects.touch(digest)));
            let touch = |number| self.all.clients.touch(number) ^ self.tracks.touch(number);
            let numbers = known().filter_map(|digest| subjects.known(digest));
            black_box(numbers.fold(self.tracks.touch_oldest(hits.len()), |all, number| all ^ touch(number)));
        }
        digests
    }

    /// Decides on a request of the client with this digest.
    fn decide(&mut self, hit: &Hit<'_>, digest: Option<u128>) -> Result<(), ReplayError> {
        let now = self.set_clock(hit.time);
        if let Some(name) = hit.damaged {
            self.refuse(hit, digest, now, format!("{} is not UTF-8", code(name)));
            return Ok(());
        }
        let decision = self.engine.decide(&hit.attributes)?;
        let verdict = Verdict::of(&decision);
        let before = match &self.baseline {
            Some(baseline) => Some(Verdict::of(&baseline.decide(&hit.attributes)?)),
            None => None,
        };
        let class = self.options.classes.of(&hit.attributes);
        let mut request =
            Request { hit, now, class, numbers: SmallVec::from_elem(None, self.subjects.len()) };
        self.note_all(&mut request, digest, verdict, before);
        match &decision {
            Ok(decision) => {
                self.note_policies(&mut request, decision, before);
                self.note_tried(&request, decision);
            }
            Err(error) => self.all.note_undecided(error.to_string()),
        }
        if !self.rungs.is_empty() {
            self.untried.push(Some(Untried { now, numbers: request.numbers }));
        }
        Ok(())
    }

    /// Notes a request that is answered as an error before any policy is asked.
    fn refuse(&mut self, hit: &Hit<'_>, digest: Option<u128>, now: Timestamp, reason: String) {
        let before = self.baseline.as_ref().map(|_| Verdict::Undecided);
        let class = self.options.classes.of(&hit.attributes);
        let mut request =
            Request { hit, now, class, numbers: SmallVec::from_elem(None, self.subjects.len()) };
        self.note_all(&mut request, digest, Verdict::Undecided, before);
        self.all.note_undecided(reason);
        if !self.rungs.is_empty() {
            self.untried.push(None);
        }
    }

    /// Lets each rung decide on all requests.
    fn try_other_limits(&mut self, hits: &[Hit<'_>]) {
        let Some(subjects) = self.subjects.get(CLIENT).filter(|_| !self.rungs.is_empty()) else { return };
        let keys: Vec<Option<Key<'_>>> =
            hits.iter().map(|hit| subjects.identity().key(&hit.attributes).ok()).collect();
        let (tracks, untried) = (&self.tracks, &self.untried);
        self.rungs.each(hits.len(), |rung| {
            let subject = tracks.of(rung.track).map_or(CLIENT, |track| track.subject);
            let batches = hits.chunks(BATCH).zip(keys.chunks(BATCH)).zip(untried.chunks(BATCH));
            for ((hits, keys), untried) in batches {
                // So that the processor waits for the memory of all of them at once.
                let counters = |key| tracks.near().map(move |quota| Counter::new(quota, key));
                rung.prefetch(keys.iter().flatten().flat_map(counters));
                for (hit, untried) in hits.iter().zip(untried) {
                    let Some(Untried { now, numbers }) = untried else { continue };
                    rung.decide(*now, &hit.attributes, numbers.get(subject).copied().flatten().flatten());
                }
            }
        });
    }

    /// Returns how many requests have been denied so far.
    #[must_use]
    pub const fn denied(&self) -> u64 {
        self.all.verdicts.denied
    }

    /// Time stands still where the log goes back.
    fn set_clock(&mut self, time: Timestamp) -> Timestamp {
        let now = self.now.map_or(time, |now| now.max(time));
        if time < now {
            self.all.late += 1;
        }
        if self.now != Some(now) {
            self.clock.set(now);
        }
        self.now = Some(now);
        self.all.first.get_or_insert(now);
        now
    }

    /// The number of the client with this key, if it is followed.
    fn number(&mut self, subject: usize, digest: u128, request: &mut Request<'_, '_>) -> Option<u32> {
        let number = loop {
            match self.subjects.get_mut(subject)?.find(digest) {
                Found::Client(number) => break Some(number),
                Found::NotFollowed => break None,
                Found::NoRoom => self.halve(subject),
            }
        };
        if let Some(of_subject) = request.numbers.get_mut(subject) {
            *of_subject = Some(number);
        }
        number
    }

    /// Follows fewer clients while those of classes take too much memory: of the kind that takes most.
    fn bound_classes(&mut self) {
        while self.all.classes.bytes() + self.tracks.class_bytes() > self.max_class_bytes {
            let taken = |subject: &usize| {
                let of_all = if *subject == CLIENT { self.all.classes.bytes() } else { 0 };
                of_all + self.tracks.class_bytes_of(*subject)
            };
            let Some(subject) = (0..self.subjects.len()).max_by_key(taken) else { return };
            self.is_short_of_class_bytes = true;
            self.halve(subject);
        }
    }

    fn halve(&mut self, subject: usize) {
        let Some(subjects) = self.subjects.get_mut(subject) else { return };
        let kept = subjects.halve();
        self.tracks.keep(subject, &kept);
        self.rungs.keep(subject, &self.tracks, &kept);
        self.untried.iter_mut().flatten().for_each(|untried| untried.keep(subject, &kept));
        if subject == CLIENT {
            let outcome::Verdicts { denied, newly_denied, .. } = self.all.verdicts;
            self.all.clientless = Clientless { denied, newly_denied };
            self.all.clients.keep(&kept);
            self.all.examples.keep(&kept);
            self.all.before_examples.keep(&kept);
            self.all.tried.keep(&kept);
            self.all.tried_examples.keep(&kept);
            self.all.classes.keep(&kept);
        }
    }
}

/// For each kind of key the number of its client, if it has been looked for.
type ClientNumbers = SmallVec<[Option<Option<u32>>; 4]>;

/// A request that is being noted.
struct Request<'h, 'a> {
    hit: &'h Hit<'a>,
    now: Timestamp,
    /// Its class, counted from 1; 0 if it is in none.
    class: u8,
    numbers: ClientNumbers,
}

impl All {
    fn note_undecided(&mut self, reason: String) {
        let is_told_apart = self.undecided.len() < MAX_REASONS || self.undecided.contains_key(&reason);
        let reason = if is_told_apart { reason } else { "other reasons".to_owned() };
        *self.undecided.entry(reason).or_default() += 1;
    }
}
