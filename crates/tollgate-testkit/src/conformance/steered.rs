//! The effects of a clock that steps forward and back: rules 1, 2, 11 and 12, to the millisecond.

use std::collections::HashMap;
use std::time::Duration;

use tollgate::{PolicyQuota, Timestamp, Window};

use super::{quota, short_quota};
use crate::windows::holding;
use crate::{ChargeCount, CounterUnderTest, GivenBackUnits, SettableClock, StoreSteps, instant};

const MILLISECOND: Duration = Duration::from_millis(1);

/// The first operation on a counter after a step back.
#[derive(Debug, Clone, Copy)]
enum Touch {
    Peek,
    Denial,
    Charge,
    Record,
    Set,
    Refund,
}

const TOUCHES: [Touch; 6] =
    [Touch::Peek, Touch::Denial, Touch::Charge, Touch::Record, Touch::Set, Touch::Refund];

/// Rule 11: a step happens at the store's time, which determines every window.
pub async fn a_step_happens_at_the_stores_time<S: SettableClock>(subject: &S) {
    let quota = quota("5/7s");
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    for millis in [1_700_000_000_000, 1_700_000_006_999, 1_700_000_007_000, 4_102_444_800_000] {
        let time = Timestamp::from_unix_millis(millis);
        subject.set_time(time);
        let counted = alice.counts(1).await;
        assert_eq!(counted.now, time);
        assert_eq!(counted.counts[0].window.start().as_unix_millis(), millis - millis % 7_000);
    }
}

/// Rules 1 and 10: the last millisecond of a window denies, its end admits.
pub async fn a_window_closes_to_the_millisecond<S: SettableClock>(subject: &S) {
    for &anchor in subject.anchors() {
        let quota = short_quota(subject, 5, anchor);
        let alice = CounterUnderTest::new(subject, &quota, "alice");
        let window = alice.fills().await;
        subject.set_time(window.end() - MILLISECOND);
        let last = alice.takes(1).await;
        assert_eq!((last.is_allowed(), last.reset_after()), (false, MILLISECOND), "{anchor:?}");
        subject.set_time(window.end());
        assert_eq!(alice.fills().await.start(), window.end(), "{anchor:?}");
    }
}

/// Rule 2: a calendar day has as many hours as its zone gives it.
pub async fn a_calendar_day_has_its_23_or_25_hours<S: SettableClock>(subject: &S) {
    let quota = quota("5/day@Europe/Berlin");
    let alice = CounterUnderTest::new(subject, &quota, "alice");
    let days = [
        ("2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", 23),
        ("2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z", 25),
    ];
    for (start, end, hours) in days {
        subject.set_time(instant(start));
        let window = alice.fills().await;
        assert_eq!(window.length(), Duration::from_secs(hours * 3600));
        subject.set_time(instant(end) - MILLISECOND);
        assert!(!alice.takes(1).await.is_allowed());
        subject.set_time(instant(end));
        assert_eq!(alice.fills().await.start(), instant(end));
    }
}

/// Rule 12: a step back within a window changes nothing but the time.
pub async fn a_step_back_inside_a_window_changes_nothing<S: SettableClock>(subject: &S) {
    for &anchor in subject.anchors() {
        let quota = short_quota(subject, 5, anchor);
        let alice = CounterUnderTest::new(subject, &quota, "alice");
        let window = alice.counts(2).await.counts[0].window;
        subject.set_time(window.start() + window.length() / 2);
        assert_eq!(alice.counts(2).await.counts[0].used, 4);
        subject.set_time(window.start());
        let back = alice.counts(2).await.counts[0];
        assert_eq!((back.fits, back.used, back.window), (false, 4, window), "{anchor:?}");
    }
}

/// Rule 12: however far the clock steps back, used units stay used.
pub async fn a_step_back_never_reopens_a_window<S: SettableClock>(subject: &S) {
    for &anchor in subject.anchors() {
        for windows in [1_u32, 2, 10, 100_000] {
            let quota = short_quota(subject, 5, anchor);
            let alice = CounterUnderTest::new(subject, &quota, windows);
            let window = alice.fills().await;
            subject.set_time(window.start() - window.length() * (windows - 1) - MILLISECOND);
            let back = alice.takes(1).await;
            assert_eq!((back.is_allowed(), back.used()), (false, 5), "{anchor:?}, {windows} windows back");
        }
    }
}

