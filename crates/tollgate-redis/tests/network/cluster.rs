//! Many primaries, each with some of the slots.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tollgate::{Charge, Key, PolicyQuota, Quota, QuotaState, QuotaStates, Step, StepDeadline, Store as _};
use tollgate_redis::{KeyIdentity, RedisError};
use tollgate_testkit::StoreSteps;
use tollgate_testkit::servers::{Cluster, SLOTS, Server, Settings, Software};

use crate::support::{Caller, builder, patient, patient_builder, trouble, until};

/// One server is enough to find the others.
fn url(cluster: &Cluster) -> String {
    format!("redis+cluster://{}", cluster.nodes()[5].address())
}

/// The rights that the guide gives a dedicated user on a Cluster.
fn rights_of_the_guide() -> String {
    let guide = include_str!("../../../../docs/redis.md");
    let between = |before: &str, after: &str| {
        let (_, rest) = guide.split_once(before).unwrap();
        rest.split_once(after).unwrap().0
    };
    let for_a_cluster = between("for a Cluster `", "`.").replace("` and `", " ");
    format!("{} {for_a_cluster}", between("ACL SETUSER limiter on >PASSWORD ", "\n"))
}

/// The slot of the only counter that there is.
fn only_slot(cluster: &Cluster) -> u16 {
    let keys = |node: &Server| node.command::<Vec<String>>(["KEYS", "*"]);
    let key = cluster.nodes().iter().find_map(|node| keys(node).pop()).unwrap_or_default();
    cluster.slot_of(&key)
}

