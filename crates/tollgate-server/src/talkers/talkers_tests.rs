//! Talkers of policies, as decisions count them.

use std::time::Duration;

use tollgate::{ManualClock, MemoryStore};
use tollgate_policy::{Attributes, Config, Policies, PolicyLimiter};

use super::*;
use crate::observe::stopwatch::Stopwatch;

const START: i64 = 1_700_000_100_000;

fn policies(text: &str) -> Policies {
    Config::parse("a.yaml", text).unwrap().into_policies()
}

fn limiter(text: &str) -> PolicyLimiter<MemoryStore<ManualClock>> {
    let clock = ManualClock::at(Timestamp::from_unix_millis(START));
    PolicyLimiter::new(MemoryStore::builder().clock(clock).build(), policies(text), "a.yaml")
}

fn talkers() -> Talkers {
    let secret = Some(TalkerSecret::new(&[7; 32]));
    Talkers::new(&TalkersSettings { names: TalkerNames::Plain, secret }).unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_millis(START + seconds * 1_000)
}

async fn decide(limiter: &PolicyLimiter<MemoryStore<ManualClock>>, pairs: &[(&str, &str)]) -> PolicyDecision {
    let attributes: Attributes<'_> = pairs.iter().copied().collect();
    limiter.check(&attributes, 1).await.unwrap()
}

/// The rows of a policy: their keys and counts.
fn rows(
    talkers: &Talkers,
    policy: &str,
    by: TalkersBy,
    period: PeriodChoice,
    now: i64,
) -> Vec<(String, u64)> {
    let live = talkers.live.load();
    let named = live.of(policy).unwrap();
    let report = named.talkers.report(at(now), by, period, 100);
    let text = |row: &TalkerRow| (named.identity.describe_key(&row.key.0).unwrap(), row.count);
    report.rows.iter().map(text).collect()
}

fn row(key: &str, count: u64) -> (String, u64) {
    (key.to_owned(), count)
}

const TWO: &str = "policies:
  - { name: search, key: [user], quotas: [2/1d] }
  - { name: all, key: [ip], quotas: [1000/1d] }
  - { name: staff, exempt: true, match: { user: root } }
  - { name: trial, mode: shadow, key: [user], quotas: [1/1d] }";

#[tokio::test]
async fn each_policy_that_counts_a_request_has_its_key_and_the_one_that_denies_its_denial() {
    use PeriodChoice::Current;
    let (limiter, talkers) = (limiter(TWO), talkers());
    for (user, times) in [("alice", 5), ("bob", 1), ("root", 9)] {
        for _ in 0..times {
            talkers.note_at(at(0), &decide(&limiter, &[("user", user), ("ip", "192.0.2.7")]).await);
        }
    }
    let of = |policy, by| rows(&talkers, policy, by, Current, 0);
    assert_eq!(of("search", TalkersBy::Checks), [row("user=alice", 5), row("user=bob", 1)]);
    assert_eq!(of("search", TalkersBy::Denials), [row("user=alice", 3)]);
    assert_eq!(of("all", TalkersBy::Checks), [row("ip=192.0.2.7/32", 6)]);
    assert_eq!(of("all", TalkersBy::Denials), []);
    for policy in ["staff", "trial"] {
        assert_eq!(of(policy, TalkersBy::Checks), [], "{policy}");
    }
    assert!(talkers.of_policy("unknown", TalkersBy::Checks, Current, 5).is_none());
}

#[tokio::test]
async fn a_period_has_five_minutes_and_the_one_before_stays_for_five_more() {
    use PeriodChoice::{Current, Last};
    let (limiter, talkers) = (limiter(TWO), talkers());
    let note = async |now, user| {
        talkers.note_at(at(now), &decide(&limiter, &[("user", user), ("ip", "192.0.2.7")]).await);
    };
    let of = |period, now| rows(&talkers, "search", TalkersBy::Checks, period, now);
    // 1,700,000,100 is a multiple of 300.
    note(0, "alice").await;
    note(299, "alice").await;
    assert_eq!((of(Current, 299), of(Last, 299)), (vec![row("user=alice", 2)], vec![]));
    note(300, "bob").await;
    assert_eq!((of(Current, 300), of(Last, 300)), (vec![row("user=bob", 1)], vec![row("user=alice", 2)]));
    note(601, "carol").await;
    assert_eq!((of(Current, 601), of(Last, 601)), (vec![row("user=carol", 1)], vec![row("user=bob", 1)]));
    // Nobody asks for a while.
    assert_eq!((of(Current, 1_500), of(Last, 1_500)), (vec![], vec![]));
    note(1_501, "alice").await;
    let live = talkers.live.load();
    let report = live.of("search").unwrap().talkers.report(at(1_510), TalkersBy::Checks, Current, 5);
    assert_eq!((report.since, report.until), (at(1_500), at(1_510)));
    let report = live.of("search").unwrap().talkers.report(at(1_510), TalkersBy::Checks, Last, 5);
    assert_eq!((report.since, report.until, report.total), (at(1_200), at(1_500), 0));
}

