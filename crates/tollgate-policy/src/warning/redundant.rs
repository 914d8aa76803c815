//! Checks whether a quota can ever deny a request that another one admits.

use tollgate::{Anchor, Quota, QuotaKind, WindowLength};

/// Returns whether `tighter` has no room whenever `quota` has none, by the bounds that `docs/semantics.md` proves for
/// their kinds.
///
/// Both are charged together. So a quota that can count all that the other one admits in any time never denies first.
/// Windows of the calendar have no fixed length, and nothing is said about them.
pub(super) fn never_binds(quota: &Quota, tighter: &Quota) -> bool {
    let (Some(length), Some(other)) = (millis(quota), millis(tighter)) else { return false };
    if quota == tighter {
        return false;
    }
    if let Some(bucket) = quota.bucket() {
        return fits_in_bucket(bucket.burst(), length, quota, tighter, other);
    }
    most_counted(quota, length, tighter, other) <= u128::from(quota.limit())
}

/// Returns the most units of the other quota that this one can count at once; lengths in milliseconds.
fn most_counted(quota: &Quota, length: u128, tighter: &Quota, other: u128) -> u128 {
    // A sliding window may count every unit of two windows, and a log those of a window and of a step.
    let span = match (quota.kind(), quota.log_step()) {
        (QuotaKind::Sliding, _) => 2 * length,
        (_, Some(step)) => length + step.as_millis() - 1,
        _ => length,
    };
    let limit = u128::from(tighter.limit());
    match tighter.bucket() {
        Some(bucket) if bucket.burst() == 0 => 0,
        // The first and the last millisecond are `span - 1` apart.
        Some(bucket) => u128::from(bucket.burst()) + (span - 1) * limit / other,
        None if tighter.kind() == QuotaKind::Log => span.div_ceil(other) * limit,
        None => windows_met(quota, length, span, tighter, other) * limit,
    }
}

/// Returns how many windows of the other quota the units are of that this one counts; lengths in milliseconds.
///
/// It is the ratio of the lengths where the windows begin together, and one more than the ratio, rounded up, where they
/// do not. A sliding window admits at most its limit in each of its windows too.
fn windows_met(quota: &Quota, length: u128, span: u128, tighter: &Quota, other: u128) -> u128 {
    // Staggered windows of a key begin together as well: their shifts come from one hash. Logs have no windows.
    let together = quota.kind() != QuotaKind::Log
        && quota.anchor() == tighter.anchor()
        && matches!(quota.anchor(), Anchor::Epoch | Anchor::Staggered);
    if together && length.is_multiple_of(other) {
        return span / other;
    }
    if together && other.is_multiple_of(length) {
        return span / length;
    }
    span.div_ceil(other) + 1
}

/// Returns whether a bucket admits everything that the other quota admits: in a time `T`, both ends included, at most
/// its burst and what drains in `T`.
fn fits_in_bucket(burst: u64, length: u128, quota: &Quota, tighter: &Quota, other: u128) -> bool {
    let (burst, limit) = (u128::from(burst), u128::from(tighter.limit()));
    let drains_as_fast = limit * length <= u128::from(quota.limit()) * other;
    let fits_at_once = match tighter.bucket() {
        Some(tighter) => u128::from(tighter.burst()) <= burst,
        None if tighter.kind() == QuotaKind::Log => limit <= burst,
        // Two windows meet in one millisecond.
        None => limit <= burst && 2 * limit * length <= burst * length + u128::from(quota.limit()),
    };
    limit == 0 || (drains_as_fast && fits_at_once)
}

