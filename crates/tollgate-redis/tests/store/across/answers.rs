//! What a request across slots is answered.

use std::time::Duration;

use tollgate::{Charge, PolicyQuota, QuotaStates, Source, StoreError};
use tollgate_redis::{AcrossSlots, KeyIdentity, KeyLayout};
use tollgate_testkit::StoreSteps;
use tollgate_testkit::block_on;
use tollgate_testkit::servers::{Cluster, Server, Software};

use super::{Pair, reserving, stands};
use crate::servers::{build, on_cluster, shared_cluster};

#[test]
fn several_slots_are_refused_unless_they_are_asked_for() {
    let cluster = shared_cluster(Software::Redis);
    let store = build(on_cluster(&cluster).identity(KeyIdentity::Plain));
    let pair = Pair::new(&cluster, ["5/3653d", "5/3653d"]);
    let asked = block_on(pair.charge(&store));
    let looked = block_on(store.peek(&[pair.first(1), pair.second(1)]));
    for answer in [asked, looked] {
        assert!(matches!(answer, Err(StoreError::Uncountable(_))), "{answer:?}");
    }
    assert_eq!(block_on(pair.used(&store)), [0, 0]);
    // All quotas of one key are one step.
    let day = PolicyQuota::new("pair", "2/1d".parse().unwrap());
    let charges = [pair.first(2), Charge::new(&day, &pair.keys[0], 2)];
    assert!(block_on(store.charge(&charges)).unwrap().is_admitted());
    assert_eq!(stands(&block_on(store.charge(&charges)).unwrap()), [(2, true), (2, false)]);
}

