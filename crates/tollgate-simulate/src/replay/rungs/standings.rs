//! The counters of one quota of any kind, under several quotas at once: as the engine counts them.

use std::mem;

use tollgate::kind::{BurstStanding, ExactInstant, LogStanding, SlidingStanding, SlidingState, Standing};
use tollgate::{Anchor, Key, Quota, QuotaKind, Timestamp, Window};

use super::MAX_RUNGS;
use super::denials::RungBits;
use super::keys::KeyTable;
use super::sparse::{SparseRequests, SparseTerms};

/// A counter for each key under each of some rungs. They take more memory than
/// [packed ones](super::counters::RungCounters), which only fixed windows have.
#[derive(Debug)]
pub(super) struct StandingCounters {
    keys: KeyTable<KeptKey>,
    rungs: usize,
    /// If requests of a key may be few: then its counters are made only when they are more.
    sparse: Option<SparseTerms>,
    /// The memory that they take, in words, and the most of it before keys of which nothing counts are looked for.
    words: usize,
    swept_above: usize,
}

/// What is kept of a key.
#[derive(Debug)]
enum KeptKey {
    Sparse(SparseRequests),
    /// Its counters, one for each rung.
    Counted(Box<[KeptCounter]>),
}

/// What is kept of a counter.
#[derive(Debug, Clone, Default)]
enum KeptCounter {
    #[default]
    Unused,
    Window(u64, Window),
    Bucket(KeptBucket),
    Sliding(SlidingState, Timestamp),
    Log(Box<LogStanding>),
}

/// The instant at which all units of a bucket are back.
#[derive(Debug, Clone, Copy)]
struct KeptBucket {
    all_back: ExactInstant,
    /// The parts of a millisecond in which it is counted.
    all_parts: u64,
}

/// The time of a request, and the window that the replayed quota counts it in.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestTime {
    pub(super) now: Timestamp,
    pub(super) window: Window,
}

/// The words of a place for a key, without its counters.
const PLACE_WORDS: usize = size_of::<(u128, KeptKey)>() / size_of::<u64>();

/// The words of an allocation.
const BOX_WORDS: usize = 2;

/// The words of a counter without the entries of a log.
const COUNTER_WORDS: usize = size_of::<KeptCounter>() / size_of::<u64>();

/// The words of a log without its entries, with two allocations.
const LOG_WORDS: usize = size_of::<LogStanding>() / size_of::<u64>() + 4;

/// Words below which keys are not looked for.
const FEW_WORDS: usize = 1 << 13;

impl StandingCounters {
    /// Without counters so far, for so many rungs.
    pub(super) fn new(rungs: usize, sparse: Option<SparseTerms>) -> Self {
        Self { keys: KeyTable::new(), rungs, sparse, words: 0, swept_above: FEW_WORDS }
    }

    /// The memory that it takes, in words.
    pub(super) const fn words(&self) -> usize {
        self.words
    }

