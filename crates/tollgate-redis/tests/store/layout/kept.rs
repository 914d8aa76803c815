//! What lies in the server, and what others may do with it.

use tollgate::{Charge, CountDenied, Counter, Key, Mark, PolicyQuota, QuotaStates, Source, StoreError};
use tollgate_redis::{KeyLayout, RedisStore};
use tollgate_testkit::StoreSteps;
use tollgate_testkit::block_on;
use tollgate_testkit::servers::{Server, Settings, Software};

use super::layout;
use crate::servers::{build, shared, shared_cluster, store};

fn quota(policy: &str, text: &str) -> PolicyQuota {
    PolicyQuota::new(policy, text.parse().unwrap())
}

fn used(store: &RedisStore, quota: &PolicyQuota, key: &Key<'_>, cost: u32) -> u64 {
    block_on(store.charge(&[Charge::new(quota, key, cost)])).unwrap()[0].used()
}

/// What is stored under the key, and when it expires, in Unix milliseconds.
fn stored(server: &Server, name: &str) -> (Option<String>, i64) {
    (server.command(["GET", name]), server.command(["PEXPIRETIME", name]))
}

#[test]
fn the_key_names_the_window_and_goes_a_second_after_it() {
    for software in Software::ALL {
        let server = shared(software);
        let store = build(store(&server).prefix("kept").layout(KeyLayout::SPRING_STARTER));
        let (quota, key) = (quota("any", "5/3650d"), Key::from("user:alice"));
        let counted = block_on(store.charge(&[Charge::new(&quota, &key, 3)])).unwrap();
        let window = counted[0].window().unwrap();
        let name = format!("kept:user:alice:{}", window.start().as_unix_millis());
        assert_eq!(stored(&server, &name), (Some("3".to_owned()), window.end().as_unix_millis() + 1_000));
    }
}

/// What others say of the expiry is left alone, unless the counter would be gone less than a second after its window.
#[test]
fn an_expiry_a_second_after_the_window_is_kept_and_an_earlier_one_is_mended() {
    let server = shared(Software::Redis);
    let store = build(store(&server).prefix("expiry").layout(KeyLayout::SPRING_STARTER));
    let quota = quota("any", "9/3650d");
    let end =
        block_on(store.peek(&[Charge::new(&quota, &"a".into(), 0)])).unwrap()[0].window().unwrap().end();
    let (start, end) = (end.as_unix_millis() - 3_650 * 86_400_000, end.as_unix_millis());
    let times = [
        (end + 77_000, end + 77_000),
        (end + 1_000, end + 1_000),
        (end + 999, end + 1_000),
        (end, end + 1_000),
        (end - 1, end + 1_000),
        (server.time().as_unix_millis() + 600_000, end + 1_000),
        (-1, end + 1_000),
    ];
    for (place, (set, expected)) in times.into_iter().enumerate() {
        // A charge, a look, a denial, and a pair that is denied.
        for (cost, used_then) in [(1, 4), (0, 3), (7, 3)] {
            let value = format!("{place}-{cost}");
            let (key, name) = (Key::from(&value), format!("expiry:{value}:{start}"));
            server.command::<()>(["SET", &name, "3"]);
            if set != -1 {
                server.command::<()>(["PEXPIREAT", &name, &set.to_string()]);
            }
            assert_eq!(used(&store, &quota, &key, cost), used_then, "{place}, {cost}");
            assert_eq!(stored(&server, &name), (Some(used_then.to_string()), expected), "{place}, {cost}");
        }
    }
}

