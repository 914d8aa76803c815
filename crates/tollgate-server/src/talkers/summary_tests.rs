//! A summary against an exact ledger.

use std::collections::{HashMap, HashSet};
use std::env;

use super::*;

/// A stream of keys, by their numbers.
type Stream = Vec<u32>;

/// What a stream is like.
const KINDS: [fn(&mut fastrand::Rng, usize) -> Stream; 7] =
    [zipf, round_robin, late_heavy_hitter, all_distinct, uniform, changing_favourites, mixed];

/// Few clients ask most, as usual. The exponent is between 0.4 and 2.
fn zipf(random: &mut fastrand::Rng, length: usize) -> Stream {
    let (keys, exponent) = (random.u32(1..5_000), 0.4 + 1.6 * random.f64());
    let mut sums = Vec::new();
    let mut sum = 0.0;
    for rank in 1..=keys {
        sum += f64::from(rank).powf(-exponent);
        sums.push(sum);
    }
    (0..length).map(|_| sums.partition_point(|edge| *edge < random.f64() * sum) as u32).collect()
}

/// As many keys as rows, or one more or less: with one more, each key evicts the one that comes next.
fn round_robin(random: &mut fastrand::Rng, length: usize) -> Stream {
    let keys = random.u32(127..=130);
    (0..length as u32).map(|number| number % keys).collect()
}

/// One key asks as often as all before it, after they have filled the rows.
fn late_heavy_hitter(random: &mut fastrand::Rng, length: usize) -> Stream {
    let (keys, begin) = (random.u32(100..3_000), length / 2);
    (0..length).map(|number| if number < begin { random.u32(0..keys) } else { keys }).collect()
}

fn all_distinct(_: &mut fastrand::Rng, length: usize) -> Stream {
    (0..length as u32).collect()
}

fn uniform(random: &mut fastrand::Rng, length: usize) -> Stream {
    let keys = random.u32(1..400);
    (0..length).map(|_| random.u32(0..keys)).collect()
}

/// Ten keys ask most, and then ten others.
fn changing_favourites(random: &mut fastrand::Rng, length: usize) -> Stream {
    let span = random.usize(10..1_000);
    (0..length)
        .map(|number| match random.bool() {
            true => (number / span) as u32 * 10 + random.u32(0..10),
            false => random.u32(100_000..200_000),
        })
        .collect()
}

/// One kind after another.
fn mixed(random: &mut fastrand::Rng, length: usize) -> Stream {
    let mut stream = zipf(random, length / 3);
    stream.extend(round_robin(random, length / 3));
    stream.extend(all_distinct(random, length / 3));
    stream
}

/// The id of a key. With `are_close`, all of them have the same place in the index.
fn id_of(number: u32, are_close: bool) -> u64 {
    let id = (u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    if are_close { id << 8 | 0xfe } else { id.rotate_left(32) }
}

fn key_of(number: u32) -> Key<'static> {
    match number % 3 {
        0 => Key::from(u64::from(number)),
        1 => Key::from((format!("client {number}").as_str(), "x".repeat(number as usize % 200).as_str())),
        _ => Key::from(format!("client-{number}")),
    }
}

fn check(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let memory = Arc::default();
    let capacity = random.choice([32, 64, 128, 128, 128]).unwrap();
    let mut summary = Summary::new(capacity, &memory).unwrap();
    // The same memory is used for one period after another.
    for _ in 0..random.usize(1..3) {
        let length = random.usize(1..4_000);
        let kind = random.usize(..KINDS.len());
        let stream = KINDS[kind](&mut random, length);
        let are_close = random.u8(..8) == 0;
        let mut ledger = HashMap::<u64, u64>::new();
        let mut keys = HashMap::new();
        for number in stream {
            let id = id_of(number, are_close);
            let key = keys.entry(id).or_insert_with(|| key_of(number));
            *ledger.entry(id).or_default() += 1;
            summary.count(id, key, &memory);
        }
        holds(&summary, &ledger, &keys, capacity as u64, &format!("seed {seed}, kind {kind}"));
        summary.clear();
    }
    drop(summary);
    assert_eq!(memory.used(), 0, "seed {seed}");
}