/// Rules 10 and 12: after a step back nobody waits longer than one window, however often they try meanwhile.
///
/// A store that denied by a window that has not begun, and kept the counter there, would deny again in every window
/// until then, with a new `retry_after` each time.
pub async fn a_step_back_locks_nobody_out_for_longer_than_a_window<S: SettableClock>(subject: &S) {
    for &anchor in subject.anchors() {
        let quota = short_quota(subject, 5, anchor);
        let alice = CounterUnderTest::new(subject, &quota, "alice");
        let window = alice.fills().await;
        let back = window.start() - window.length() * 10;
        subject.set_time(back);
        let mut wait = Duration::ZERO;
        for _ in 0..3 {
            let denied = alice.counts(1).await;
            assert!(!denied.is_admitted(), "{anchor:?}");
            let decision = alice.peeks().await;
            wait = decision.retry_after().expect("a denial that ends");
            assert!(denied.now + wait <= back + window.length(), "{anchor:?}: {wait:?} at {:?}", denied.now);
            subject.set_time(denied.now + wait / 3);
        }
        subject.set_time(subject.now().await + wait);
        assert!(alice.takes(1).await.is_allowed(), "{anchor:?}: denied after {wait:?}");
    }
}

/// Rule 12: a peek after a step back gets a true answer as well.
pub async fn a_peek_after_a_step_back_keeps_its_promise<S: SettableClock>(subject: &S) {
    for &anchor in subject.anchors() {
        let quota = short_quota(subject, 5, anchor);
        let alice = CounterUnderTest::new(subject, &quota, "alice");
        let window = alice.fills().await;
        subject.set_time(window.start() - window.length() * 10);
        let wait = alice.peeks().await.retry_after().expect("a denial that ends");
        subject.set_time(subject.now().await + wait);
        assert!(alice.peeks().await.is_allowed(), "{anchor:?}");
    }
}

/// Rule 12: a step forward costs the skipped windows and nothing else.
pub async fn a_step_forward_costs_only_the_skipped_windows<S: SettableClock>(subject: &S) {
    for &anchor in subject.anchors() {
        let quota = short_quota(subject, 5, anchor);
        let alice = CounterUnderTest::new(subject, &quota, "alice");
        let window = alice.fills().await;
        let mut time = window.end();
        for skipped in [0_u32, 1, 1000, 0] {
            time = time + window.length() * skipped;
            subject.set_time(time);
            let next = alice.fills().await;
            assert!(next.contains(time), "{anchor:?}");
            assert!(!alice.takes(1).await.is_allowed(), "{anchor:?}");
            time = next.end();
        }
    }
}

/// Rule 12: after a step back of up to a second a counter stays in its window, whatever operation comes first. The
/// answer has the store's time, and the wait lasts from there to the end of the window.
pub async fn a_step_back_of_a_second_reopens_nothing<S: SettableClock>(subject: &S) {
    for &anchor in subject.anchors() {
        for (back, touch) in [1_u64, 999, 1_000].into_iter().flat_map(|back| TOUCHES.map(|it| (back, it))) {
            let at = format!("{anchor:?}, {back} ms back, {touch:?}");
            let quota = short_quota(subject, 5, anchor);
            let alice = CounterUnderTest::new(subject, &quota, at.as_str());
            let window = alice.opens(3).await;
            let now = window.start() - Duration::from_millis(back);
            subject.set_time(now);

            let touched = alice.touch(touch, window).await;
            let expected = match touch {
                Touch::Peek => Some(ChargeCount { used: 3, window, fits: true, units: 0 }),
                Touch::Denial => Some(ChargeCount { used: 3, window, fits: false, units: 0 }),
                Touch::Charge | Touch::Record => Some(ChargeCount { used: 4, window, fits: true, units: 1 }),
                Touch::Set => Some(ChargeCount { used: 1, window, fits: true, units: 0 }),
                Touch::Refund => None,
            };
            assert_eq!(touched, expected, "{at}");
            alice.sets(5).await;
            for time in [now, window.start(), window.end() - MILLISECOND] {
                subject.set_time(time);
                let denied = alice.takes(1).await;
                assert_eq!((denied.is_allowed(), denied.used()), (false, 5), "{at}, at {time:?}");
                let (window_then, then) = (denied.quotas()[0].window().unwrap(), denied.quotas()[0].now());
                assert_eq!((window_then, then), (window, time), "{at}");
                assert_eq!(denied.retry_after(), Some(window.end().since(time)), "{at}, at {time:?}");
            }
            subject.set_time(window.end());
            assert!(alice.fills().await.contains(window.end()), "{at}");
        }
    }
}

