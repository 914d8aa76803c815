//! The tests of Hammer's token bucket, leaky bucket and sliding window, on our API. Its two buckets are one kind here: a
//! token bucket answers how much remains, and a leaky bucket how much is used.

#![expect(clippy::unwrap_used, reason = "an error here is a failed test")]

use std::time::Duration;

use tollgate::{Limiter, ManualClock, MemoryStore, Quota};

/// What `hit` answers: the used and the remaining units, or the milliseconds to wait.
type Answer = Result<(u64, u64), u128>;

struct Subject {
    limiter: Limiter<ManualClock>,
    clock: ManualClock,
}

impl Subject {
    fn new(quota: &str) -> Self {
        let clock = ManualClock::default();
        let store = MemoryStore::builder().clock(clock.clone()).build();
        Self { limiter: Limiter::with_store(quota.parse().unwrap(), store), clock }
    }

    /// With the arguments of `hit(key, rate, capacity, cost)`.
    fn bucket(rate: u32, capacity: u64) -> Self {
        let quota = Quota::per_second(rate).with_burst(Some(capacity)).unwrap();
        Self::new(&quota.to_string())
    }

    fn hit(&self, cost: u32) -> Answer {
        let decision = self.limiter.check_cost("key", cost).unwrap();
        match decision.retry_after() {
            None => Ok((decision.used(), decision.remaining())),
            Some(wait) => Err(wait.as_millis()),
        }
    }

    fn wait(&self, millis: u64) {
        self.clock.advance(Duration::from_millis(millis));
    }
}

#[test]
fn buckets_count_up_or_down_and_then_deny() {
    let roomy = Subject::bucket(2, 10);
    for used in 1..=4 {
        assert_eq!(roomy.hit(1), Ok((used, 10 - used)));
    }
    let small = Subject::bucket(1, 2);
    assert_eq!([small.hit(1), small.hit(1)], [Ok((1, 1)), Ok((2, 0))]);
    assert_eq!([small.hit(1), small.hit(1)], [Err(1_000), Err(1_000)]);
    small.wait(1_000);
    assert_eq!([small.hit(1), small.hit(1)], [Ok((2, 0)), Err(1_000)]);
}

#[test]
fn a_bucket_takes_costs_and_denies_those_that_do_not_fit() {
    let bucket = Subject::bucket(2, 10);
    assert_eq!([bucket.hit(3), bucket.hit(4)], [Ok((3, 7)), Ok((7, 3))]);
    assert_eq!(bucket.hit(4), Err(500));
    assert_eq!(bucket.hit(2), Ok((9, 1)));
}

/// In Hammer 7.3.0, each of these waits is a second.
#[test]
fn a_denied_bucket_tells_when_the_cost_fits() {
    let bucket = Subject::bucket(55, 10);
    assert_eq!(bucket.hit(10), Ok((10, 0)));
    assert_eq!([bucket.hit(1), bucket.hit(5)], [Err(19), Err(91)]);
    bucket.wait(90);
    assert_eq!(bucket.hit(5), Err(1));
    bucket.wait(1);
    assert_eq!(bucket.hit(5), Ok((10, 0)));
}

/// In Hammer 7.3.0, a bucket refills by whole seconds and never above its capacity, so this one gave 10 a second.
#[test]
fn a_rate_above_the_capacity_is_reached() {
    let bucket = Subject::bucket(100, 10);
    let mut admitted = 0;
    for _ in 0..1_000 {
        admitted += u32::from(bucket.hit(1).is_ok());
        bucket.wait(1);
    }
    // The burst, and one for each ten of the 999 milliseconds that follow.
    assert_eq!(admitted, 10 + 99);
}

#[test]
fn a_sliding_window_frees_each_hit_after_its_time() {
    let log = Subject::new("2/100ms~log");
    assert_eq!([log.hit(1), log.hit(1)], [Ok((1, 1)), Ok((2, 0))]);
    assert_eq!([log.hit(1), log.hit(1)], [Err(100), Err(100)]);
    log.wait(100);
    assert_eq!([log.hit(1), log.hit(1), log.hit(1)], [Ok((1, 1)), Ok((2, 0)), Err(100)]);
}