#[tokio::test]
async fn an_id_leads_to_its_key_for_two_periods() {
    let (limiter, talkers) = (limiter(TWO), talkers());
    let request = decide(&limiter, &[("user", "alice"), ("ip", "192.0.2.7")]).await;
    talkers.note_at(at(0), &request);
    let live = talkers.live.load();
    let search = &live.of("search").unwrap().talkers;
    let key = Key::from("alice");
    let id = search.id_of(&key);
    for now in [0, 299, 300, 599] {
        assert_eq!(*search.key_of(at(now), id).unwrap().0, *key.canonical_bytes(), "{now}");
    }
    assert_eq!(search.key_of(at(600), id).unwrap_err(), NoTalker::Id);
    assert_eq!(live.of("all").unwrap().talkers.key_of(at(0), id).unwrap_err(), NoTalker::Id);
    // A denial alone is enough: the row of all checks may have gone to another key.
    let (bob, mut keys) = (Key::from("bob"), (0..300).map(|number| Key::from(format!("{number}"))));
    search.note(at(900), (&bob, search.hash(&bob)), true);
    for _ in 0..2 {
        keys.by_ref().take(150).for_each(|key| search.note(at(900), (&key, search.hash(&key)), false));
    }
    assert_eq!(*search.key_of(at(900), search.id_of(&bob)).unwrap().0, *bob.canonical_bytes());

    let set = limiter.live();
    let policy = set.policies().as_slice().iter().find(|policy| policy.name() == "search").unwrap();
    assert_eq!(talkers.id_of(policy, &key), Some(id));
    let _ = limiter.replace(policies("policies: [{ name: search, key: [ip], quotas: [2/1d] }]"), "a.yaml");
    talkers.follow(&limiter.live());
    assert_eq!(talkers.id_of(policy, &key), None);
    assert_eq!(talkers.key_of(policy, id).unwrap_err(), NoTalker::Policy);
}

/// A page that reads the rows must not delay a check.
#[tokio::test]
async fn a_request_that_finds_talkers_locked_is_only_noted_as_skipped() {
    let (limiter, talkers) = (limiter(TWO), talkers());
    let attributes = [("user", "alice"), ("ip", "192.0.2.7")];
    let mut decisions = Vec::new();
    for _ in 0..5 {
        decisions.push(decide(&limiter, &attributes).await);
    }
    talkers.note_at(at(0), &decisions[0]);
    let live = talkers.live.load();
    let search = &live.of("search").unwrap().talkers;
    search.locked_while(|| decisions.iter().for_each(|decision| talkers.note_at(at(0), decision)));
    let report = |now, by, period| {
        let report = search.report(at(now), by, period, 5);
        (report.total, report.counted, report.skipped)
    };
    assert_eq!(report(0, TalkersBy::Checks, PeriodChoice::Current), (6, 1, 5));
    assert_eq!(report(0, TalkersBy::Denials, PeriodChoice::Current), (3, 0, 3));
    assert_eq!(report(300, TalkersBy::Checks, PeriodChoice::Current), (0, 0, 0));
    assert_eq!(report(300, TalkersBy::Checks, PeriodChoice::Last), (6, 1, 5));
}

#[tokio::test]
async fn a_policy_that_stays_keeps_its_talkers_unless_its_key_has_changed() {
    use PeriodChoice::Current;
    let (limiter, talkers) = (limiter(TWO), talkers());
    let attributes = [("user", "alice"), ("ip", "192.0.2.7")];
    let early = decide(&limiter, &attributes).await;
    talkers.note_at(at(0), &early);
    let changed = "policies:
      - { name: new, key: [ip], quotas: [9/1d] }
      - { name: all, key: [user], quotas: [1000/1d] }
      - { name: search, key: [user], quotas: [7/1h] }";
    let _ = limiter.replace(policies(changed), "a.yaml");
    talkers.note_at(at(1), &decide(&limiter, &attributes).await);
    // It was decided before the change, and is noted after it.
    talkers.note_at(at(1), &early);
    let of = |policy| rows(&talkers, policy, TalkersBy::Checks, Current, 1);
    assert_eq!(of("search"), [row("user=alice", 3)]);
    assert_eq!(of("all"), [row("user=alice", 1)]);
    assert_eq!(of("new"), [row("ip=192.0.2.7/32", 1)]);
}