/// Rule 12: a longer step back takes the counter, with its usage, into the window that holds now. The first operation
/// writes that; otherwise the key would be held until its first window is over.
pub async fn a_longer_step_back_takes_the_counter_along<S: SettableClock>(subject: &S) {
    for &anchor in subject.anchors() {
        for (back, touch) in [1_001_u64, 3_600_000].into_iter().flat_map(|back| TOUCHES.map(|it| (back, it)))
        {
            let at = format!("{anchor:?}, {back} ms back, {touch:?}");
            let quota = short_quota(subject, 5, anchor);
            let alice = CounterUnderTest::new(subject, &quota, at.as_str());
            let left = alice.opens(3).await;
            let now = left.start() - Duration::from_millis(back);
            subject.set_time(now);

            let window = holding(quota.quota(), alice.key(), now);
            let touched = alice.touch(touch, left).await;
            let expected = match touch {
                Touch::Peek => Some(ChargeCount { used: 3, window, fits: true, units: 0 }),
                Touch::Denial => Some(ChargeCount { used: 3, window, fits: false, units: 0 }),
                Touch::Charge | Touch::Record => Some(ChargeCount { used: 4, window, fits: true, units: 1 }),
                Touch::Set => Some(ChargeCount { used: 1, window, fits: true, units: 0 }),
                Touch::Refund => None,
            };
            assert_eq!(touched, expected, "{at}");
            subject.set_time(window.end());
            assert!(alice.fills().await.contains(window.end()), "{at}");
        }
    }
}

/// Rule 12: a clock that wavers about a boundary, less than a second back each time, lets no window admit more than its
/// limit. Every step is counted in the window that holds it or that begins within a second.
pub async fn a_step_back_and_forth_admits_nothing_twice<S: SettableClock>(subject: &S) {
    for &anchor in subject.anchors() {
        let quota = short_quota(subject, 5, anchor);
        let alice = CounterUnderTest::new(subject, &quota, "alice");
        let first = alice.opens(2).await;
        let mut admitted = HashMap::from([(first, 2)]);
        let wavering = [-1, 0, -1, 0, -2, 1, -499, 499, -501, 0, -1, 1, -250, 250, -499, 498, 499];
        for millis in wavering {
            let now = first.end().as_unix_millis() + millis;
            subject.set_time(Timestamp::from_unix_millis(now));
            let counted = alice.counts(1).await;
            let window = counted.counts[0].window;
            *admitted.entry(window).or_default() += u64::from(counted.is_admitted());
            let begins_soon = window.start() <= counted.now + Duration::from_secs(1);
            assert!(begins_soon && counted.now < window.end(), "{anchor:?}: {counted:?}");
        }
        assert!(admitted.values().all(|units| *units <= 5), "{anchor:?}: {admitted:?}");
        assert_eq!(admitted.len(), 2, "{anchor:?}: {admitted:?}");
        assert_eq!(admitted.values().max(), Some(&5), "{anchor:?}: {admitted:?}");
    }
}

/// Rules 8 and 12: each counter of a request stays in its own window, and the request is still all or nothing.
pub async fn a_step_back_leaves_each_quota_its_own_window<S: SettableClock>(subject: &S) {
    let hour = quota("5/1h");
    for &anchor in subject.anchors() {
        let short = short_quota(subject, 3, anchor);
        let short = CounterUnderTest::new(subject, &short, format!("{anchor:?}").as_str());
        let window = short.opens(1).await;
        let hour = short.under(&hour);
        let hours = holding(hour.charge(0).counter().quota().quota(), hour.key(), window.start());
        let both = [short.charge(1), hour.charge(1)];
        assert!(subject.store().charge(&both).await.unwrap().is_admitted());

        subject.set_time(window.start() - MILLISECOND);
        for (fits, used) in [(true, [3, 2]), (false, [3, 2])] {
            let counted = subject.store().charge(&both).await.unwrap();
            let found = [0, 1].map(|place| (counted[place].used(), counted[place].window().unwrap()));
            assert_eq!(counted.is_admitted(), fits, "{anchor:?}");
            assert_eq!(found, [(used[0], window), (used[1], hours)], "{anchor:?}");
        }
    }
}