    /// Finds the rungs under which so many units do not fit into a key's counters now, and those of them under which
    /// they never do. A new key gets counters, as long as all then take at most so many words; else it is `None`.
    pub(super) fn without_room<'q>(
        &mut self,
        digest: u128,
        units: u64,
        quota_of: impl Fn(usize) -> Option<&'q Quota>,
        time: RequestTime,
        max_words: usize,
    ) -> Option<(RungBits, RungBits)> {
        // Any other key may get its counters now.
        let is_counted = matches!(self.keys.get_mut(digest), Some(KeptKey::Counted(_)));
        if !is_counted && self.words_with_another() > self.swept_above.min(max_words) {
            self.make_room(time.now, max_words)?;
        }
        if self.keys.get_mut(digest).is_none() {
            let places = self.keys.places();
            let counters = || vec![KeptCounter::default(); self.rungs].into_boxed_slice();
            let key = self.sparse.map_or_else(|| KeptKey::Counted(counters()), |_| KeptKey::default());
            self.words += key.words();
            self.keys.insert(digest, key)?;
            self.words += (self.keys.places() - places) * PLACE_WORDS;
        }
        let rungs = self.rungs;
        let key = self.keys.get_mut(digest)?;
        let before = key.words();
        let room = match key.fits_sparsely(units, time.now, self.sparse) {
            true => (0, 0),
            false => {
                let (mut without_room, mut above, mut is_unused) = (0, 0, true);
                for (rung, kept) in key.counters(rungs, &quota_of, time).iter_mut().enumerate() {
                    let Some(quota) = quota_of(rung) else { continue };
                    // Entries that have left a log are looked at only once.
                    let standing = mem::take(kept).standing(quota, time);
                    let (used, most) = (standing.used(), quota.capacity());
                    *kept = KeptCounter::of(standing, quota);
                    is_unused &= used == 0;
                    without_room |= RungBits::from(used + units > most) << rung;
                    above |= RungBits::from(units > most) << rung;
                }
                if is_unused && self.sparse.is_some() {
                    *key = KeptKey::default();
                }
                (without_room, above)
            }
        };
        self.words = self.words + key.words() - before;
        Some(room)
    }

    /// Adds units to a key's counters under these rungs.
    pub(super) fn add<'q>(
        &mut self,
        digest: u128,
        units: u64,
        charged: RungBits,
        quota_of: impl Fn(usize) -> Option<&'q Quota>,
        time: RequestTime,
    ) {
        let all = RungBits::MAX >> (MAX_RUNGS - self.rungs);
        let Some(key) = self.keys.get_mut(digest).filter(|_| units > 0 && charged & all != 0) else {
            return;
        };
        if let KeptKey::Sparse(requests) = key
            && charged & all == all
            && requests.add(units, time.now)
        {
            return;
        }
        let before = key.words();
        let counters = key.counters(self.rungs, &quota_of, time);
        for (rung, kept) in counters.iter_mut().enumerate().filter(|(rung, _)| charged >> rung & 1 == 1) {
            let Some(quota) = quota_of(rung) else { continue };
            *kept = KeptCounter::of(mem::take(kept).standing(quota, time).add(units), quota);
        }
        self.words = self.words + key.words() - before;
    }

    /// The memory that it takes after a new key has got its counters.
    const fn words_with_another(&self) -> usize {
        let places = self.keys.places_with_another() - self.keys.places();
        self.words + places * PLACE_WORDS + BOX_WORDS + self.rungs * COUNTER_WORDS
    }

    /// Prefetches the memory of a key.
    pub(super) fn prefetch(&self, digest: u128) {
        self.keys.prefetch(digest);
    }

    /// Forgets keys of which nothing counts any more.
    #[cold]
    fn make_room(&mut self, now: Timestamp, max_words: usize) -> Option<()> {
        let sparse = self.sparse;
        self.keys.retain(|key| match (key, sparse) {
            (KeptKey::Sparse(requests), Some(terms)) => !requests.are_over(now, terms),
            (KeptKey::Sparse(_), None) => false,
            (KeptKey::Counted(counters), _) => !counters.iter().all(|kept| kept.is_unused(now)),
        });
        let counters: usize = self.keys.values().map(KeptKey::words).sum();
        self.words = self.keys.places() * PLACE_WORDS + counters;
        self.swept_above = (self.words * 2).max(FEW_WORDS);
        // If nearly all still count, each of the next requests would look for others in vain.
        (self.words_with_another() <= max_words - max_words / 4).then_some(())
    }
}

impl Default for KeptKey {
    fn default() -> Self {
        Self::Sparse(SparseRequests::default())
    }
}

impl KeptKey {
    /// Returns whether the key has few requests, and so many units more fit under every rung.
    fn fits_sparsely(&mut self, units: u64, now: Timestamp, terms: Option<SparseTerms>) -> bool {
        match (self, terms) {
            (Self::Sparse(requests), Some(terms)) => requests.have_room(units, now, terms),
            _ => false,
        }
    }

