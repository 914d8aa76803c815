//! The talkers of one policy, or of one limit of Envoy's.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use tollgate::{Key, Timestamp};

use super::id::{IdMaker, TalkerId, TalkerSecret};
use super::memory::Memory;
use super::period::{PeriodChoice, Periods, TalkersBy};
use super::summary::{CountedKey, Summary};

/// Counts the keys of one policy or rule.
#[derive(Debug)]
pub(crate) struct SubjectTalkers {
    name: Box<str>,
    secret: TalkerSecret,
    /// Made when the first request comes.
    ids: OnceLock<IdMaker>,
    memory: Arc<Memory>,
    periods: Mutex<Option<Periods>>,
    /// Requests that found it locked in the current period, and those of them that were denied.
    skipped_checks: AtomicU64,
    skipped_denials: AtomicU64,
}

/// The talkers of one period by one measure.
#[derive(Debug)]
pub(crate) struct TalkersReport {
    pub(crate) since: Timestamp,
    /// The end of the period, or the time of the report.
    pub(crate) until: Timestamp,
    /// All requests.
    pub(crate) total: u64,
    /// Those that the rows are about.
    pub(crate) counted: u64,
    /// Those that they are not about.
    pub(crate) skipped: u64,
    /// How many rows there can be; 0 if there was no memory for any.
    pub(crate) counters: usize,
    /// The most that a count may be too high by. A key without a row has at most as many requests.
    pub(crate) max_error: u64,
    pub(crate) memory_bytes: usize,
    /// The largest count first.
    pub(crate) rows: Vec<TalkerRow>,
}

/// A talker.
#[derive(Debug)]
pub(crate) struct TalkerRow {
    pub(crate) id: TalkerId,
    /// The true count lies between `count - error` and `count`.
    pub(crate) count: u64,
    pub(crate) error: u64,
    /// The canonical bytes of the key, or the first of them.
    pub(crate) key: KeyBytes,
}

/// Why an id leads to no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoTalker {
    /// There is no such policy, or it counts by another key now.
    Policy,
    /// No period has it, or no period any more.
    Id,
    /// Two keys have it. By chance, that is nearly impossible.
    TwoKeys,
}

/// The canonical bytes of a key, or the first of them. `Debug` hides them.
pub(crate) struct KeyBytes(pub(crate) Box<[u8]>);

impl SubjectTalkers {
    pub(super) fn new(name: &str, secret: &TalkerSecret, memory: &Arc<Memory>) -> Self {
        let (periods, skipped_checks, skipped_denials) = Default::default();
        Self {
            name: name.into(),
            secret: secret.clone(),
            ids: OnceLock::new(),
            memory: Arc::clone(memory),
            periods,
            skipped_checks,
            skipped_denials,
        }
    }

    /// Counts a request of a key with this hash. It never waits: if another thread counts for the same policy, the request
    /// is only noted as skipped.
    pub(super) fn note(&self, now: Timestamp, (key, id): (&Key<'_>, u64), denies: bool) {
        let mut periods = match self.periods.try_lock() {
            Ok(periods) => periods,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                // Relaxed: figures of their own that guard no other memory.
                self.skipped_checks.fetch_add(1, Ordering::Relaxed);
                if denies {
                    self.skipped_denials.fetch_add(1, Ordering::Relaxed);
                }
                return;
            }
        };
        let periods = self.at(&mut periods, now);
        periods.current.checks.count(id, key, &self.memory);
        if denies {
            periods.current.denials.count(id, key, &self.memory);
        }
    }

    /// Returns the id of a key, whether or not it is among the talkers.
    pub(super) fn id_of(&self, key: &Key<'_>) -> TalkerId {
        TalkerId::of(self.hash(key))
    }

    /// Returns the keyed hash of a key.
    pub(super) fn hash(&self, key: &Key<'_>) -> u64 {
        self.ids.get_or_init(|| self.secret.ids_of(&self.name)).id(key)
    }

    /// Returns the key of a talker of one of the two periods, by either measure. Meanwhile, requests are skipped.
    pub(super) fn key_of(&self, now: Timestamp, id: TalkerId) -> Result<KeyBytes, NoTalker> {
        let mut guard = self.lock();
        let periods = self.at(&mut guard, now);
        let counts = [&periods.current, &periods.last].into_iter().flat_map(|it| [&it.checks, &it.denials]);
        let keys = counts.filter_map(|counts| counts.summary.as_ref()).flat_map(Summary::keys);
        let mut found: Option<CountedKey<'_>> = None;
        for counted in keys.filter(|counted| TalkerId::of(counted.id) == id) {
            match found {
                Some(other) if other.id != counted.id => return Err(NoTalker::TwoKeys),
                // Where memory was short, less of the key was kept.
                Some(other) if other.key.bytes().len() >= counted.key.bytes().len() => {}
                _ => found = Some(counted),
            }
        }
        found.map(|counted| KeyBytes(counted.key.bytes().into())).ok_or(NoTalker::Id)
    }

    /// Returns the periods as they are at this time.
    fn at<'a>(&self, periods: &'a mut Option<Periods>, now: Timestamp) -> &'a mut Periods {
        let periods = periods.get_or_insert_with(|| Periods::new(now));
        if periods.advance(now) {
            // Skipped requests belong to the period that has just ended, as far as anybody can tell.
            let last = &mut periods.last;
            last.checks.skipped += self.skipped_checks.swap(0, Ordering::Relaxed);
            last.denials.skipped += self.skipped_denials.swap(0, Ordering::Relaxed);
        }
        periods
    }

    /// Returns the largest talkers, so many at most. Meanwhile, requests are skipped.
    pub(crate) fn report(
        &self,
        now: Timestamp,
        by: TalkersBy,
        choice: PeriodChoice,
        limit: usize,
    ) -> TalkersReport {
        let mut guard = self.lock();
        let periods = self.at(&mut guard, now);
        let memory_bytes = periods.memory_bytes();
        let period = periods.of(choice);
        let counts = period.by(by);
        let skipped_now = match (choice, by) {
            (PeriodChoice::Current, TalkersBy::Checks) => self.skipped_checks.load(Ordering::Relaxed),
            (PeriodChoice::Current, TalkersBy::Denials) => self.skipped_denials.load(Ordering::Relaxed),
            (PeriodChoice::Last, _) => 0,
        };
        let skipped = counts.skipped + skipped_now;
        let summary = counts.summary.as_ref();
        let counted = summary.map_or(0, Summary::counted);
        let rows = summary.into_iter().flat_map(Summary::keys).take(limit).map(|counted| TalkerRow {
            id: TalkerId::of(counted.id),
            count: counted.count,
            error: counted.error,
            key: KeyBytes(counted.key.bytes().into()),
        });
        TalkersReport {
            since: period.since,
            until: period.end().min(now),
            total: counted + skipped,
            counted,
            skipped,
            counters: match summary {
                Some(summary) => summary.capacity(),
                None if counts.skipped > 0 => 0,
                None => Summary::MAX_ROWS,
            },
            max_error: summary.map_or(0, Summary::max_error),
            memory_bytes,
            rows: rows.collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Periods>> {
        // Counts may be a little wrong after a panic, and a page that shows them is better than none.
        self.periods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn locked_while(&self, then: impl FnOnce()) {
        let _guard = self.lock();
        then();
    }
}

impl std::fmt::Debug for KeyBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KeyBytes({} bytes)", self.0.len())
    }
}
