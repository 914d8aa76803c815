use std::collections::HashMap;
use std::sync::Arc;

use tollgate::Timestamp;

use super::policy_sample::SPAN;
use super::*;

const START: i64 = 1_700_000_000_000;

fn at(seconds: f64) -> Timestamp {
    Timestamp::from_unix_millis(START + (seconds * 1_000.0) as i64)
}

/// The hash of a key.
const fn hash(number: u64) -> u64 {
    number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn request(key: u64, at: Timestamp) -> SampledRequest {
    let (is_denied, is_denied_elsewhere, is_overridden) = Default::default();
    SampledRequest { key, at, cost: 1, is_denied, is_denied_elsewhere, is_overridden }
}

/// A policy with its sample, and all its requests.
struct Policy {
    sample: PolicySample,
    all: Vec<SampledRequest>,
}

impl Policy {
    fn new(memory: &Arc<SampleMemory>) -> Self {
        Self { sample: PolicySample::new(memory), all: Vec::new() }
    }

    fn note(&mut self, key: u64, at: Timestamp) {
        let request = request(hash(key), at);
        self.all.push(request);
        self.sample.note(request.key, || request);
    }

    /// Checks that all requests of sampled keys are there, and no others. Returns what is there.
    fn check(&self) -> SampledRequests {
        let mut sampled = self.sample.requests();
        let expected = self.all.iter().copied().filter(|request| {
            request.key >> 8 & ((1 << sampled.rarity) - 1) == 0 && Some(request.at) >= sampled.since
        });
        let mut expected: Vec<SampledRequest> = expected.collect();
        for requests in [&mut expected, &mut sampled.requests] {
            requests.sort_by_key(|request| (request.at, request.key));
        }
        assert!(sampled.requests == expected, "{} of {}", sampled.requests.len(), expected.len());
        assert_eq!(sampled.skipped, 0);
        sampled
    }
}

#[test]
fn all_requests_are_there_as_long_as_there_is_room() {
    let mut policy = Policy::new(&Arc::default());
    assert_eq!((policy.sample.requests().since, policy.sample.requests().requests.len()), (None, 0));
    // Two threads may note their requests in another order than they were counted.
    for (number, seconds) in [5.0, 4.999, 6.0, 5.5].into_iter().enumerate() {
        policy.note(number as u64, at(seconds));
    }
    let sampled = policy.check();
    assert_eq!((sampled.requests.len(), sampled.rarity, sampled.is_cut), (4, 0, false));
    assert_eq!(sampled.since, Some(at(4.999)));
}

#[test]
fn a_request_that_finds_the_sample_in_use_is_only_counted() {
    let memory = Arc::default();
    let mut policy = Policy::new(&memory);
    policy.note(1, at(0.0));
    policy.sample.locked_while(|| (0..3).for_each(|key| policy.sample.keep_of(hash(key), at(0.1))));
    assert_eq!((policy.sample.requests().requests.len(), policy.sample.requests().skipped), (1, 3));
    keep_bounds(&memory, &[&policy.sample], at(1.0));
    assert_eq!(policy.sample.requests().skipped, 3);
    // They are forgotten with the requests of their time.
    keep_bounds(&memory, &[&policy.sample], at(90_000.0));
    policy.note(1, at(90_000.0));
    keep_bounds(&memory, &[&policy.sample], at(90_001.0));
    assert_eq!((policy.sample.requests().requests.len(), policy.sample.requests().skipped), (1, 0));
}

/// 90 requests a second of 10,000 keys: all requests of an hour would not fit.
#[test]
fn with_many_keys_some_are_dropped_with_all_their_requests() {
    let memory = Arc::<SampleMemory>::default();
    let (mut large, mut small) = (Policy::new(&memory), Policy::new(&memory));
    for second in 0..4_500 {
        for number in 0..90 {
            large.note((second * 90 + number) % 9_973, at(second as f64 + number as f64 / 90.0));
        }
        small.note(second % 7, at(second as f64));
        if second % 10 == 9 {
            keep_bounds(&memory, &[&small.sample, &large.sample], at((second + 1) as f64));
        }
        assert!(memory.used() <= SampleMemory::MAX_CHUNKS);
    }
    let sampled = large.check();
    assert_eq!(sampled.rarity, 1);
    assert!(at(4_500.0).since(sampled.since.unwrap()) >= SPAN);
    // One policy does not cost another its keys.
    let sampled = small.check();
    assert_eq!((sampled.rarity, sampled.requests.len() >= 3_600), (0, true));
}

/// Half of three keys says nothing of all of them.
#[test]
fn with_few_keys_the_oldest_requests_are_forgotten() {
    let memory = Arc::<SampleMemory>::default();
    let mut policy = Policy::new(&memory);
    for second in 0..500 {
        (0..1_000).for_each(|number| policy.note(number % 3, at(second as f64 + number as f64 / 1_000.0)));
        keep_bounds(&memory, &[&policy.sample], at((second + 1) as f64));
    }
    let sampled = policy.check();
    assert_eq!((sampled.rarity, sampled.is_cut), (0, true));
    let most = SampleMemory::MAX_REQUESTS;
    assert!((most / 2..=most).contains(&sampled.requests.len()), "{}", sampled.requests.len());
}

#[test]
fn between_two_rounds_the_newest_requests_replace_the_oldest() {
    let memory = Arc::<SampleMemory>::default();
    let (mut policy, late) = (Policy::new(&memory), Policy::new(&memory));
    let most = SampleMemory::MAX_REQUESTS as u64;
    (0..most + 1_000).for_each(|number| policy.note(number, at(number as f64 / 1_000.0)));
    let sampled = policy.check();
    assert!(sampled.is_cut && sampled.requests.len() > SampleMemory::MAX_REQUESTS - 64);
    assert_eq!(memory.used(), SampleMemory::MAX_CHUNKS);
    // Another policy has nothing to replace, and has room a second later.
    late.sample.keep_of(hash(1), at(300.0));
    assert_eq!((late.sample.requests().requests.len(), late.sample.requests().skipped), (0, 1));
    keep_bounds(&memory, &[&policy.sample, &late.sample], at(301.0));
    late.sample.keep_of(hash(1), at(301.0));
    assert_eq!(late.sample.requests().requests.len(), 1);
    drop((policy, late));
    assert_eq!(memory.used(), 0);
}

#[test]
fn after_a_quiet_hour_more_keys_are_sampled_again() {
    let memory = Arc::<SampleMemory>::default();
    let mut policy = Policy::new(&memory);
    (0..400_000).for_each(|number| {
        policy.note(number, at(number as f64 / 10_000.0));
        if number % 10_000 == 0 {
            keep_bounds(&memory, &[&policy.sample], at(number as f64 / 10_000.0));
        }
    });
    let busy = policy.check().rarity;
    assert!(busy >= 1);
    let mut quiet = |from: u64, until: u64| {
        for second in (from..until).step_by(10) {
            policy.note(second, at(second as f64));
            keep_bounds(&memory, &[&policy.sample], at(second as f64 + 0.5));
        }
        policy.check()
    };
    // The requests of the new keys before that time are unknown, so they count only an hour later.
    assert_eq!(quiet(100, 4_000).rarity, busy);
    assert_eq!(quiet(4_000, 7_000).rarity, busy);
    let later = quiet(7_000, 12_000);
    assert_eq!(later.rarity, busy - 1);
    assert!(later.is_cut && later.since > Some(at(3_600.0)));
}

#[test]
fn a_sample_takes_few_bytes_a_request() {
    let memory = Arc::<SampleMemory>::default();
    let mut policy = Policy::new(&memory);
    (0..1_000).for_each(|number| policy.note(number, at(0.0)));
    assert_eq!(memory.used(), 1_000_usize.div_ceil(64));
    assert_eq!(SampleMemory::MAX_REQUESTS * size_of::<SampledRequest>(), 6 << 20);
}

/// Requests of half the keys are those of twice as rare ones.
#[test]
fn keys_are_chosen_evenly_and_rarer_ones_among_the_others() {
    let mut chosen = HashMap::<u8, u64>::new();
    for number in 0..65_536 {
        let mut was_chosen = true;
        for rarity in 0..8 {
            let is_chosen = is_sampled(hash(number), rarity);
            assert!(was_chosen || !is_chosen);
            was_chosen = is_chosen;
            *chosen.entry(rarity).or_default() += u64::from(is_chosen);
        }
    }
    for (rarity, keys) in chosen {
        let expected = 65_536 >> rarity;
        assert!(keys.abs_diff(expected) <= expected / 8, "{rarity}: {keys}");
    }
}

/// What a check pays, and a whole sample.
#[test]
#[ignore = "a measurement: cargo test --release -p tollgate-server --lib sample -- --ignored --nocapture"]
fn measure() {
    use crate::observe::stopwatch::Stopwatch;
    fn resident() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
    let memory = Arc::<SampleMemory>::default();
    let sample = PolicySample::new(&memory);
    let before = resident();
    for round in 0..4 {
        let began = Stopwatch::start();
        for number in 0..SampleMemory::MAX_REQUESTS as u64 {
            sample.keep_of(hash(number), at(0.0));
        }
        println!(
            "round {round}: {:?} a sampled request",
            began.elapsed() / SampleMemory::MAX_REQUESTS as u32
        );
    }
    println!("{} KiB for {} requests", resident() - before, SampleMemory::MAX_REQUESTS);
    let began = Stopwatch::start();
    let requests = sample.requests().requests.len();
    println!("{:?} to copy {requests}", began.elapsed());
    let began = Stopwatch::start();
    assert!(sample.thin());
    println!("{:?} to thin", began.elapsed());
    let began = Stopwatch::start();
    (0..50_000_000).for_each(|number| sample.keep_of(std::hint::black_box(hash(number) | 1 << 8), at(0.0)));
    println!("{:?} for each of the other keys", began.elapsed() / 50_000_000);
}

impl PolicySample {
    fn keep_of(&self, key: u64, at: Timestamp) {
        self.note(key, || request(key, at));
    }
}