fn millis(quota: &Quota) -> Option<u128> {
    match quota.window() {
        WindowLength::Fixed(length) => Some(length.as_millis()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::{Limiter, ManualClock, MemoryStore};

    use super::*;

    fn is_redundant(quota: &str, tighter: &str) -> bool {
        never_binds(&quota.parse().unwrap(), &tighter.parse().unwrap())
    }

    #[test]
    fn a_quota_never_binds_if_the_other_admits_no_more_in_its_window() {
        assert!(is_redundant("1000/1m", "10/1s"));
        assert!(is_redundant("600/1m", "10/1s"));
        assert!(!is_redundant("599/1m", "10/1s"));
        assert!(!is_redundant("10/1s", "1000/1m"));
        assert!(is_redundant("10/1s", "10/1m"));
        assert!(!is_redundant("9/1s", "10/1m"));
    }

    /// A minute that begins with a first hit meets 61 of the clock's seconds.
    #[test]
    fn windows_that_begin_apart_meet_one_more() {
        assert!(is_redundant("610/1m@first_hit", "10/1s"));
        assert!(!is_redundant("609/1m@first_hit", "10/1s"));
        assert!(is_redundant("20/1s@first_hit", "10/1m"));
        assert!(!is_redundant("19/1s@first_hit", "10/1m"));
        assert!(is_redundant("600/1m@staggered", "10/1s@staggered"));
    }

    /// The bounds of the table of kinds, each with the first limit that it does not cover.
    #[test]
    fn kinds_never_bind_by_their_bounds() {
        for (redundant, needed, tighter) in [
            // A log admits its limit in each of its lengths.
            ("100/1m", "99/1m", "100/1m~log"),
            ("100/1m@first_hit", "99/1m@first_hit", "100/1m~log:1s"),
            ("200/61s", "199/61s", "100/1m~log"),
            ("100/1m~log", "99/1m~log", "100/1m~log:1s"),
            ("200/1m~log:1s", "199/1m~log:1s", "100/1m~log"),
            ("200/1m~sliding", "199/1m~sliding", "100/1m~log"),
            ("100/1m~burst", "100/1m~burst:99", "100/1m~log"),
            ("100/1m~burst", "99/1m~burst:100", "100/1m~log"),
            // A bucket admits its burst, and what drains between the first and the last millisecond.
            ("119/1m", "118/1m", "100/1m~burst:20"),
            ("119/1m~log", "118/1m~log", "100/1m~burst:20"),
            ("219/1m~sliding", "218/1m~sliding", "100/1m~burst:20"),
            ("100/1m~burst:20", "100/1m~burst:19", "10/6s~burst:20"),
            ("1000/1m~burst:20", "99/1m~burst:20", "100/1m~burst:20"),
            // A sliding window admits its limit in each of its windows, a fixed one too.
            ("100/1m", "99/1m", "100/1m~sliding"),
            ("60/1m~log", "59/1m~log", "30/1m"),
            ("122/1m~log", "121/1m~log", "2/1s"),
            ("1200/1m~sliding", "1199/1m~sliding", "10/1s"),
            ("600/1s~burst:20", "599/1s~burst:19", "10/1s~sliding"),
            ("60000/1m~burst:19", "59999/1m~burst:19", "10/1s"),
        ] {
            assert!(is_redundant(redundant, tighter), "{redundant} beside {tighter}");
            assert!(!is_redundant(needed, tighter), "{needed} beside {tighter}");
        }
        for (quota, tighter) in [("10/1s", "100/1m~burst:20"), ("100/1m~sliding", "100/1m~log")] {
            assert!(!is_redundant(quota, tighter) && !is_redundant(tighter, quota), "{quota} and {tighter}");
        }
    }

    /// The store decides whether the claim is true: no quota that is said never to bind may deny what the other one has
    /// room for.
    #[test]
    fn no_quota_that_never_binds_denies_first() {
        let quotas: Vec<Quota> = "1/10ms 2/10ms 3/10ms 4/20ms 5/20ms 6/20ms 3/10ms@first_hit 6/30ms@first_hit
            4/20ms@staggered 2/10ms@staggered 2/10ms~sliding 3/10ms~sliding 4/10ms~sliding 6/20ms~sliding
            2/10ms~sliding@staggered 3/10ms~log 4/10ms~log 4/10ms~log:3ms 6/20ms~log 8/20ms~log:5ms
            2/10ms~burst 3/10ms~burst:1 3/10ms~burst:2 4/10ms~burst:3 7/10ms~burst:5 20/10ms~burst:4"
            .split_ascii_whitespace()
            .map(|text| text.parse().unwrap())
            .collect();
        let mut pairs = 0;
        for (quota, tighter) in quotas.iter().flat_map(|quota| quotas.iter().map(move |it| (quota, it))) {
            if !never_binds(quota, tighter) || quota.has_series_of(tighter) {
                continue;
            }
            pairs += 1;
            let mut random = fastrand::Rng::with_seed(pairs);
            let clock = ManualClock::default();
            let store = MemoryStore::builder().clock(clock.clone()).build();
            let limiter = Limiter::builder("api").quota(quota.clone()).quota(tighter.clone()).build(store);
            let limiter = limiter.unwrap();
            // Bursts, pauses that end them, and long ones.
            for _ in 0..500 {
                let longest = [2, 2, 9, 50][random.usize(0..4)];
                clock.advance(Duration::from_millis(random.u64(0..longest)));
                let decision = limiter.check_cost("alice", random.u32(1..4)).unwrap();
                let [own, other] = [0, 1].map(|index| decision.quotas().get(index).unwrap().has_room());
                assert!(own || !other, "{quota} denied before {tighter}");
            }
        }
        assert!(pairs > 50, "{pairs}");
    }
}
