//! A memory of counters that denied, to deny again without asking.
//!
//! Inside a window, a count only grows, so a cost that did not fit will not fit later (G9). Of other kinds of quota, units
//! come back at a known rate. The count is remembered, not the verdict: a request with another limit or cost is decided
//! by its own. A count is used until its window ends, and for at most a second, because another process may give units
//! back. Shortly before the second is over, one
//! request goes to the store to renew the count while the others are still denied here.
//!
//! Memory is bounded: in a table of fixed size, the latest count displaces the oldest of its bucket. Forgetting is
//! harmless.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollgate::kind::Standing;
use tollgate::{Timestamp, Window};

use crate::time::Instant;

/// The time for which a count is used.
const BELIEVED: Duration = Duration::from_secs(1);

/// The time after which one request is sent to renew it.
const RENEWED: Duration = Duration::from_millis(900);

/// Counters in a bucket.
const PLACES: usize = 4;

/// The maximum number of buckets: more than fit into any memory, but few enough to round up.
const MOST_BUCKETS: usize = 1 << 40;

/// Identifies a counter in this process.
pub(crate) type Id = u128;

/// The last counts of counters that denied.
#[derive(Debug)]
pub(crate) struct Denials {
    /// One for each bucket, stored apart from them: most lookups need only the mark, and all marks together fit into a
    /// cache.
    marks: Box<[DenialMark]>,
    buckets: Box<[Mutex<DenialBucket>]>,
}

type DenialBucket = [Option<DenialEntry>; PLACES];

/// The lowest bit is set once a place of the bucket was taken. The others are its version. It goes up when something is
/// given back, and when the store answers a charge of a counter that is not remembered here. An answer to a command
/// from before that is not remembered.
///
/// Read without the lock. The version is read before a request, and compared under the lock later: one that is too
/// old only means that an answer is not remembered. A request that misses a count that is being remembered right now
/// came a moment too early.
#[derive(Debug, Default)]
struct DenialMark(AtomicU64);

const USED: u64 = 1;

#[derive(Debug, Clone, Copy)]
struct MarkedBucket<'a> {
    mark: &'a DenialMark,
    places: &'a Mutex<DenialBucket>,
}

#[derive(Debug, Clone)]
struct DenialEntry {
    count: RememberedCount,
    /// Whether a request to renew it is in flight.
    is_renewed: bool,
}

/// A count from the store.
#[derive(Debug, Clone)]
pub(crate) struct RememberedCount {
    pub(crate) counter: Id,
    pub(crate) standing: Standing,
    /// The server's time when it counted.
    pub(crate) now: Timestamp,
    /// Before the server counted.
    pub(crate) sent: Instant,
    /// After the server counted.
    pub(crate) received: Instant,
}

/// The version of a bucket when a request was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version(u64);

impl Denials {
    /// Creates a table for this many counters, rounded up; with 0, nothing is remembered.
    pub(crate) fn new(counters: usize) -> Self {
        let buckets =
            if counters == 0 { 0 } else { counters.div_ceil(PLACES).min(MOST_BUCKETS).next_power_of_two() };
        Self {
            marks: (0..buckets).map(|_| DenialMark::default()).collect(),
            buckets: (0..buckets).map(|_| Mutex::default()).collect(),
        }
    }

    /// The remembered count, if any, and whether it should be renewed.
    pub(crate) fn recall(&self, counter: Id, at: Instant) -> Option<(RememberedCount, bool)> {
        let places = self.bucket(counter).filter(|bucket| bucket.mark.is_used())?.places();
        let place = places.iter().flatten().find(|place| place.count.counter == counter)?;
        (at < place.count.believed_until()).then(|| (place.count.clone(), place.is_due(at)))
    }

    /// Returns whether this caller should renew the remembered count.
    pub(crate) fn is_to_renew(&self, counter: Id, at: Instant) -> bool {
        let Some(bucket) = self.bucket(counter) else { return true };
        let mut places = bucket.places();
        let Some(place) = places.iter_mut().flatten().find(|place| place.count.counter == counter) else {
            return true;
        };
        let is_due = place.is_due(at);
        place.is_renewed |= is_due;
        is_due
    }

    /// Returns the bucket's version; read it before sending a request whose answer may be remembered.
    pub(crate) fn version(&self, counter: Id) -> Version {
        self.bucket(counter).map_or(Version(0), |bucket| bucket.mark.version())
    }

