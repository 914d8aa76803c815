//! What a clock that is set forward and back may cost: rules 1, 2, 11 and 12, to the millisecond.

use std::time::Duration;

use tollgate::Timestamp;

use super::{quota, short_quota};
use crate::{Caller, SteeredClock, instant};

const MILLISECOND: Duration = Duration::from_millis(1);

/// Rule 11: a step happens at the store's time, and every window is found from it.
pub async fn a_step_happens_at_the_stores_time<S: SteeredClock>(subject: &S) {
    let quota = quota("5/7s");
    let alice = Caller::new(subject, &quota, "alice");
    for millis in [1_700_000_000_000, 1_700_000_006_999, 1_700_000_007_000, 4_102_444_800_000] {
        let time = Timestamp::from_unix_millis(millis);
        subject.set_time(time);
        let counted = alice.counts(1).await;
        assert_eq!(counted.now, time);
        assert_eq!(counted.counts[0].window.start().as_unix_millis(), millis - millis % 7_000);
    }
}

/// Rules 1 and 10: the last millisecond of a window denies, its end admits.
pub async fn a_window_closes_to_the_millisecond<S: SteeredClock>(subject: &S) {
    for &anchor in subject.anchors() {
        let quota = short_quota(subject, 5, anchor);
        let alice = Caller::new(subject, &quota, "alice");
        let window = alice.fills().await;
        subject.set_time(window.end() - MILLISECOND);
        let last = alice.takes(1).await;
        assert_eq!((last.is_allowed(), last.reset_after()), (false, MILLISECOND), "{anchor:?}");
        subject.set_time(window.end());
        assert_eq!(alice.fills().await.start(), window.end(), "{anchor:?}");
    }
}

/// Rule 2: a calendar day is as long as people there live it.
pub async fn a_calendar_day_has_its_23_or_25_hours<S: SteeredClock>(subject: &S) {
    let quota = quota("5/day@Europe/Berlin");
    let alice = Caller::new(subject, &quota, "alice");
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

/// Rule 12: a step back inside a window changes nothing but the time.
pub async fn a_step_back_inside_a_window_changes_nothing<S: SteeredClock>(subject: &S) {
    for &anchor in subject.anchors() {
        let quota = short_quota(subject, 5, anchor);
        let alice = Caller::new(subject, &quota, "alice");
        let window = alice.counts(2).await.counts[0].window;
        subject.set_time(window.start() + window.length() / 2);
        assert_eq!(alice.counts(2).await.counts[0].used, 4);
        subject.set_time(window.start());
        let back = alice.counts(2).await.counts[0];
        assert_eq!((back.fits, back.used, back.window), (false, 4, window), "{anchor:?}");
    }
}

/// Rule 12: however far the clock steps back, what was used stays used.
pub async fn a_step_back_never_reopens_a_window<S: SteeredClock>(subject: &S) {
    for &anchor in subject.anchors() {
        for windows in [1_u32, 2, 10, 100_000] {
            let quota = short_quota(subject, 5, anchor);
            let alice = Caller::new(subject, &quota, windows);
            let window = alice.fills().await;
            subject.set_time(window.start() - window.length() * (windows - 1) - MILLISECOND);
            let back = alice.takes(1).await;
            assert_eq!((back.is_allowed(), back.used()), (false, 5), "{anchor:?}, {windows} windows back");
        }
    }
}

/// Rules 10 and 12: after a step back nobody waits longer than one window, however often they ask meanwhile.
///
/// A store that denied by a window that has not begun, and left it there, would deny again in every window up to
/// it, each time with a promise.
pub async fn a_step_back_locks_nobody_out_for_longer_than_a_window<S: SteeredClock>(subject: &S) {
    for &anchor in subject.anchors() {
        let quota = short_quota(subject, 5, anchor);
        let alice = Caller::new(subject, &quota, "alice");
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

/// Rule 12: whoever only looks after a step back is told the truth as well.
pub async fn a_peek_after_a_step_back_keeps_its_promise<S: SteeredClock>(subject: &S) {
    for &anchor in subject.anchors() {
        let quota = short_quota(subject, 5, anchor);
        let alice = Caller::new(subject, &quota, "alice");
        let window = alice.fills().await;
        subject.set_time(window.start() - window.length() * 10);
        let wait = alice.peeks().await.retry_after().expect("a denial that ends");
        subject.set_time(subject.now().await + wait);
        assert!(alice.peeks().await.is_allowed(), "{anchor:?}");
    }
}

/// Rule 12: a step forward costs the skipped windows and nothing else.
pub async fn a_step_forward_costs_only_the_skipped_windows<S: SteeredClock>(subject: &S) {
    for &anchor in subject.anchors() {
        let quota = short_quota(subject, 5, anchor);
        let alice = Caller::new(subject, &quota, "alice");
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

/// Rule 12: between a step back and the old time again, one window never admits more than its limit.
pub async fn a_step_back_and_forth_admits_nothing_twice<S: SteeredClock>(subject: &S) {
    for &anchor in subject.anchors() {
        let quota = short_quota(subject, 5, anchor);
        let alice = Caller::new(subject, &quota, "alice");
        let window = alice.counts(3).await.counts[0].window;
        let mut admitted = 3;
        for back in [1_u64, 7, 19] {
            subject.set_time(window.start() - Duration::from_millis(back));
            admitted += u64::from(alice.counts(1).await.is_admitted());
            assert_eq!(alice.used().await, admitted, "{anchor:?}");
        }
        assert_eq!(admitted, 5, "{anchor:?}");
    }
}