#[test]
fn a_denial_gives_everything_back_and_says_what_stands() {
    for (software, local) in Software::ALL.into_iter().flat_map(|software| [(software, 0), (software, 99)]) {
        let cluster = shared_cluster(software);
        let store = build(reserving(&cluster, &format!("denial-{local}")).local_denials(local));
        let pair = Pair::new(&cluster, ["5/3653d", "2/3653d"]);
        let crosswise = [[pair.first(1), pair.second(1)], [pair.second(1), pair.first(1)]];
        let ask = |charges: &[Charge<'_>; 2]| stands(&block_on(store.charge(charges)).unwrap());
        assert_eq!(ask(&crosswise[0]), [(1, true), (1, true)]);
        assert_eq!(ask(&crosswise[1]), [(2, true), (2, true)]);
        // The second has no room; the first, which is charged before, has.
        assert_eq!(ask(&crosswise[0]), [(2, true), (2, false)]);
        assert_eq!(ask(&crosswise[1]), [(2, false), (2, true)]);
        assert_eq!(block_on(pair.used(&store)), [2, 2]);
        // Neither has room.
        assert!(block_on(store.charge(&[pair.first(3)])).unwrap().is_admitted());
        assert_eq!(ask(&crosswise[0]), [(5, false), (2, false)]);
        assert_eq!(block_on(pair.used(&store)), [5, 2]);
    }
}

/// What was given back to a bucket was still said to be used.
#[test]
fn a_denial_gives_back_units_of_every_kind() {
    let cluster = shared_cluster(Software::Redis);
    for text in ["1/1h~burst:5", "5/1h~sliding", "5/1h~log", "5/1h~log:1m"] {
        let store = build(reserving(&cluster, "denied-kinds").local_denials(0));
        let pair = Pair::new(&cluster, [text, "2/3653d"]);
        let charges = |cost| [pair.first(cost), pair.second(1)];
        let ask = |charges: &[Charge<'_>; 2]| stands(&block_on(store.charge(charges)).unwrap());
        assert_eq!(ask(&charges(2)), [(2, true), (1, true)], "{text}");
        assert_eq!(ask(&charges(1)), [(3, true), (2, true)], "{text}");
        assert_eq!(ask(&charges(2)), [(3, true), (2, false)], "{text}");
        assert_eq!(block_on(pair.used(&store)), [3, 2], "{text}");
        block_on(store.reset(&pair.second(0).counter())).unwrap();
    }
}

#[test]
fn a_peek_asks_all_slots_and_takes_nothing() {
    let cluster = shared_cluster(Software::Redis);
    let store = build(reserving(&cluster, "peek"));
    let pair = Pair::new(&cluster, ["5/3653d", "2/3653d"]);
    assert!(block_on(store.charge(&[pair.second(2), pair.first(1)])).unwrap().is_admitted());
    let looked = block_on(store.peek(&[pair.second(1), pair.first(1)])).unwrap();
    assert_eq!(stands(&looked), [(2, false), (1, true)]);
    assert_eq!(block_on(pair.used(&store)), [1, 2]);
}

/// Also behind the one that was first to deny, and in no other.
#[test]
fn counted_denials_charge_the_quotas_without_room() {
    let cluster = shared_cluster(Software::Redis);
    let store = build(reserving(&cluster, "counted"));
    let pair = Pair::new(&cluster, ["3/3653d", "1/3653d"]).count_denied();
    for expected in [[1, 1], [1, 2], [1, 3]] {
        block_on(pair.charge(&store)).unwrap();
        assert_eq!(block_on(pair.used(&store)), expected);
    }
    assert!(block_on(store.charge(&[pair.first(2)])).unwrap().is_admitted());
    assert_eq!(stands(&block_on(pair.charge(&store)).unwrap()), [(4, false), (4, false)]);
    assert_eq!(block_on(pair.used(&store)), [4, 4]);
}

/// Bytes that were sent are charged, whichever slot denies: the refund of the slots before it took them away again.
#[test]
fn a_denial_keeps_overdrafts_in_every_slot() {
    let cluster = shared_cluster(Software::Redis);
    let store = build(reserving(&cluster, "overdraft").local_denials(99));
    // In the slot that is asked first, and in the last one.
    for overdraft in [0, 1] {
        let pair = Pair::new(&cluster, ["2/3653d", "2/3653d"]).overdraft(overdraft);
        let (own, other) = (overdraft, 1 - overdraft);
        let charges = [pair.first(if own == 0 { 9 } else { 2 }), pair.second(if own == 1 { 9 } else { 2 })];
        let units = |counted: &QuotaStates| {
            let units: Vec<_> = counted.iter().map(|state| (state.has_room(), state.units())).collect();
            (units[own], units[other])
        };
        let limits = [pair.first(0), pair.second(0)];
        for charge in &limits {
            block_on(store.reset(&charge.counter())).unwrap();
        }
        assert_eq!(units(&block_on(store.charge(&charges)).unwrap()), ((true, 9), (true, 2)));
        // Neither has room, and then only one has.
        assert_eq!(units(&block_on(store.charge(&charges)).unwrap()), ((false, 9), (false, 0)));
        block_on(store.set(&limits[own].counter(), 1)).unwrap();
        assert_eq!(units(&block_on(store.charge(&charges)).unwrap()), ((true, 9), (false, 0)));
        block_on(store.reset(&limits[other].counter())).unwrap();
        assert_eq!(units(&block_on(store.charge(&charges)).unwrap()), ((false, 9), (true, 0)));
        let used = block_on(pair.used(&store));
        assert_eq!((used[own], used[other]), (19, 0));
    }
    // Another quota on the overdraft's key is charged with it: in the server, both are one counter.
    let layout: KeyLayout = "{prefix}:{{{user}}}:{windows}:{window}".parse().unwrap();
    let builder = on_cluster(&cluster).prefix("overdraft-key").across_slots(AcrossSlots::Reserve);
    let store = build(builder.layout(layout));
    for own in [0, 1] {
        let pair = Pair::new(&cluster, ["9/3650d", "9/3650d"]).overdraft(own);
        let plain = PolicyQuota::new("plain", "9/3650d".parse().unwrap());
        let [overdraft, denied] =
            if own == 0 { [pair.first(4), pair.second(10)] } else { [pair.second(4), pair.first(10)] };
        let charges = [overdraft, Charge::new(&plain, &pair.keys[own], 2), denied];
        block_on(store.reset(&overdraft.counter())).unwrap();
        for used in [6, 12] {
            let counted = block_on(store.charge(&charges)).unwrap();
            let states: Vec<_> = counted.iter().map(|state| (state.used(), state.units())).collect();
            assert_eq!(states[..2], [(used, 4), (used, 2)]);
            assert_eq!(block_on(pair.used(&store))[own], used);
        }
    }
}

/// A key that is denied all the time does not keep taking units from others, be it for a moment.
#[test]
fn a_denial_that_can_be_foreseen_takes_nothing_on_the_way() {
    let cluster = Cluster::start(Software::Redis).calm();
    let store = build(reserving(&cluster, "foreseen"));
    let pair = Pair::new(&cluster, ["1000/3653d", "1/3653d"]);
    let [first, _] = pair.servers(&cluster);
    for admitted in [true, false, false] {
        assert_eq!(block_on(pair.charge(&store)).unwrap().is_admitted(), admitted);
    }
    let before = writes(first);
    let is_local = |_: &i32| {
        let denied = block_on(pair.charge(&store)).unwrap();
        assert_eq!(stands(&denied), [(1, true), (1, false)]);
        denied.iter().all(|state| state.source() == Source::Local)
    };
    let local = (0..200).filter(is_local).count();
    let writes = writes(first) - before;
    println!("{local} of 200 answered here, {writes} writes");
    // Each second one asks again. If a busy machine forgets meanwhile, one more writes.
    assert!(local >= 100 && writes <= 20, "{local} of 200 answered here, {writes} writes");

    // What another process gives back is seen.
    let other = build(reserving(&cluster, "foreseen"));
    let mark = block_on(other.peek(&[pair.second(1)])).unwrap()[0].mark();
    block_on(other.refund(&pair.second(1), mark)).unwrap();
    // Real time: a denial is remembered for a second of it.
    block_on(async { tokio::time::sleep(Duration::from_millis(1_001)).await });
    assert!(block_on(pair.charge(&store)).unwrap().is_admitted());
}

/// How often a counter was changed.
fn writes(server: &Server) -> u64 {
    let statistics: String = server.command(["INFO", "commandstats"]);
    let writes = statistics
        .lines()
        .filter(|line| ["cmdstat_incrby:", "cmdstat_set:"].iter().any(|it| line.starts_with(it)));
    let calls = |line: &str| line.split("calls=").nth(1)?.split(',').next()?.parse::<u64>().ok();
    writes.filter_map(calls).sum()
}

/// One after another, so that none is denied by what another gives back.
#[test]
fn requests_of_a_batch_are_taken_one_after_another() {
    let cluster = shared_cluster(Software::Redis);
    let store = build(reserving(&cluster, "batch").local_denials(0));
    let pair = Pair::new(&cluster, ["1/3653d", "1/3653d"]);
    for round in 0..50 {
        let full = PolicyQuota::new(&format!("full-{round}"), "0/3653d".parse().unwrap());
        let open = PolicyQuota::new(&format!("open-{round}"), "1/3653d".parse().unwrap());
        let contested = Charge::new(&open, &pair.keys[0], 1);
        let denied = [contested, Charge::new(&full, &pair.keys[1], 1)];
        let both = [contested, Charge::new(&open, &pair.keys[1], 1)];
        let answers = block_on(store.charge_each(&[&denied, &both, &denied]));
        let admitted = answers.into_iter().map(|answer| answer.unwrap().is_admitted());
        assert_eq!(admitted.collect::<Vec<_>>(), [false, true, false], "round {round}");
    }
}