#[tokio::test]
async fn limits_that_a_caller_brings_have_no_talkers() {
    let (limiter, talkers) = (limiter(TWO), talkers());
    let limits = policies("policies: [{ name: search, key: [user], quotas: [5/1m] }]");
    let [limits] = limits.as_slice() else { panic!("one policy") };
    let attributes: Attributes<'_> = [("user", "alice")].into_iter().collect();
    let set = limiter.under(limits.clone());
    talkers.note_at(at(0), &limiter.check_in(set, &attributes, 1).await.unwrap());
    talkers.follow(&limiter.live());
    assert_eq!(rows(&talkers, "search", TalkersBy::Checks, PeriodChoice::Current, 0), []);
}

/// 1,000 policies under attack by clients with long names.
#[tokio::test]
async fn all_talkers_together_stay_within_their_memory() {
    let text: String =
        (0..1_000).map(|n| format!("  - {{ name: p{n}, key: [user], quotas: [1/1d] }}\n")).collect();
    let (limiter, talkers) = (limiter(&format!("policies:\n{text}")), talkers());
    let live = limiter.live();
    talkers.follow(&live);
    let keys: Vec<_> = (0..150).map(|n| tollgate::Key::from(format!("{n:0150}"))).collect();
    let all = talkers.live.load();
    for (named, key) in all.policies.iter().flat_map(|named| keys.iter().map(move |key| (named, key))) {
        named.talkers.note(at(0), (key, named.talkers.hash(key)), true);
    }
    assert!(talkers.memory.used() <= Memory::MAX_BYTES);
    let rows_of = |place: usize| {
        all.policies[place].talkers.report(at(0), TalkersBy::Checks, PeriodChoice::Current, 100).counters
    };
    assert_eq!([0, 400, 999].map(rows_of), [128, 32, 0]);
    let last = all.policies[999].talkers.report(at(0), TalkersBy::Checks, PeriodChoice::Current, 100);
    assert_eq!((last.counted, last.skipped, last.total), (0, 150, 150));
    drop(all);
    // They are gone with their policies.
    let _ = limiter.replace(policies("policies: []"), "a.yaml");
    talkers.follow(&limiter.live());
    assert_eq!(talkers.memory.used(), 0);
}

/// What a check pays for talkers: `cargo xtask bench talkers`. Its policies have nothing else to do.
#[tokio::test]
#[ignore = "a measurement"]
async fn measure() {
    const ONE: &str = "policies: [{ name: search, key: [user], quotas: [1000000/1d] }]";
    const TWO: &str = "policies:
      - { name: search, key: [user], quotas: [1000000/1d] }
      - { name: again, key: [user], quotas: [1000000/1h] }";
    /// Short enough to run without a break now and then, also on a machine that does other things.
    const TURN: usize = 2_000;
    let keys = 20_000;
    let mut random = fastrand::Rng::with_seed(7);
    let weights: Vec<f64> = (1..=keys)
        .scan(0.0, |sum, rank| {
            *sum += f64::from(rank).recip();
            Some(*sum)
        })
        .collect();
    let total = weights.last().copied().unwrap();
    let streams: [(&str, Vec<usize>); 3] = [
        ("known-keys", (0..TURN * 10).map(|_| random.usize(..100)).collect()),
        (
            "zipf",
            (0..TURN * 10).map(|_| weights.partition_point(|sum| *sum < random.f64() * total)).collect(),
        ),
        ("each-is-new", (0..TURN * 10).collect()),
    ];
    for (policies, text) in [("one-policy", ONE), ("two-policies", TWO)] {
        let limiter = limiter(text);
        let mut decisions = Vec::new();
        for number in 0..keys {
            decisions.push(decide(&limiter, &[("user", &format!("client-{number}"))]).await);
        }
        for (name, stream) in &streams {
            let talkers = talkers();
            let mut least = Duration::MAX;
            for turn in (0..50).flat_map(|_| stream.chunks(TURN)) {
                let began = Stopwatch::start();
                turn.iter().for_each(|key| talkers.note(&decisions[*key % decisions.len()]));
                least = least.min(began.elapsed());
            }
            let each = least.as_nanos() as f64 / TURN as f64;
            println!("RESULT bench/talkers/{policies}/{name} ns={each:.1}");
        }
    }
}