    /// Remembers the count, unless the version has changed since.
    pub(crate) fn remember(&self, count: RememberedCount, version: Version) {
        let Some(bucket) = self.bucket(count.counter) else { return };
        // One lock for both steps; otherwise two threads could each take a place for the same counter.
        let mut places = bucket.places();
        if bucket.correct(&mut places, &count, version) {
            return;
        }
        let oldest = places.iter_mut().min_by_key(|place| place.as_ref().map(|place| place.count.sent));
        if let Some(oldest) = oldest.filter(|_| bucket.mark.use_up(version)) {
            *oldest = Some(DenialEntry { count, is_renewed: false });
        }
    }

    /// Returns whether the counter may be remembered. Cheaper than reading the count.
    pub(crate) fn may_know(&self, counter: Id) -> bool {
        self.bucket(counter).is_some_and(|bucket| bucket.mark.is_used())
    }

    /// Raises the version of a bucket that never remembered anything, so that there is nothing to
    /// [update](Self::update). Returns `false` if it has remembered something.
    pub(crate) fn note_unknown(&self, counter: Id) -> bool {
        self.bucket(counter).is_none_or(|bucket| bucket.mark.raise_unless_used())
    }

    /// Corrects the remembered count, so that no caller gets a lower count than an earlier one.
    pub(crate) fn update(&self, count: RememberedCount, version: Version) {
        let Some(bucket) = self.bucket(count.counter) else { return };
        let mut places = bucket.places();
        if !bucket.correct(&mut places, &count, version) {
            // Counts from earlier steps that are still in flight are lower.
            bucket.mark.raise();
        }
    }

    /// Forgets the counter, and invalidates answers in flight.
    pub(crate) fn forget(&self, counter: Id) {
        let Some(bucket) = self.bucket(counter) else { return };
        let mut places = bucket.places();
        bucket.mark.raise();
        for place in places.iter_mut() {
            place.take_if(|place| place.count.counter == counter);
        }
    }

    fn bucket(&self, counter: Id) -> Option<MarkedBucket<'_>> {
        // An id is part of a digest, so its low bits are evenly distributed.
        let index = counter as usize & self.buckets.len().checked_sub(1)?;
        Some(MarkedBucket { mark: self.marks.get(index)?, places: self.buckets.get(index)? })
    }
}

impl DenialMark {
    fn is_used(&self) -> bool {
        // Acquire: with the release in `use_up`, though the lock would do for what is in the places.
        self.0.load(Ordering::Acquire) & USED != 0
    }

    /// Marks the bucket as used, if the version has not changed. Returns whether it did.
    fn use_up(&self, version: Version) -> bool {
        let used = |mark| (mark & !USED == version.0).then_some(mark | USED);
        self.0.fetch_update(Ordering::Release, Ordering::Relaxed, used).is_ok()
    }

    /// Raises the version, unless the bucket was ever used. Returns whether it did.
    fn raise_unless_used(&self) -> bool {
        let raised = |mark| (mark & USED == 0).then_some(mark + USED + 1);
        self.0.fetch_update(Ordering::Release, Ordering::Relaxed, raised).is_ok()
    }

    fn version(&self) -> Version {
        // Acquire: with the release in `raise`, so that a request sent after a change is not taken for one from
        // before it.
        Version(self.0.load(Ordering::Acquire) & !USED)
    }

    fn raise(&self) {
        self.0.fetch_add(USED + 1, Ordering::Release);
    }
}

impl<'a> MarkedBucket<'a> {
    fn places(self) -> MutexGuard<'a, DenialBucket> {
        // Nothing panics under this lock.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Corrects the count that these places hold of the counter. Returns whether they hold one afterwards. A count from
    /// another version than the new one is dropped, because either may be the later one.
    fn correct(self, places: &mut DenialBucket, count: &RememberedCount, version: Version) -> bool {
        let is_of = |place: &DenialEntry| place.count.counter == count.counter;
        let Some(place) = places.iter_mut().find(|place| place.as_ref().is_some_and(is_of)) else {
            return false;
        };
        if self.mark.version() != version {
            *place = None;
            return false;
        }
        if place.as_ref().is_some_and(|place| !place.count.is_newer_than(count)) {
            *place = Some(DenialEntry { count: count.clone(), is_renewed: false });
        }
        true
    }
}