/// Checks every promise.
fn holds(
    summary: &Summary,
    ledger: &HashMap<u64, u64>,
    keys: &HashMap<u64, Key<'static>>,
    capacity: u64,
    case: &str,
) {
    let all: u64 = ledger.values().sum();
    assert_eq!(summary.counted(), all, "{case}");
    let rows: Vec<_> = summary.keys().collect();
    assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), all, "{case}");
    assert!(rows.is_sorted_by_key(|row| std::cmp::Reverse(row.count)), "{case}");
    let listed: HashSet<u64> = rows.iter().map(|row| row.id).collect();
    assert_eq!(listed.len(), rows.len(), "{case}");
    for row in &rows {
        let exact = ledger[&row.id];
        assert!(row.count - row.error <= exact && exact <= row.count, "{case}: {row:?}, exactly {exact}");
        assert!(row.error * capacity <= all && row.error <= summary.max_error(), "{case}: {row:?} of {all}");
        let key = keys[&row.id].canonical_bytes();
        assert_eq!(row.key.bytes(), &key[..key.len().min(KeptKey::MAX_BYTES)], "{case}");
        let place = summary.find(row.id).unwrap();
        assert_eq!(summary.counts[place], row.count, "{case}");
    }
    assert!(summary.max_error() * capacity <= all, "{case}");
    let mut exact: Vec<(u64, u64)> = ledger.iter().map(|(id, count)| (*count, *id)).collect();
    exact.sort_unstable_by(|one, other| other.cmp(one));
    for (place, (count, id)) in exact.iter().enumerate() {
        let is_listed = listed.contains(id);
        assert!(is_listed || *count <= summary.max_error(), "{case}: {count} requests without a row");
        // What a page shows first: the true first ten are there, if they ask more than a row can be wrong by.
        let is_promised = count * capacity > all;
        assert!(is_listed || !is_promised, "{case}: number {place} with {count} of {all}");
        if exact.len() as u64 <= capacity {
            let row = rows.iter().find(|row| row.id == *id).unwrap();
            assert_eq!((row.count, row.error), (*count, 0), "{case}");
        }
    }
}

#[test]
fn every_count_is_as_exact_as_it_says() {
    (0..200).for_each(check);
}

/// `cargo xtask prove talkers`.
#[test]
#[ignore = "a proof, which takes longer than a test may"]
fn prove() {
    let number = |name, otherwise| env::var(name).map_or(otherwise, |text| text.parse::<u64>().unwrap());
    let (first, streams) = (number("TOLLGATE_SEED", 1), number("TOLLGATE_STREAMS", 10_000));
    (first..first + streams).for_each(check);
    println!("RESULT prove/talkers streams={streams} violations=0");
}

/// The worst case: one key more than there are rows, each in turn.
#[test]
fn one_key_too_many_makes_all_rows_uncertain_and_no_more() {
    let memory = Arc::default();
    let mut summary = Summary::new(128, &memory).unwrap();
    for number in 0..129 * 100 {
        summary.count(id_of(number % 129, false), &key_of(number % 129), &memory);
    }
    let counts: Vec<u64> = summary.keys().map(|row| row.count).collect();
    assert!(counts.iter().all(|count| (100..=101).contains(count)), "{counts:?}");
    assert_eq!(summary.max_error(), 100);
}

#[test]
fn a_summary_needs_no_more_memory_than_it_has_reserved() {
    let memory = Arc::<Memory>::default();
    let mut summary = Summary::new(128, &memory).unwrap();
    for number in 0..10_000 {
        summary.count(id_of(number, false), &key_of(number), &memory);
        assert_eq!(memory.used(), summary.memory_bytes());
    }
    assert!(memory.used() < 32 << 10, "{}", memory.used());
    let all = memory.reserve(Memory::MAX_BYTES - memory.used()).unwrap();
    assert!(Summary::new(32, &memory).is_none());
    // Without memory for its key, a row has none, or as much as fits into what it has.
    let long = Key::from("x".repeat(1_000));
    for number in 20_000..20_500 {
        summary.count(id_of(number, false), &long, &memory);
    }
    assert!(summary.keys().all(|row| row.key.bytes().len() <= KeptKey::MAX_BYTES));
    assert_eq!(memory.used(), Memory::MAX_BYTES);
    drop((all, summary));
    assert_eq!(memory.used(), 0);
}

#[test]
fn neither_ids_nor_keys_are_in_debug_output() {
    let memory = Arc::default();
    let mut summary = Summary::new(32, &memory).unwrap();
    summary.count(7, &Key::from("canary"), &memory);
    let shown = format!("{summary:?}");
    assert!(!shown.contains("canary") && !shown.contains("99, 97, 110"), "{shown}");
}
