//! What a million overrides take: memory, the time of a change, and the time of a request that has none of them.

#![allow(clippy::unwrap_used, reason = "this is a test")]

use std::fs;
use std::hash::{Hash, Hasher};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tollgate::{Clock, Key, ManualClock, MemoryStore, Quota, SystemClock, Timestamp};
use tollgate_policy::{
    Attributes, Identity, OverrideKey, OverrideLimits, OverrideName, OverrideRecord, OverrideSet,
    OverrideTarget, Policies, Policy, PolicyLimiter,
};
use tollgate_testkit::block_on;

struct Canonical<F>(F);

impl<F: FnMut(&[u8])> Hasher for Canonical<F> {
    fn write(&mut self, bytes: &[u8]) {
        (self.0)(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

fn sha256(key: &Key<'_>) -> u128 {
    let mut sha256 = Sha256::new();
    key.hash(&mut Canonical(|bytes: &[u8]| sha256.update(bytes)));
    let mut digest = [0; 16];
    digest.copy_from_slice(&sha256.finalize()[..16]);
    u128::from_be_bytes(digest)
}

/// The time that this thread has run on a processor: others may be busy.
fn cpu_time() -> Duration {
    let nanos = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(nanos.split(' ').next().unwrap().parse().unwrap())
}

fn policies() -> Policies {
    let search = Policy::builder("search").key(Identity::Attribute("user".into()));
    Policies::of([search.quota(Quota::per_minute(100)).build().unwrap()]).unwrap()
}

fn empty() -> OverrideSet {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(Timestamp::from_unix_millis(0)));
    OverrideSet::new(Arc::new(sha256), clock)
}

/// The override of the key of this number. Few limits, labels and principals are different.
fn record(number: u64) -> OverrideRecord {
    OverrideRecord {
        name: OverrideName {
            policy: "search".into(),
            target: OverrideTarget::Key(OverrideKey(sha256(&Key::from(format!("user-{number}").as_str())))),
        },
        key: "user".into(),
        limits: OverrideLimits::of([format!("{}/1m", 500 + number % 50)]),
        until: number.is_multiple_of(2).then(|| Timestamp::from_unix_millis(1_000_000)),
        label: Some(format!("plan-{}", number % 20).into()),
        note: None,
        by: Some(format!("support-{}", number % 7).into()),
        at: Timestamp::from_unix_millis(0),
        version: number,
    }
}

fn bytes_of(count: u64) -> (i64, u64, OverrideSet) {
    let policies = policies();
    let mut set = None;
    let counted =
        allocation_counter::measure(|| set = Some(empty().of_all((0..count).map(record), &policies)));
    (counted.bytes_current, counted.bytes_max, set.unwrap())
}

#[test]
fn an_override_takes_less_than_a_hundred_bytes() {
    let (bytes, peak, set) = bytes_of(50_000);
    assert_eq!(set.len(), 50_000);
    let (each, peak) = (bytes / 50_000, peak / 50_000);
    assert!(each < 100 && peak < 128, "{each} bytes each, {peak} at most");
}

#[test]
#[ignore = "a measurement: cargo test --release --test many_overrides -- --ignored --nocapture"]
fn measure() {
    const COUNT: u64 = 1_000_000;
    let start = cpu_time();
    (0..COUNT).for_each(|number| drop(black_box(record(number))));
    let records = cpu_time() - start;
    let start = cpu_time();
    let (bytes, peak, mut set) = bytes_of(COUNT);
    println!(
        "a million: {} MiB, at most {} MiB, loaded in {:?} besides {records:?} for the records",
        bytes >> 20,
        peak >> 20,
        (cpu_time() - start) - records
    );
    let policies = policies();
    let start = cpu_time();
    for number in 0..100_000_u64 {
        set = match number % 3 {
            0 => set.with(record(number * 7), &policies),
            1 => set.with(record(COUNT + number), &policies),
            _ => set.without(&record(number * 3).name),
        };
    }
    println!("a change: {:?}, with its record", (cpu_time() - start) / 100_000);
    let start = cpu_time();
    let again = set.for_policies(&policies);
    println!("equal policies: {:?}, {} overrides", (cpu_time() - start), again.len());

    for clients in [1, 256, 100_000, 1_000_000] {
        let users: Vec<String> = (0..clients).map(|number| format!("stranger-{number}")).collect();
        let time = |of: &dyn Fn(&Attributes<'_>)| {
            let mut best = f64::MAX;
            for _ in 0..5 {
                let start = cpu_time();
                let mut random = fastrand::Rng::with_seed(7);
                for _ in 0..300_000 {
                    let user = users[random.usize(..users.len())].as_str();
                    let attributes: Attributes<'_> = [("user", user)].into_iter().collect();
                    of(&attributes);
                }
                best = best.min((cpu_time() - start).as_nanos() as f64 / 300_000.0);
            }
            best
        };
        let limiter = || {
            let store = MemoryStore::builder().clock(SystemClock).max_counters(2_000_000).build();
            PolicyLimiter::new(store, self::policies(), "code")
        };
        let (plain, overriding) = (limiter(), limiter().with_overrides(set.clone()));
        let [without, with] = [&plain, &overriding]
            .map(|limiter| time(&|attributes| _ = black_box(block_on(limiter.check(attributes, 1)))));
        let digest = time(&|attributes| {
            let Some(tollgate_policy::Texts::One(text)) = attributes.value("user") else { panic!() };
            black_box(sha256(&Key::from(text)));
        });
        println!(
            "{clients} clients: a check {without:.0} ns, among a million overrides {with:.0} ns, ratio {:.2}; a digest \
             {digest:.0} ns",
            with / without
        );
    }
}