impl DenialEntry {
    fn is_due(&self, at: Instant) -> bool {
        at >= self.count.sent + RENEWED && !self.is_renewed
    }
}

impl RememberedCount {
    /// Returns whether this is the later count, in the order in which this process asked: the server's clock may have
    /// stepped back. If both were in flight at the same time, it is the one with the later time or, within one window or
    /// millisecond, the higher one: nothing was given back in between.
    fn is_newer_than(&self, other: &Self) -> bool {
        let overlap = self.sent < other.received && other.sent < self.received;
        if !overlap {
            self.sent > other.sent
        } else if self.now == other.now || self.window().is_some() && self.window() == other.window() {
            self.standing.used() > other.standing.used()
        } else {
            self.now > other.now
        }
    }

    /// The window ends so long after the server counted, which was after the command was sent: from there it is
    /// never believed beyond its window. The server's time is a whole number of milliseconds and may have been
    /// almost one more.
    fn believed_until(&self) -> Instant {
        let left =
            self.window().map(|window| window.end().since(self.now).saturating_sub(Duration::from_millis(1)));
        self.sent + BELIEVED.min(left.unwrap_or(BELIEVED))
    }

    /// The window of a quota that counts in fixed ones.
    pub(crate) fn window(&self) -> Option<Window> {
        match &self.standing {
            Standing::Window(window) => Some(window.window()),
            _ => None,
        }
    }

    /// Returns the latest time that the server can have: it counted after the command was sent, and its time is a whole
    /// number of milliseconds that may have been almost one more.
    pub(crate) fn latest_at(&self, at: Instant) -> Timestamp {
        self.now + at.saturating_duration_since(self.sent) + Duration::from_millis(1)
    }

    /// Returns the server's time, or a little less, so that no client is told to return too early.
    pub(crate) fn now_at(&self, at: Instant) -> Timestamp {
        self.now + at.saturating_duration_since(self.received)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::instant;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_unix_millis(millis)
    }

    /// Counted 300 ms before the end of its window.
    fn remembered(counter: Id, sent: Instant) -> RememberedCount {
        let window = Window::new(at(0), at(1_000));
        RememberedCount {
            counter,
            standing: Standing::in_window(5, window),
            now: at(700),
            sent,
            received: sent + millis(40),
        }
    }

    fn with_used(used: u64, count: RememberedCount) -> RememberedCount {
        RememberedCount { standing: count.standing.set(used), ..count }
    }

    fn in_an_hour(counter: Id, sent: Instant) -> RememberedCount {
        RememberedCount {
            standing: Standing::in_window(5, Window::new(at(0), at(3_600_000))),
            ..remembered(counter, sent)
        }
    }

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn nothing_is_believed_beyond_its_window() {
        let (denials, sent) = (Denials::new(16), instant());
        denials.remember(remembered(1, sent), denials.version(1));
        assert!(denials.recall(1, sent + millis(298)).is_some());
        assert!(denials.recall(1, sent + millis(299)).is_none());
    }

    #[test]
    fn nothing_is_believed_for_more_than_a_second() {
        let (denials, sent) = (Denials::new(16), instant());
        denials.remember(in_an_hour(1, sent), denials.version(1));
        assert!(denials.recall(1, sent + millis(999)).is_some());
        assert!(denials.recall(1, sent + millis(1_000)).is_none());
    }

    #[test]
    fn one_request_renews_while_the_others_are_denied() {
        let (denials, sent) = (Denials::new(16), instant());
        denials.remember(in_an_hour(1, sent), denials.version(1));
        let is_due = |at| denials.recall(1, at).expect("it is remembered").1;
        assert!(!denials.is_to_renew(1, sent + millis(899)) && !is_due(sent + millis(899)));
        // Asking whether it is due claims nothing.
        assert!(is_due(sent + millis(900)) && is_due(sent + millis(900)));
        assert!(denials.is_to_renew(1, sent + millis(900)));
        assert!(!denials.is_to_renew(1, sent + millis(901)) && !is_due(sent + millis(901)));
        denials.remember(in_an_hour(1, sent + RENEWED), denials.version(1));
        assert!(denials.is_to_renew(1, sent + RENEWED * 2));
    }

    #[test]
    fn answers_to_requests_sent_before_a_refund_are_not_remembered() {
        let (denials, sent) = (Denials::new(16), instant());
        let before = denials.version(1);
        denials.forget(1);
        denials.remember(remembered(1, sent), before);
        assert!(denials.recall(1, sent).is_none());
        denials.remember(remembered(1, sent), denials.version(1));
        assert!(denials.recall(1, sent).is_some());
        denials.forget(1);
        assert!(denials.recall(1, sent).is_none());
    }

