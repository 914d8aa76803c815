//! Many requests across slots at once, and callers that go away.

use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_testkit::StoreSteps;
use tollgate_testkit::servers::Software;
use tollgate_testkit::{StoreUnderTest, block_on, race};

use super::{Pair, eventually, reserving};
use crate::servers::{build, clustered, shared_cluster};

#[test]
fn crosswise_charges_use_up_the_narrower_limit() {
    race::crosswise_charges_use_up_the_narrower_limit(clustered(Software::Redis).store(), 16, 5);
}

/// Who gets through the first slot finds no rival behind it. In two orders, two could keep each other out.
#[test]
fn rivals_for_the_last_units_do_not_keep_each_other_out() {
    let cluster = shared_cluster(Software::Redis);
    let pair = Pair::new(&cluster, ["3/3653d", "3/3653d"]);
    for round in 0..40 {
        let stores = [0, 1].map(|_| build(reserving(&cluster, &format!("rivals-{round}"))));
        let admitted = block_on(async {
            let mut callers = JoinSet::new();
            for caller in 0..8 {
                let (store, pair) = (stores[caller % 2].clone(), pair.clone());
                callers.spawn(async move {
                    let mut charges = [pair.first(1), pair.second(1)];
                    charges.rotate_left(caller / 2 % 2);
                    store.charge(&charges).await.unwrap().is_admitted()
                });
            }
            callers.join_all().await.into_iter().filter(|admitted| *admitted).count()
        });
        assert_eq!(admitted, 3, "round {round}");
        assert_eq!(block_on(pair.used(&stores[0])), [3, 3], "round {round}");
    }
}

/// Requests of two processes over the same slots, in both orders, at several costs, and some on one slot alone.
#[test]
fn usage_after_a_race_equals_the_admitted_units() {
    for software in Software::ALL {
        let cluster = shared_cluster(software);
        let pair = Pair::new(&cluster, ["150/3653d", "100/3653d"]);
        let stores = [0, 1].map(|_| build(reserving(&cluster, "race")));
        let admitted = block_on(async {
            let mut callers = JoinSet::new();
            for caller in 0..16_u32 {
                let (store, pair) = (stores[caller as usize % 2].clone(), pair.clone());
                callers.spawn(async move {
                    let mut admitted = [0; 2];
                    for turn in 0..40 {
                        let cost = 1 + (caller + turn) % 3;
                        let (first, second) = (pair.first(cost), pair.second(cost));
                        let (charges, units) = match (caller / 2 + turn) % 8 {
                            0 => (vec![first], [1, 0]),
                            1 => (vec![second], [0, 1]),
                            2 | 4 | 6 => (vec![first, second], [1, 1]),
                            _ => (vec![second, first], [1, 1]),
                        };
                        if store.charge(&charges).await.unwrap().is_admitted() {
                            admitted = [0, 1].map(|at| admitted[at] + cost * units[at]);
                        }
                    }
                    admitted
                });
            }
            let all = callers.join_all().await;
            [0, 1].map(|at| all.iter().map(|admitted| u64::from(admitted[at])).sum::<u64>())
        });
        assert_eq!(block_on(pair.used(&stores[0])), admitted);
        let [first, second] = admitted;
        assert!(first <= 150 && second <= 100, "{admitted:?}");
        assert!(first >= 140 || second >= 90, "{admitted:?}");
    }
}

/// Dropped at any point, a request is counted in both slots or in none.
#[test]
fn callers_that_go_away_are_counted_whole_or_not_at_all() {
    let cluster = shared_cluster(Software::Redis);
    let store = build(reserving(&cluster, "dropped"));
    let pair = Pair::new(&cluster, ["1000000/3653d", "1000000/3653d"]);
    block_on(async {
        let mut callers = JoinSet::new();
        for _ in 0..20 {
            let (store, pair) = (store.clone(), pair.clone());
            callers.spawn(async move {
                let (mut kept, mut wait) = (0, Duration::from_millis(1));
                for _ in 0..100 {
                    let answer = tokio::time::timeout(wait, pair.charge(&store)).await;
                    // About as long as an answer takes, so that some come and some do not.
                    wait = if answer.is_ok() { wait / 2 } else { wait * 3 / 2 + Duration::from_micros(50) };
                    kept += u64::from(answer.is_ok_and(|counted| counted.unwrap().is_admitted()));
                }
                kept
            });
        }
        let kept: u64 = callers.join_all().await.into_iter().sum();
        let counted = eventually(async || {
            let [first, second] = pair.used(&store).await;
            if first == second { Ok(first) } else { Err(format!("{first} and {second} used")) }
        })
        .await;
        println!("{kept} of 2,000 were waited for, {counted} counted");
        assert!(kept > 0 && (kept..2_000).contains(&counted), "{counted} counted, {kept} admitted");
    });
}
