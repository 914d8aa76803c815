//! The counters of one quota of any kind, under several quotas at once: as the engine counts them.

use std::collections::HashMap;
use std::mem;

use tollgate::kind::{BurstStanding, ExactInstant, LogStanding, SlidingStanding, SlidingState, Standing};
use tollgate::{Anchor, Key, Quota, QuotaKind, Timestamp, Window};

use super::denials::RungBits;

/// A counter for each key under each of some rungs. They take more memory than
/// [packed ones](super::counters::RungCounters), which only fixed windows have.
#[derive(Debug)]
pub(super) struct StandingCounters {
    keys: HashMap<u128, Box<[KeptCounter]>>,
    rungs: usize,
    /// The memory that they take, in words, and the most of it before keys of which nothing counts are looked for.
    words: usize,
    swept_above: usize,
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

/// The words of a key without its counters: its digest, its place in the table with some that are free, and two
/// allocations.
const KEY_WORDS: usize = 12;

/// The words of a counter without the entries of a log.
const COUNTER_WORDS: usize = size_of::<KeptCounter>() / size_of::<u64>();

/// The words of a log without its entries, with two allocations.
const LOG_WORDS: usize = size_of::<LogStanding>() / size_of::<u64>() + 4;

/// Words below which keys are not looked for.
const FEW_WORDS: usize = 1 << 13;

impl StandingCounters {
    /// Without counters so far, for so many rungs.
    pub(super) fn new(rungs: usize) -> Self {
        Self { keys: HashMap::new(), rungs, words: 0, swept_above: FEW_WORDS }
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
        if self.words + self.key_words() > self.swept_above.min(max_words) {
            self.make_room(time.now, max_words)?;
        }
        let (keys, key_words) = (self.keys.len(), self.key_words());
        let counters = || vec![KeptCounter::default(); self.rungs].into_boxed_slice();
        let counters = self.keys.entry(digest).or_insert_with(counters);
        let (mut without_room, mut above) = (0, 0);
        for (rung, kept) in counters.iter_mut().enumerate() {
            let Some(quota) = quota_of(rung) else { continue };
            let before = kept.log_words();
            // Entries that have left a log are looked at only once.
            let standing = mem::take(kept).standing(quota, time);
            let (used, most) = (standing.used(), quota.capacity());
            *kept = KeptCounter::of(standing, quota);
            self.words = self.words - before + kept.log_words();
            without_room |= RungBits::from(used + units > most) << rung;
            above |= RungBits::from(units > most) << rung;
        }
        self.words += (self.keys.len() - keys) * key_words;
        Some((without_room, above))
    }

    /// Adds units to a key's counters under these rungs.
    pub(super) fn add<'q>(
        &mut self,
        digest: u128,
        units: u64,
        rungs: RungBits,
        quota_of: impl Fn(usize) -> Option<&'q Quota>,
        time: RequestTime,
    ) {
        let counters = self.keys.get_mut(&digest).into_iter().flatten();
        for (rung, kept) in counters.enumerate().filter(|(rung, _)| units > 0 && rungs >> rung & 1 == 1) {
            let Some(quota) = quota_of(rung) else { continue };
            let before = kept.log_words();
            *kept = KeptCounter::of(mem::take(kept).standing(quota, time).add(units), quota);
            self.words = self.words - before + kept.log_words();
        }
    }

    const fn key_words(&self) -> usize {
        KEY_WORDS + self.rungs * COUNTER_WORDS
    }

    /// Forgets keys of which nothing counts any more.
    #[cold]
    fn make_room(&mut self, now: Timestamp, max_words: usize) -> Option<()> {
        self.keys.retain(|_, counters| !counters.iter().all(|kept| kept.is_unused(now)));
        if self.keys.len() * 4 < self.keys.capacity() {
            self.keys.shrink_to(self.keys.len() * 2);
        }
        let logs: usize = self.keys.values().flatten().map(KeptCounter::log_words).sum();
        self.words = self.keys.len() * self.key_words() + logs;
        self.swept_above = (self.words * 2).max(FEW_WORDS);
        // If nearly all still count, each of the next requests would look for others in vain.
        (self.words + self.key_words() <= max_words - max_words / 4).then_some(())
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