    #[test]
    fn nobody_is_told_of_less_than_somebody_was_told_before() {
        let (denials, sent) = (Denials::new(16), instant());
        let count = |used, after| with_used(used, in_an_hour(1, sent + millis(after)));
        let used = || denials.recall(1, sent + millis(60)).map(|(count, _)| count.standing.used());
        denials.update(count(5, 0), denials.version(1));
        assert_eq!(used(), None, "only a denial is worth a place");
        denials.remember(count(5, 0), denials.version(1));
        denials.update(count(7, 10), denials.version(1));
        assert_eq!(used(), Some(7));
        denials.remember(count(6, 20), denials.version(1));
        assert_eq!(used(), Some(7), "both were in flight at once");
        denials.remember(count(4, 50), denials.version(1));
        assert_eq!(used(), Some(4), "another process gave something back");
    }

    /// The later of two windows was taken for the later answer. So after a step back of the server's clock nothing new
    /// was remembered, and each request of a denied key went to the store until the old time had come again.
    #[test]
    fn after_a_step_back_the_earlier_window_is_remembered() {
        let (denials, sent) = (Denials::new(16), instant());
        denials.remember(in_an_hour(1, sent), denials.version(1));
        let (start, now) = (at(-7_200_000), at(-5_000_000));
        let window = Window::new(start, start + Duration::from_secs(3_600));
        let standing = Standing::in_window(5, window);
        let back = RememberedCount { standing, now, ..remembered(1, sent + millis(50)) };
        denials.remember(back, denials.version(1));
        assert_eq!(denials.recall(1, sent + millis(90)).and_then(|(count, _)| count.window()), Some(window));
    }

    /// A denial and a unit that was admitted after it were in flight at once, and the unit's answer came first. The
    /// denial's count was remembered then, so the next denial reported less than the unit's caller had been told.
    #[test]
    fn a_denial_from_before_an_admission_is_not_remembered() {
        let (denials, sent) = (Denials::new(16), instant());
        let count = |used, after| with_used(used, in_an_hour(1, sent + millis(after)));
        let used = || denials.recall(1, sent + millis(60)).map(|(count, _)| count.standing.used());
        let version = denials.version(1);
        denials.update(count(1, 0), version);
        denials.remember(count(0, 0), version);
        assert_eq!(used(), None);
        // Also where the answers of two more units and a denial between them come in another order.
        let (before, after) = (version, denials.version(1));
        denials.remember(count(2, 20), after);
        denials.update(count(3, 20), before);
        denials.remember(count(2, 20), after);
        assert_eq!(used(), None);
    }

    #[test]
    fn a_full_bucket_forgets_its_oldest() {
        let (denials, sent) = (Denials::new(PLACES), instant());
        let counters = PLACES as Id;
        for (counter, after) in (0..=counters).zip(0..) {
            denials.remember(remembered(counter, sent + millis(after)), denials.version(counter));
        }
        assert!(denials.recall(0, sent).is_none());
        assert!((1..=counters).all(|counter| denials.recall(counter, sent).is_some()));
    }

    /// Two answers at once each found the counter unknown, and each took a place.
    #[test]
    fn a_counter_takes_one_place_whoever_remembers_it() {
        let sent = instant();
        for _ in 0..20_000 {
            let denials = Denials::new(PLACES);
            let remember = || denials.remember(in_an_hour(1, sent), denials.version(1));
            std::thread::scope(|scope| {
                scope.spawn(remember);
                scope.spawn(remember);
            });
            assert_eq!(denials.bucket(1).unwrap().places().iter().flatten().count(), 1);
        }
    }

    #[test]
    fn the_time_of_a_local_denial_is_never_ahead_of_the_servers() {
        let sent = instant();
        let count = remembered(1, sent);
        assert_eq!(count.now_at(count.received + millis(10)), count.now + millis(10));
        assert_eq!(count.now_at(sent), count.now);
    }

    #[test]
    fn without_room_nothing_is_remembered() {
        let (denials, sent) = (Denials::new(0), instant());
        denials.remember(remembered(1, sent), denials.version(1));
        assert!(denials.recall(1, sent).is_none());
    }
}
