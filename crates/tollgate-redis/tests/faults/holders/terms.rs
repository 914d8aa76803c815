//! What callers hold, the steps that they take, and what happened to the clock.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tollgate::{
    Charge, HoldAdjustment, HoldAnswer, HoldId, HoldLength, HoldStep, HoldTerms, InFlightCharge, Key,
    PolicyInFlight, PolicyQuota, Quota, Store,
};
use tollgate_redis::{RedisError, RedisStore};
use tollgate_testkit::StoreSteps;

use crate::crowd::trouble;

/// Keys that are held, and the units of each.
pub(super) const KEYS: usize = 3;
pub(super) const LIMIT: u32 = 8;

/// How long a step of a hasty store may take.
pub(super) const DEADLINE: Duration = Duration::from_millis(60);

/// The longest that a hold lives.
pub(super) const LENGTH: Duration = Duration::from_secs(2);

/// No test crosses the end of one of these.
pub(super) const DECADE: Duration = Duration::from_secs(3653 * 24 * 3600);

/// What all callers of a round share.
pub(super) struct Terms {
    live: PolicyInFlight,
    words: PolicyQuota,
    keys: [Key<'static>; KEYS],
    /// The most keys of a hold.
    pub(super) span: usize,
    pub(super) clock: ClockSteps,
    /// Whether callers may go away while a call runs.
    is_in_trouble: AtomicBool,
    is_over: AtomicBool,
}

/// The terms in a store.
#[derive(Clone)]
pub(super) struct HeldKey {
    pub(super) terms: Arc<Terms>,
    store: RedisStore,
    /// How long a step may take.
    pub(super) deadline: Duration,
}

/// A hold that a caller asks for: so many units of each of its keys, and its cost of each.
#[derive(Debug, Clone, Copy)]
pub(super) struct AskedHold {
    pub(super) id: HoldId,
    pub(super) first_key: usize,
    /// How many keys it has, which are in one slot each.
    pub(super) span: usize,
    pub(super) units: u32,
    pub(super) cost: u32,
    pub(super) length: Duration,
}

/// A step on a hold.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ask {
    Reserve,
    Renew,
    /// With what happens to the charge of each key.
    Settle([HoldAdjustment; KEYS]),
}

/// When the clock of a server was stepped.
#[derive(Debug, Default)]
pub(super) struct ClockSteps(Mutex<Vec<ClockStep>>);

#[derive(Debug, Clone, Copy)]
struct ClockStep {
    begun: Instant,
    done: Option<Instant>,
    millis: i64,
}

/// The name of a key, which is the hash tag of all its counters. Each primary of a Cluster begins with one of them.
pub(super) fn key_name(key: usize) -> String {
    format!("key-{}", key + 1)
}

impl Terms {
    pub(super) fn new(span: usize) -> Self {
        let text = format!("{LIMIT}~in_flight:{}s", LENGTH.as_secs());
        Self {
            live: PolicyInFlight::new("live", text.parse().unwrap()),
            words: PolicyQuota::new("words", Quota::new(1_000_000_000, DECADE).unwrap()),
            keys: std::array::from_fn(|key| Key::from(key_name(key))),
            span,
            clock: ClockSteps::default(),
            is_in_trouble: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        }
    }

    /// From here on, callers may go away while a call runs.
    pub(super) fn begin_trouble(&self) {
        self.is_in_trouble.store(true, Relaxed);
    }

    pub(super) fn is_in_trouble(&self) -> bool {
        self.is_in_trouble.load(Relaxed)
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }
}

impl AskedHold {
    pub(super) fn keys(self) -> impl Iterator<Item = usize> {
        (self.first_key..self.first_key + self.span).map(|key| key % KEYS)
    }

    pub(super) fn has(self, key: usize) -> bool {
        self.keys().any(|own| own == key)
    }
}

impl HeldKey {
    pub(super) fn new(terms: &Arc<Terms>, store: RedisStore, deadline: Duration) -> Self {
        Self { terms: Arc::clone(terms), store, deadline }
    }