    /// The counters of the key. If there are none, they are made from its requests.
    fn counters<'q>(
        &mut self,
        rungs: usize,
        quota_of: impl Fn(usize) -> Option<&'q Quota>,
        time: RequestTime,
    ) -> &mut [KeptCounter] {
        if let Self::Sparse(requests) = self {
            let counters = (0..rungs).map(|rung| {
                let Some(quota) = quota_of(rung) else { return KeptCounter::default() };
                requests.iter().fold(KeptCounter::default(), |kept, (now, units)| {
                    KeptCounter::of(kept.standing(quota, RequestTime { now, ..time }).add(units), quota)
                })
            });
            *self = Self::Counted(counters.collect());
        }
        match self {
            Self::Counted(counters) => counters,
            Self::Sparse(_) => &mut [],
        }
    }

    /// The memory that it takes besides its place in the table.
    fn words(&self) -> usize {
        match self {
            Self::Sparse(_) => 0,
            Self::Counted(counters) => {
                let logs: usize = counters.iter().map(KeptCounter::log_words).sum();
                BOX_WORDS + counters.len() * COUNTER_WORDS + logs
            }
        }
    }
}

impl KeptCounter {
    /// What is kept of a counter of this quota.
    fn of(standing: Standing, quota: &Quota) -> Self {
        match standing {
            Standing::Window(window) => Self::Window(standing.used(), window.window()),
            Standing::Burst(bucket) => {
                let all_parts = quota.bucket().map_or(1, |bucket| bucket.parts());
                Self::Bucket(KeptBucket { all_back: bucket.all_back(), all_parts })
            }
            Standing::Sliding(sliding) => Self::Sliding(sliding.state(), sliding.reset_at()),
            Standing::Log(log) => Self::Log(log),
            _ => Self::Unused,
        }
    }

    /// The counter at the time of a request. A window that is over, or that has opened without a unit, is not kept.
    fn standing(self, quota: &Quota, time: RequestTime) -> Standing {
        let now = time.now;
        match (self, quota.bucket()) {
            (Self::Window(used, window), _) if used > 0 && window.end() > now => {
                Standing::in_window(used, window)
            }
            (Self::Bucket(kept), Some(bucket)) => {
                Standing::Burst(BurstStanding::at(bucket, kept.counted_in(bucket.parts()), now).0)
            }
            (Self::Sliding(state, _), _) => {
                Standing::Sliding(SlidingStanding::at(Some(state), time.window_of(quota), now))
            }
            (Self::Log(log), _) => Standing::Log(Box::new(log.later(now))),
            _ => match quota.kind() {
                QuotaKind::Window => Standing::in_window(0, time.window_of(quota)),
                QuotaKind::Sliding => {
                    Standing::Sliding(SlidingStanding::at(None, time.window_of(quota), now))
                }
                _ => quota.unused_at(&Key::from(""), now),
            },
        }
    }

    fn is_unused(&self, now: Timestamp) -> bool {
        match self {
            Self::Unused => true,
            Self::Window(used, window) => *used == 0 || window.end() <= now,
            Self::Bucket(kept) => kept.all_back.millis < now,
            Self::Sliding(_, reset_at) => *reset_at <= now,
            Self::Log(log) => log.reset_at() <= now,
        }
    }

    /// The memory that it takes besides, if it is a log. That of entries grows by three at a time.
    fn log_words(&self) -> usize {
        match self {
            Self::Log(log) => LOG_WORDS + log.entries().len().next_multiple_of(3),
            _ => 0,
        }
    }
}

impl KeptBucket {
    /// The same instant for a bucket with other parts of a millisecond, as the memory store keeps it: requests may state
    /// limits.
    const fn counted_in(self, all_parts: u64) -> ExactInstant {
        let ExactInstant { millis, parts } = self.all_back;
        if all_parts == self.all_parts {
            return self.all_back;
        }
        let fraction = (parts << 32).div_ceil(self.all_parts);
        ExactInstant { millis, parts: (fraction * all_parts) >> 32 }
    }
}

impl RequestTime {
    /// The window of another quota than the replayed one. If it is staggered or of the calendar, the replayed one has
    /// the same windows.
    fn window_of(self, quota: &Quota) -> Window {
        match quota.anchor() {
            Anchor::Staggered | Anchor::Calendar => self.window,
            _ => quota.window_at(&Key::from(""), self.now),
        }
    }
}