/// Two keys whose counters lie in one slot, if their identity is plain.
fn neighbors(cluster: &Cluster) -> (u16, [String; 2]) {
    let mut seen = HashMap::new();
    for key in (0..).map(|n| format!("user-{n}")) {
        let slot = cluster.slot_of(&key);
        if let Some(other) = seen.insert(slot, key.clone()) {
            return (slot, [other, key]);
        }
    }
    unreachable!("there are more keys than slots")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_key_is_charged_where_its_slot_is() {
    for software in Software::ALL {
        let cluster = Cluster::start(software).calm();
        let caller = patient(&url(&cluster));
        for round in 1..=2 {
            for key in 0..300 {
                assert_eq!(caller.charge(&format!("user-{key}")).await, Ok(round));
            }
        }
        let third = SLOTS / 3;
        let counters: Vec<u64> =
            (0..3).map(|n| cluster.primary_of(n * third).command::<u64>(["DBSIZE"])).collect();
        assert_eq!(counters.iter().sum::<u64>(), 300);
        assert!(counters.iter().all(|count| *count > 50), "{counters:?}");
        assert!(caller.store.status().is_connected());
        assert_eq!(caller.store.status().servers().len(), 3);

        let quota = PolicyQuota::new("each", Quota::per_day(5));
        for key in caller.store.key_on_each_server(&quota) {
            caller.store.charge(&[Charge::new(&quota, &key, 1)]).await.unwrap();
        }
        for n in 0..3 {
            let keys: Vec<String> = cluster.primary_of(n * third).command(["KEYS", "*:each:*"]);
            assert_eq!(keys.len(), 1, "one key on each server");
        }
    }
}

/// A batch went to the server of its first request. If that one's slot had moved while the batch waited, another server
/// got all of it and refused the rest.
#[tokio::test]
async fn a_slot_that_has_moved_takes_no_other_request_of_its_batch_along() {
    let cluster = Cluster::start(Software::Redis).calm();
    let caller = Caller::new(patient_builder(&url(&cluster)).identity(KeyIdentity::Plain));
    let [one, two, three] = [0, 1, 2].map(|n| cluster.primary_of(n * (SLOTS / 3) + 9));
    let keys_of = |node: &Server| -> Vec<String> {
        let address = node.address();
        let is_there = |key: &String| cluster.primary_of(cluster.slot_of(key)).address() == address;
        (0..).map(|n| format!("user-{n}")).filter(is_there).take(7).collect()
    };
    let refusals = || -> String {
        let statistics: String = two.command(["INFO", "errorstats"]);
        statistics.lines().find(|line| line.starts_with("errorstat_MOVED")).unwrap_or_default().to_owned()
    };
    let (keys, told) = (keys_of(one), keys_of(two).swap_remove(0));
    for key in keys.iter().chain([&told]) {
        assert_eq!(caller.charge(key).await, Ok(1));
    }
    cluster.move_slot(cluster.slot_of(&keys[2]), two);
    cluster.move_slot(cluster.slot_of(&told), three);
    // The first two go, and the others wait, of which the first has moved.
    one.pause();
    let charge = |key: String| {
        let caller = caller.clone();
        tokio::spawn(async move { caller.charge(&key).await })
    };
    let charged: Vec<_> = keys.into_iter().map(charge).collect();
    let knows_who_serves = async || {
        let before = refusals();
        caller.charge(&told).await.unwrap();
        (refusals() == before).then_some(())
    };
    until("a store that knows which slots have moved", knows_who_serves).await;
    let before = refusals();
    one.resume();
    for charged in charged {
        assert_eq!(charged.await.unwrap(), Ok(2));
    }
    assert_eq!(refusals(), before);
}

/// Each call waited until its deadline for somebody to be found who serves, though that is looked for ten times a
/// second at most.
#[tokio::test(flavor = "multi_thread")]
async fn slots_that_nobody_serves_hold_nobody_up() {
    let cluster = Cluster::start(Software::Redis).calm();
    const DEADLINE: Duration = Duration::from_millis(40);
    let hasty = Caller::new(builder(&url(&cluster)).deadline(DEADLINE));
    hasty.until_served("alice").await;
    for node in cluster.nodes() {
        // Some know of it from others already.
        let _ = node.try_command::<()>(["CLUSTER", "DELSLOTSRANGE", "100", "1099"]);
    }
    while hasty.charge("alice").await != Err(RedisError::NotReady) {}
    // On a machine that is busy a reply itself may take as long, but not for ever. If each waited, about one of four
    // would be lucky: who comes shortly before the next look.
    let most_are_refused_at_once = async || {
        let mut waited = 0;
        for _ in 0..20 {
            let asked = Instant::now();
            let _ = hasty.refusal("alice").await;
            waited += usize::from(asked.elapsed() >= DEADLINE);
        }
        (waited < 10).then_some(())
    };
    until("calls that do not wait until their deadline", most_are_refused_at_once).await;

    // Now the other slots are served again, and those have a key among one for each server.
    for node in cluster.nodes() {
        node.command::<()>(["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
    }
    // Each looks at that when its own turn comes, ten times a second.
    for node in cluster.nodes() {
        while !node.command::<String>(["CLUSTER", "INFO"]).contains("cluster_state:ok") {}
    }
    let caller = patient(&url(&cluster));
    caller.until_served("alice").await;
    let (quota, mut answers) = (PolicyQuota::new("each", Quota::per_day(5)), Vec::new());
    for key in caller.store.key_on_each_server(&quota) {
        answers.push(caller.store.charge(&[Charge::new(&quota, &key, 1)]).await.map_err(trouble).err());
    }
    assert_eq!(answers.len(), 4, "{answers:?}");
    assert_eq!(answers.iter().flatten().collect::<Vec<_>>(), [&RedisError::Unreachable], "{answers:?}");
}

/// The caller has heard of neither move: the first owner names the second, and that one sends it on. The user has only
/// the rights that `docs/redis.md` lists, which once left out the one to ask for a key that is being moved.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_has_moved_and_moves_on_is_followed() {
    let settings = Settings::new(Software::Redis).user("limiter", "s3cret", &rights_of_the_guide());
    let cluster = Cluster::with(&settings).calm();
    let caller = patient(&url(&cluster).replace("://", "://limiter:s3cret@"));
    assert_eq!(caller.charge("alice").await, Ok(1));
    let slot = only_slot(&cluster);
    let moved = cluster.migrate(slot, cluster.other_primary(slot));
    assert_eq!(moved.move_keys(10), 1);
    moved.finish();
    let moves_on = cluster.migrate(slot, cluster.other_primary(slot));
    assert_eq!(moves_on.move_keys(10), 1);
    assert_eq!(caller.charge("alice").await, Ok(2));
    moves_on.finish();
    assert_eq!(caller.charge("alice").await, Ok(3));
}

/// A slot goes to and fro while its counter is charged, with nothing refused and everything counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_is_followed_and_loses_nothing() {
    for software in Software::ALL {
        let cluster = Cluster::start(software).calm();
        let caller = patient(&url(&cluster));
        assert_eq!(caller.charge("alice").await, Ok(1));
        let slot = only_slot(&cluster);
        let load = caller.load("alice", 8);
        for _ in 0..5 {
            let migration = cluster.migrate(slot, cluster.other_primary(slot));
            load.goes_on(20).await;
            assert_eq!(migration.move_keys(10), 1);
            // From here on the old owner says ASK.
            load.goes_on(20).await;
            migration.finish();
        }
        let tally = load.stop().await;
        assert!(tally.unknown == 0 && tally.refused.is_empty(), "{tally:?}");
        assert_eq!(caller.used("alice").await, tally.acknowledged + 1);
    }
}

/// Such a counter expires too early or too late if the clocks of the two servers differ, and calls that bring a
/// probable time learn a wrong one from it.
#[tokio::test(flavor = "multi_thread")]
async fn a_counter_that_was_moved_with_its_slot_gets_its_expiry_back() {
    for software in Software::ALL {
        let cluster = Cluster::start(software).calm();
        let caller = Caller::new(patient_builder(&url(&cluster)).identity(KeyIdentity::Plain));
        let (slot, [asked, unasked]) = neighbors(&cluster);
        let quota = PolicyQuota::new("moved", "1000000/365d".parse().unwrap());
        let charge = async |key: &str| {
            let key = Key::from(key);
            caller.store.charge(&[Charge::new(&quota, &key, 1)]).await.unwrap()[0].used()
        };
        assert_eq!([charge(&asked).await, charge(&unasked).await], [1, 1]);
        let owner = cluster.primary_of(slot);
        let name = &owner.command::<Vec<String>>(["KEYS", &format!("*{{{unasked}}}")])[0];
        let expiry: i64 = owner.command(["PEXPIRETIME", name]);
        let migration = cluster.migrate(slot, cluster.other_primary(slot));
        assert_eq!(migration.move_keys(10), 2);
        migration.finish();
        // Until calls go straight to the other one. They would bring a probable time.
        for used in 2..100 {
            assert_eq!(charge(&asked).await, used);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let owner = cluster.primary_of(slot);
        owner.command::<()>(["PEXPIREAT", name, &(expiry - 300).to_string()]);
        assert_eq!(charge(&unasked).await, 2);
        assert_eq!(owner.command::<i64>(["PEXPIRETIME", name]), expiry, "{software:?}");
    }
}

/// Two identities in one slot were asked for in one call, which nobody takes while one of them has moved and the
/// other has not: all of their callers were refused, for as long as the move took.
#[tokio::test(flavor = "multi_thread")]
async fn identities_that_a_move_parts_are_asked_for_one_by_one() {
    for software in Software::ALL {
        let cluster = Cluster::start(software).calm();
        let caller = Caller::new(patient_builder(&url(&cluster)).identity(KeyIdentity::Plain));
        let (slot, keys) = neighbors(&cluster);
        for key in &keys {
            assert_eq!(caller.charge(key).await, Ok(1));
        }
        let loads = keys.each_ref().map(|key| caller.load(key, 8));
        let migration = cluster.migrate(slot, cluster.other_primary(slot));
        assert_eq!(migration.move_keys(1), 1);
        for load in &loads {
            load.goes_on(50).await;
        }
        let counters = [migration.from(), migration.to()].map(|node| {
            node.command::<Vec<String>>(["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "10"]).len()
        });
        assert_eq!(counters, [1, 1], "the two are together");
        migration.finish();
        for (key, load) in keys.iter().zip(loads) {
            let tally = load.stop().await;
            assert!(tally.unknown == 0 && tally.refused.is_empty(), "{tally:?}");
            assert_eq!(caller.used(key).await, tally.acknowledged + 1);
        }
    }
}

/// Two counters of one request cannot be charged in one step while a move parts them. Who had time was refused all the
/// same, after 16 ms.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_counters_a_move_parts_waits_and_charges_nothing() {
    let cluster = Cluster::start(Software::Redis).calm();
    let caller = patient(&url(&cluster));
    let quotas = ["9/1d@first_hit", "9/10d@first_hit"];
    let quotas = quotas.map(|quota| PolicyQuota::new("parted", quota.parse().unwrap()));
    let alice = Key::from("alice");
    let charges = quotas.each_ref().map(|quota| Charge::new(quota, &alice, 1));
    let used = |counted: QuotaStates| counted.iter().map(QuotaState::used).collect::<Vec<_>>();
    assert_eq!(caller.store.charge(&charges).await.map(used).map_err(trouble), Ok(vec![1, 1]));

    let slot = only_slot(&cluster);
    let migration = cluster.migrate(slot, cluster.other_primary(slot));
    assert_eq!(migration.move_keys(1), 1);
    let hurried = patient_builder(&url(&cluster)).deadline(Duration::from_secs(2)).build().unwrap();
    let refused = async || match hurried.charge(&charges).await.map_err(trouble) {
        // A stall of this machine, for as long as is left for a reply.
        Err(RedisError::TimedOut | RedisError::Overloaded) => None,
        answer => Some(answer),
    };
    assert_eq!(until("an answer", refused).await.map(used), Err(RedisError::NotReady));
    for charge in charges {
        assert_eq!(
            caller.store.peek(&[charge]).await.map(used).map_err(trouble),
            Ok(vec![1]),
            "nothing is charged"
        );
    }
    let together = async {
        // Real time: the call must meet the migration while it waits.
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(migration.move_keys(1), 1);
        migration.finish();
    };
    let (charged, ()) = tokio::join!(caller.store.charge(&charges), together);
    assert_eq!(charged.map(used).map_err(trouble), Ok(vec![2, 2]));
}

#[tokio::test(flavor = "multi_thread")]
async fn follows_a_slot_to_the_replica_that_takes_over() {
    for software in Software::ALL {
        let cluster = Cluster::start(software).calm();
        let caller = Caller::new(builder(&url(&cluster)));
        let before = caller.until_served("alice").await;
        let slot = only_slot(&cluster);
        let load = caller.load("alice", 8);
        cluster.fail_over(slot);
        let after = caller.until_served("alice").await;
        let mut tally = load.stop().await;
        tally.acknowledged += before.acknowledged + after.acknowledged;
        tally.unknown += before.unknown + after.unknown;
        // Nothing is lost by an exchange that was agreed on.
        tally.expect_counted(caller.used("alice").await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn goes_over_to_the_replica_of_a_primary_that_is_killed() {
    for software in Software::ALL {
        let cluster = Cluster::start(software);
        let caller = Caller::new(builder(&url(&cluster)));
        caller.until_served("alice").await;
        let slot = only_slot(&cluster);
        let load = caller.load("alice", 8);
        cluster.kill_primary_of(slot);
        // Comes back when the replica has taken over.
        let _ = cluster.primary_of(slot);
        caller.until_served("alice").await;
        let tally = load.stop().await;
        assert!(!tally.refused.is_empty() || tally.unknown > 0, "the primary was killed, and nobody noticed");
    }
}

/// Callers that wait for less than the deadline lost the answers of all steps of a call if one server did not answer.
#[tokio::test(flavor = "multi_thread")]
async fn an_impatient_caller_keeps_the_answers_that_are_there() {
    let cluster = Cluster::start(Software::Redis).calm();
    let caller = patient(&url(&cluster));
    caller.until_served("user-0").await;
    let hanging = cluster.primary_of(only_slot(&cluster));
    let users: Vec<String> = (0..30).map(|user| format!("user-{user}")).collect();
    for user in &users {
        caller.until_served(user).await;
    }
    hanging.pause();
    let quota = PolicyQuota::new("test", Quota::per_day(10));
    let keys: Vec<Key<'_>> = users.iter().map(|user| Key::from(user.as_str())).collect();
    let charges: Vec<_> = keys.iter().map(|key| [Charge::new(&quota, key, 1)]).collect();
    // Records were sent only after the answers to all charges.
    let records = charges.iter().flatten().map(|charge| Step::Record(*charge));
    let steps: Vec<Step<'_>> = charges.iter().map(|charge| Step::Charge(charge)).chain(records).collect();
    // Real time: the other servers answer within it, and the hanging one does not.
    let within = |time| Some(StepDeadline::at(Instant::now() + time));
    let answers = caller.store.step_each_until(&steps, within(Duration::from_secs(2))).await;
    let (charged, recorded) = answers.split_at(charges.len());
    let counted = |answers: &[Result<QuotaStates, _>]| answers.iter().filter(|answer| answer.is_ok()).count();
    assert!((5..30).contains(&counted(charged)), "{} of 30 while one of three hangs", counted(charged));
    assert_eq!(counted(charged), counted(recorded));
    for error in answers.into_iter().filter_map(Result::err) {
        assert!(error.may_have_charged(), "{error}");
        assert_eq!(trouble(error), RedisError::TimedOut);
    }
    let unsent =
        caller.store.step_until(Step::Charge(&charges[0]), within(Duration::ZERO)).await.unwrap_err();
    assert!(!unsent.may_have_charged(), "{unsent}");
}

/// A primary that hangs is left at once, and the others go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_hangs_harms_no_other() {
    let cluster = Cluster::start(Software::Redis).calm();
    // Each is asked once, and so long that a machine which is busy is not taken for harm.
    let caller = Caller::new(builder(&url(&cluster)).deadline(Duration::from_millis(200)));
    caller.until_served("alice").await;
    let slot = only_slot(&cluster);
    // A key of each of the others.
    for key in 0..100 {
        caller.until_served(&format!("user-{key}")).await;
    }
    let hanging = cluster.primary_of(slot);
    hanging.pause();
    let mut served = 0;
    // Again if this machine stood still for so long that another one was taken for hanging.
    for _ in 0..3 {
        served = 0;
        for key in 0..100 {
            served += usize::from(caller.charge(&format!("user-{key}")).await.is_ok());
        }
        if served >= 40 {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!((40..100).contains(&served), "{served} of 100 served while one of three hangs");
    assert!(caller.charge("alice").await.is_err(), "it hangs, and has no replica that takes over");

    // Now one does, and the other comes back as its replica.
    for node in cluster.nodes().iter().filter(|node| node.is_running()) {
        node.command::<()>(["CONFIG", "SET", "cluster-node-timeout", "1000"]);
    }
    caller.until_served("alice").await;
    hanging.resume();
    caller.until_served("alice").await;
}