    /// Takes the step once.
    pub(super) async fn ask(&self, hold: AskedHold, ask: Ask) -> Result<HoldAnswer, RedisError> {
        let keys = || hold.keys().map(|key| &self.terms.keys[key]);
        let units: Vec<_> =
            keys().map(|key| InFlightCharge::new(&self.terms.live, key, hold.units)).collect();
        let charges: Vec<_> = keys().map(|key| Charge::new(&self.terms.words, key, hold.cost)).collect();
        let adjustments =
            if let Ask::Settle(adjustments) = ask { adjustments } else { [HoldAdjustment::Keep; KEYS] };
        let terms = HoldTerms::new(hold.id, &units, &charges, HoldLength::new(hold.length).unwrap());
        let step = match ask {
            Ask::Reserve => HoldStep::Reserve(terms),
            Ask::Renew => HoldStep::Renew(terms),
            Ask::Settle(_) => HoldStep::Settle(terms, &adjustments[..hold.span]),
        };
        self.store.hold_until(step, None).await.map_err(trouble)
    }

    /// Charges a unit without a hold.
    pub(super) async fn charge(&self, key: usize) -> Result<(), RedisError> {
        let charge = Charge::new(&self.terms.words, &self.terms.keys[key], 1);
        self.store.charge(&[charge]).await.map(drop).map_err(trouble)
    }

    /// Looks at the units in flight of a key.
    pub(super) async fn look(&self, key: usize) -> Result<(), RedisError> {
        let units = [InFlightCharge::new(&self.terms.live, &self.terms.keys[key], 1)];
        let terms = HoldTerms::new(HoldId::random(), &units, &[], HoldLength::default());
        self.store.hold_until(HoldStep::Look(terms), None).await.map(drop).map_err(trouble)
    }

    /// Takes so many units of a key at once. Returns whether they were free.
    pub(super) async fn takes(&self, key: usize, units: u32) -> bool {
        let units = [InFlightCharge::new(&self.terms.live, &self.terms.keys[key], units)];
        let terms = HoldTerms::new(HoldId::random(), &units, &[], HoldLength::default());
        let answer = self.store.hold_until(HoldStep::Reserve(terms), None).await;
        matches!(answer, Ok(HoldAnswer::Decided(states)) if states.is_admitted())
    }
}

impl ClockSteps {
    /// Notes a step that is made meanwhile.
    pub(super) fn step(&self, millis: i64, make: impl FnOnce()) {
        let place = {
            let mut steps = self.0.lock().unwrap();
            steps.push(ClockStep { begun: Instant::now(), done: None, millis });
            steps.len() - 1
        };
        make();
        self.0.lock().unwrap()[place].done = Some(Instant::now());
    }

    /// Returns until when a hold certainly lives that a step from this moment or later has given the length: a clock
    /// that steps forward ends it earlier. A server reads its clock in whole milliseconds, so it may count from up to one
    /// before this moment.
    pub(super) fn certain_end(&self, sent: Instant, length: Duration) -> Instant {
        let end = sent + length - Duration::from_millis(1);
        let steps = self.0.lock().unwrap();
        let forward = steps
            .iter()
            .filter(|step| step.millis > 0 && step.begun < end && step.done.is_none_or(|done| done >= sent));
        let millis: u64 = forward.map(|step| step.millis.unsigned_abs()).sum();
        end.checked_sub(Duration::from_millis(millis)).unwrap_or(sent).max(sent)
    }

    pub(super) fn went_back(&self) -> bool {
        !self.back().is_zero()
    }

    /// Returns how far the clock went back in all.
    pub(super) fn back(&self) -> Duration {
        let steps = self.0.lock().unwrap();
        let back = steps.iter().filter(|step| step.millis < 0).map(|step| step.millis.unsigned_abs());
        Duration::from_millis(back.sum())
    }
}