/// Rules 2 and 12: a calendar window stays open through a step back of a second, like any other; a longer step takes
/// its counter along.
pub async fn a_step_back_over_midnight_reopens_no_date<S: SettableClock>(subject: &S) {
    let quotas = ["5/day@Europe/Berlin", "5/week@UTC", "5/month@Pacific/Auckland", "5/year@America/New_York"];
    for (text, back) in quotas.into_iter().flat_map(|text| [1_u64, 1_000].map(|back| (text, back))) {
        let quota = quota(text);
        let alice = CounterUnderTest::new(subject, &quota, back);
        let window = alice.opens(3).await;
        for touch in TOUCHES {
            subject.set_time(window.start() - Duration::from_millis(back));
            alice.sets(3).await;
            let touched = alice.touch(touch, window).await;
            assert!(touched.is_none_or(|count| count.window == window), "{text}, {touch:?}: {touched:?}");
            subject.set_time(window.start());
            let peeked = alice.peeks().await;
            assert_eq!(peeked.quotas()[0].window().unwrap(), window, "{text}, {touch:?}");
        }
        let before = holding(quota.quota(), alice.key(), window.start() - MILLISECOND);
        // Includes the last instant before another window, which the counter has not been in.
        for earlier in [window.start() - Duration::from_millis(1_001), before.start() - MILLISECOND] {
            subject.set_time(window.start());
            alice.resets().await;
            assert_eq!(alice.fills().await, window, "{text}");
            subject.set_time(earlier);
            let expected = holding(quota.quota(), alice.key(), earlier);
            let moved = alice.counts(1).await.counts[0];
            assert_eq!(
                moved,
                ChargeCount { used: 5, window: expected, fits: false, units: 0 },
                "{text}, at {earlier:?}"
            );
        }
        subject.set_time(window.start());
        assert_eq!(alice.fills().await, window, "{text}");
    }
}

/// Rule 12: a store remembers a window's usage for a second after its end, in case the clock steps back into it. No
/// operation makes it forget that, except one that takes units of the next window.
pub async fn a_step_back_into_a_closed_window_finds_it_used_up<S: SettableClock>(subject: &S) {
    for &anchor in subject.anchors() {
        for (back, looks) in [1_u64, 999, 1_000].into_iter().flat_map(|back| [(back, false), (back, true)]) {
            let at = format!("{anchor:?}, {back} ms back, {looks}");
            let quota = short_quota(subject, 5, anchor);
            let alice = CounterUnderTest::new(subject, &quota, at.as_str());
            let window = alice.opens(5).await;
            subject.set_time(window.end() - MILLISECOND + Duration::from_millis(back));
            if looks {
                assert!(alice.peeks().await.is_allowed(), "{at}");
                assert!(!alice.takes(6).await.is_allowed(), "{at}");
                assert_eq!(alice.refunds(1, window.start()).await, None, "{at}");
            }
            subject.set_time(window.end() - MILLISECOND);
            let found = alice.counts(1).await.counts[0];
            assert_eq!(found, ChargeCount { used: 5, window, fits: false, units: 0 }, "{at}");
        }
    }
}

impl<S: SettableClock> CounterUnderTest<'_, S> {
    /// Takes this many units at the start of the next window, and returns that window.
    async fn opens(&self, cost: u32) -> Window {
        let quota: &PolicyQuota = self.charge(0).counter().quota();
        let start = holding(quota.quota(), self.key(), self.subject().now().await).end();
        self.subject().set_time(start);
        let counted = self.counts(cost).await.counts[0];
        let window = holding(quota.quota(), self.key(), start);
        assert_eq!(counted, ChargeCount { used: cost.into(), window, fits: true, units: cost });
        window
    }

    /// Operates on a counter with three of five units used, and returns what the operation found. A refund gives back
    /// one unit if the counter is still in the window that was opened, and otherwise finds that window closed.
    async fn touch(&self, touch: Touch, opened: Window) -> Option<ChargeCount> {
        Some(match touch {
            Touch::Peek => (&self.peeks().await.quotas()[0]).into(),
            Touch::Denial => self.counts(3).await.counts[0],
            Touch::Charge => self.counts(1).await.counts[0],
            Touch::Record => self.records(1).await,
            Touch::Set => self.sets(1).await,
            Touch::Refund => {
                let is_short = opened.start().since(self.subject().now().await) <= Duration::from_secs(1);
                let expected = if is_short { Some(GivenBackUnits { units: 1, used: 2 }) } else { None };
                assert_eq!(self.refunds(1, opened.start()).await, expected);
                return None;
            }
        })
    }
}