#[test]
fn every_step_is_taken_in_the_window_that_the_key_names() {
    let server = shared(Software::Valkey);
    let store = build(store(&server).layout(layout("{prefix}/{key}/{window}")));
    let (quota, key) = (quota("any", "5/3650d"), Key::from("alice"));
    let counter = Counter::new(&quota, &key);
    let start = block_on(store.set(&counter, 9)).unwrap().mark().time();
    assert_eq!(block_on(store.peek(&[Charge::new(&quota, &key, 1)])).unwrap()[0].used(), 9);
    assert_eq!(block_on(store.record(&Charge::new(&quota, &key, 2))).unwrap().used(), 11);
    let refund =
        |start| block_on(store.refund(&Charge::new(&quota, &key, 4), Mark::at(start))).unwrap().units();
    assert_eq!((refund(start), refund(start + std::time::Duration::from_secs(1))), (4, 0));
    assert_eq!(block_on(store.reset(&counter)).unwrap().used(), 0);
    assert_eq!(used(&store, &quota, &key, 5), 5);
    // Denied by the server, and then without asking it for a second, for which this machine may stand still.
    let mut denials = (0..20).map(|_| block_on(store.charge(&[Charge::new(&quota, &key, 1)])).unwrap()[0]);
    let mut denied_by = |source| {
        let denied = denials.find(|denied| denied.source() == source).expect("a denial by each");
        assert_eq!((denied.has_room(), denied.used()), (false, 5), "{source:?}");
    };
    denied_by(Source::Store);
    denied_by(Source::Local);
}

/// They are merged into few steps, of which each is one command for many counters.
#[test]
fn a_batch_of_many_counts_each_exactly() {
    let server = shared(Software::Redis);
    let store = build(store(&server).layout(layout("{prefix}:{user}:{policy}:{window}")));
    let quotas = [quota("a", "7/3650d"), quota("b", "9/3650d").with_count_denied(CountDenied::Yes)];
    let keys: Vec<Key<'_>> = (0..20_u64).map(Key::from).collect();
    let charges: Vec<[Charge<'_>; 1]> =
        (0..400).map(|turn| [Charge::new(&quotas[turn / 20 % 2], &keys[turn % 20], 1)]).collect();
    let requests: Vec<&[Charge<'_>]> = charges.iter().map(|charge| &charge[..]).collect();
    let answers = block_on(store.charge_each(&requests));
    let admitted = |policy: usize| {
        let turns = (0..400).filter(|turn| turn / 20 % 2 == policy);
        turns.filter(|turn| answers[*turn].as_ref().unwrap().is_admitted()).count()
    };
    assert_eq!((admitted(0), admitted(1)), (7 * 20, 9 * 20));
    for key in &keys {
        assert_eq!((used(&store, &quotas[0], key, 0), used(&store, &quotas[1], key, 0)), (7, 10));
    }
}

/// Without the policy in their names, an overdraft and another quota are one counter, whose charges are charged
/// together.
#[test]
fn an_overdraft_on_the_counter_of_another_policy_is_charged_in_full() {
    let server = shared(Software::Redis);
    let store = build(store(&server).prefix("shared").layout(layout("{prefix}:{user}:{window}")));
    let overdraft = |name| quota(name, "10/3650d").with_count_denied(CountDenied::Overdraft);
    let (bytes, more, strict) = (overdraft("bytes"), overdraft("more"), quota("strict", "10/3650d"));
    let key = Key::from("alice");
    let charge = |quotas: [(&PolicyQuota, u32); 2]| {
        let charges = quotas.map(|(quota, cost)| Charge::new(quota, &key, cost));
        let counted = block_on(store.charge(&charges)).unwrap();
        (counted[0].has_room(), counted[1].has_room(), counted[1].used())
    };
    // Each is asked before what the same request charges.
    assert_eq!(charge([(&bytes, 6), (&more, 3)]), (true, true, 9));
    assert_eq!(charge([(&bytes, 6), (&more, 3)]), (true, true, 18));
    assert_eq!(charge([(&bytes, 6), (&more, 3)]), (false, false, 27));
    block_on(store.reset(&Counter::new(&bytes, &key))).unwrap();
    assert_eq!(charge([(&strict, 4), (&bytes, 4)]), (true, true, 8));
    assert_eq!(charge([(&strict, 4), (&bytes, 4)]), (false, true, 16));
    // Each time: a denial that charges the other policy's units is not repeated from memory.
    assert_eq!(charge([(&strict, 4), (&bytes, 0)]), (false, false, 20));
    assert_eq!(charge([(&strict, 4), (&bytes, 0)]), (false, false, 24));
}

#[test]
fn counters_without_a_name_are_refused_and_write_nothing() {
    let server = Server::start(Software::Redis);
    let charge = |template: KeyLayout, quotas: &[PolicyQuota], key: Key<'_>| {
        let store = build(store(&server).prefix("p").layout(template));
        let charges: Vec<_> = quotas.iter().map(|quota| Charge::new(quota, &key, 1)).collect();
        block_on(store.charge(&charges)).unwrap_err()
    };
    let minute = || quota("a", "5/1m");
    let refused = [
        charge(KeyLayout::RLAAS, &[quota("a", "5/1m@first_hit")], "alice".into()),
        charge(KeyLayout::RLAAS, &[quota("a", "5/1m@staggered")], "alice".into()),
        charge(KeyLayout::RLAAS, &[quota("a", "5/day@Europe/Berlin")], "alice".into()),
        charge(KeyLayout::RLAAS, &[quota("a", "5/50ms")], "alice".into()),
        charge(KeyLayout::RLAAS, &[minute()], ("alice", "/search").into()),
        charge(KeyLayout::RLAAS, &[minute()], b"\xff".into()),
        charge(KeyLayout::LEETDEZINE, &[minute()], "alice".into()),
    ];
    for error in refused {
        assert!(matches!(error, StoreError::Uncountable(_)), "{error}");
        assert!(!error.to_string().contains("alice"), "{error}");
    }
    assert_eq!(server.command::<u64>(["DBSIZE"]), 0);
}

/// Two policies of one window share a counter where the layout names none, and never lose a unit of it.
#[test]
fn policies_that_the_layout_does_not_name_count_together() {
    let server = shared(Software::Redis);
    let store = build(store(&server).layout(layout("{prefix}:{key}:{window}")));
    let (five, nine, key) = (quota("a", "5/3650d"), quota("b", "9/3650d"), Key::from("alice"));
    assert_eq!(used(&store, &five, &key, 5), 5);
    assert_eq!(used(&store, &nine, &key, 4), 9);
    assert!(!block_on(store.charge(&[Charge::new(&five, &key, 1)])).unwrap().is_admitted());
    // What is given back under one name is known under the other: nobody is denied from memory.
    block_on(store.set(&Counter::new(&nine, &key), 0)).unwrap();
    assert_eq!(used(&store, &five, &key, 5), 5);
}

/// The machine that asks has another time: it learns the server's by being refused.
#[test]
fn the_servers_clock_says_which_window_is_open() {
    let server = Settings::new(Software::Redis).steered_clock().start();
    server.clock().step(-5_000_000_000);
    let store = build(store(&server).prefix("clock").layout(KeyLayout::SPRING_STARTER));
    let (quota, key) = (quota("any", "5/10s"), Key::from("alice"));
    let counted = block_on(store.charge(&[Charge::new(&quota, &key, 1)])).unwrap();
    assert!(counted[0].window().unwrap().contains(counted[0].now()));
    let keys: Vec<String> = server.command(["KEYS", "*"]);
    assert_eq!(keys, [format!("clock:alice:{}", counted[0].window().unwrap().start().as_unix_millis())]);
}

/// Without braces in the layout, counters of one key lie in several slots: that is refused unless it is asked for.
#[test]
fn a_cluster_refuses_counters_of_several_slots() {
    let cluster = shared_cluster(Software::Redis);
    let several = |template: &str| {
        let store = build(crate::servers::on_cluster(&cluster).layout(layout(template)));
        let quotas = [quota("a", "5/3650d"), quota("b", "9/3650d"), quota("c", "7/3650d")];
        let key = Key::from("alice");
        let charges: Vec<_> = quotas.iter().map(|quota| Charge::new(quota, &key, 1)).collect();
        block_on(store.charge(&charges)).map(|counted| counted.len())
    };
    assert!(matches!(several("{prefix}:{key}:{policy}:{window}"), Err(StoreError::Uncountable(_))));
    assert_eq!(several("{prefix}:{{{key}}}:{policy}:{window}").unwrap(), 3);
}

/// What asks all servers whether they count has keys of its own, which are nobody's.
#[test]
fn every_server_of_a_cluster_is_tried_by_keys_that_nobody_has() {
    let cluster = shared_cluster(Software::Redis);
    let store = build(crate::servers::on_cluster(&cluster).layout(KeyLayout::LEETDEZINE));
    let quota = quota("probe", "5/1d");
    block_on(async {
        // Which slots a server has is known once the store is connected.
        store.peek(&[Charge::new(&quota, &("a", "b").into(), 0)]).await.unwrap();
        let keys = store.key_on_each_server(&quota);
        assert_eq!(keys.len(), 3);
        for key in &keys {
            assert_eq!(store.charge(&[Charge::new(&quota, key, 1)]).await.unwrap()[0].used(), 1);
        }
    });
    let written: Vec<String> =
        cluster.nodes().iter().flat_map(|node| node.command::<Vec<String>>(["KEYS", "user:*"])).collect();
    assert!(written.iter().all(|key| key.contains("tollgate-probe-")), "{written:?}");
}

/// Denials went by the type of a value, and keys by its text: a reset of the user `"7"` left the user 7, whose key has
/// under the same key, denied for a second more.
#[test]
fn keys_with_equal_names_share_remembered_denials() {
    let server = shared(Software::Redis);
    let store = build(store(&server).prefix("alike").layout(KeyLayout::SPRING_STARTER));
    let (quota, number, text) = (quota("any", "1/3650d"), Key::from(7_u64), Key::from("7"));
    assert_eq!(used(&store, &quota, &number, 1), 1);
    let denied = || block_on(store.charge(&[Charge::new(&quota, &number, 1)])).unwrap();
    assert!(!denied().is_admitted());
    assert_eq!(denied()[0].source(), Source::Local);
    block_on(store.reset(&Counter::new(&quota, &text))).unwrap();
    assert_eq!(used(&store, &quota, &number, 1), 1);
    assert_eq!(used(&store, &quota, &text, 0), 1);
}

/// Envoy's layout joins keys and values, so clients can choose values whose counters have one key. Such a request was
/// refused as one that can never be counted, and Envoy admits what is refused.
#[test]
fn counters_with_one_key_are_charged_as_one() {
    let server = shared(Software::Redis);
    let store = build(store(&server).prefix("one-key:").layout(KeyLayout::ENVOY_RATELIMIT));
    let (wide, tight) = (quota("any", "7/3650d"), quota("any", "5/3650d"));
    let (user, agent) = (Key::parts(["d", "user", "agent_x"]), Key::parts(["d", "user_agent", "x"]));
    let both = || {
        let charges = [Charge::new(&wide, &user, 1), Charge::new(&tight, &agent, 2)];
        block_on(store.charge(&charges)).unwrap()
    };
    let of = |counted: QuotaStates| -> Vec<(bool, u64, u32)> {
        counted.iter().map(|state| (state.has_room(), state.used(), state.units())).collect()
    };
    assert_eq!(of(both()), [(true, 3, 1), (true, 3, 2)]);
    // Six are above the lesser limit alone.
    assert_eq!(of(both()), [(true, 3, 0), (false, 3, 0)]);
    assert_eq!(used(&store, &wide, &user, 0), 3);
}

/// The same for windows of different lengths that begin at the same time.
#[test]
fn windows_that_begin_together_are_charged_as_one() {
    let server = shared(Software::Redis);
    let store = build(store(&server).prefix("begin:").layout(KeyLayout::ENVOY_RATELIMIT));
    let seconds: u64 = server.command::<Vec<String>>(["TIME"])[0].parse().unwrap();
    // The tenth window of the one and the eighth of the other.
    let fortieth = seconds / 40;
    let short = quota("any", &format!("3/{}s", 4 * fortieth));
    let long = quota("any", &format!("5/{}s", 5 * fortieth));
    let key = Key::parts(["d", "user", "alice"]);
    let both =
        || block_on(store.charge(&[Charge::new(&short, &key, 1), Charge::new(&long, &key, 1)])).unwrap();
    assert!(both().is_admitted());
    let denied = both();
    assert_eq!((denied[0].has_room(), denied[1].has_room(), denied[0].used()), (false, true, 2));
    let name = format!("begin:d_user_alice_{}", 40 * fortieth);
    let ends: u64 = server.command(["EXPIRETIME", &name]);
    assert_eq!(ends, 45 * fortieth + 1);
}
