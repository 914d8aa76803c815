//! What lies in the server: counts that can be read, keys that expire, and nothing that fails more than its own.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use crate::servers::is;
use tollgate::{Charge, CountDenied, Counter, Key, PolicyQuota, Quota, QuotaState, Source, StoreError};
use tollgate_redis::RedisError;
use tollgate_redis::{IdentitySecret, KeyIdentity, KeyLayout, RedisStore, SettingsError};
use tollgate_testkit::StoreSteps;
use tollgate_testkit::block_on;
use tollgate_testkit::servers::{Server, Settings, Software};

use crate::servers::{build, shared, store};

fn quota(text: &str) -> PolicyQuota {
    PolicyQuota::new("login", text.parse().unwrap())
}

/// All keys under the prefix, with their counts and their expiry in Unix milliseconds.
fn stored(server: &Server, prefix: &str) -> HashMap<String, (u64, i64)> {
    let keys: Vec<String> = server.command(["KEYS", &format!("{prefix}:*")]);
    let look = |key: String| {
        let count = server.count(&key).unwrap();
        let expiry = server.command(["PEXPIRETIME", &key]);
        (key, (count, expiry))
    };
    keys.into_iter().map(look).collect()
}

/// A key without an expiry is never gone, and its owner never gets in again.
pub(crate) fn assert_everything_expires(server: &Server) {
    for key in server.command::<Vec<String>>(["KEYS", "*"]) {
        let expiry: i64 = server.command(["PEXPIRETIME", &key]);
        assert!(expiry == -2 || expiry > server.time().as_unix_millis() - 1_000, "{key} expires at {expiry}");
    }
}

#[test]
fn a_counter_is_an_integer_that_outlives_its_window_by_a_second() {
    let server = shared(Software::Redis);
    let store = build(store(&server).prefix("storage"));
    let (quota, key) = (quota("5/1h"), Key::from("alice"));
    let counted = block_on(store.charge(&[Charge::new(&quota, &key, 3)])).unwrap();
    let window = counted[0].window().unwrap();
    let expiry = window.end().as_unix_millis() + 1_000;
    let name = "storage:1:login:1h:{xXvTx0caa3RWc8NUkisk5w}";
    assert_eq!(stored(&server, "storage"), HashMap::from([(name.to_owned(), (3, expiry))]));
    let number = window.start().as_unix_millis() / 3_600_000 % 899 + 1;
    assert_eq!(server.command::<String>(["GET", name]), format!("{number}0000000000003"));
}

/// Numbers of shorter windows would soon repeat.
#[test]
fn only_a_window_of_a_second_or_more_on_a_grid_has_a_number() {
    let server = shared(Software::Redis);
    for (place, (text, has_number)) in [
        ("5/999ms", false),
        ("5/1s", true),
        ("5/1m@staggered", true),
        ("5/1h@first_hit", false),
        ("5/day@Europe/Berlin", false),
    ]
    .into_iter()
    .enumerate()
    {
        let prefix = format!("numbered-{place}");
        let store = build(store(&server).prefix(&prefix));
        let (quota, key) = (quota(text), Key::from("alice"));
        block_on(store.charge(&[Charge::new(&quota, &key, 3)])).unwrap();
        let (name, (count, _)) = stored(&server, &prefix).into_iter().next().unwrap();
        let value: u64 = server.command(["GET", &name]);
        assert_eq!((count, value != count), (3, has_number), "{text}");
    }
}

/// A command costs the server about as much as the rest of the script.
#[test]
fn a_counter_is_charged_by_one_command_and_one_more_tells_the_time() {
    for software in Software::ALL {
        let server = Server::start(software);
        let store = build(store(&server));
        block_on(store.warm_up(Duration::from_secs(5))).unwrap();
        let quota = quota("1000/30d");
        let keys: Vec<Key<'_>> = (0..100_u64).map(Key::from).collect();
        let charges: Vec<[Charge<'_>; 1]> = keys.iter().map(|key| [Charge::new(&quota, key, 1)]).collect();
        let together: Vec<&[Charge<'_>]> = charges.iter().map(|charge| &charge[..]).collect();
        let calls = |command: &str| {
            let stats: String = server.command(["INFO", "commandstats"]);
            let stats =
                stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
            stats.map_or(0, |stats| stats.split(',').next().unwrap().parse::<u64>().unwrap())
        };
        let commands = || ["incrby", "pttl", "pexpiretime", "get", "set", "time"].map(calls);
        let made = |charge: &dyn Fn()| {
            let (begun, before) = (server.time(), commands());
            charge();
            let made: Vec<u64> = commands().iter().zip(before).map(|(now, then)| now - then).collect();
            // Once a second, the server is asked for its time.
            (made, server.time().since(begun).as_secs() + 1)
        };
        let charge_together = || {
            assert!(block_on(store.charge_each(&together)).into_iter().all(|it| it.unwrap().is_admitted()));
        };
        let charge_alone = || {
            for charge in &charges {
                assert!(block_on(store.charge(charge)).unwrap().is_admitted());
            }
        };
        charge_together();
        let (made_alone, asked) = made(&charge_alone);
        let [incrby, pttl, pexpiretime, rest @ ..] = &made_alone[..] else { unreachable!() };
        assert_eq!((*incrby, *pttl, rest), (100, 100, &[0; 3][..]), "{software:?}");
        assert!(*pexpiretime <= asked, "{software:?}: {pexpiretime}");
        let (made_together, _) = made(&charge_together);
        // Once for each batch.
        let [incrby, pttl, pexpiretime, rest @ ..] = &made_together[..] else { unreachable!() };
        assert_eq!((*incrby, rest), (100, &[0; 3][..]), "{software:?}");
        assert!(*pttl + *pexpiretime < 50, "{software:?}: {made_together:?}");
    }
}

/// No expiry, and one that the script could not read to the millisecond.
#[test]
fn a_key_that_lost_its_expiry_gets_it_back_and_keeps_its_count() {
    for (software, step) in Software::ALL.into_iter().flat_map(|it| [(it, 1), (it, 9), (it, 0)]) {
        let server = shared(software);
        for (place, text) in ["5/1h", "5/1h@first_hit", "5/day@Europe/Berlin"].into_iter().enumerate() {
            for lost in [&["PERSIST"][..], &["PEXPIREAT", "9223372036854775807"]] {
                let prefix = format!("repair-{step}-{place}-{}", lost[0]);
                let store = build(store(&server).prefix(&prefix));
                let (quota, key) = (quota(text), Key::from("alice"));
                block_on(store.charge(&[Charge::new(&quota, &key, 3)])).unwrap();
                for (name, _) in stored(&server, &prefix) {
                    server.command::<()>([lost[0], &name].into_iter().chain(lost[1..].iter().copied()));
                }
                let before = server.time();
                let counted = block_on(store.charge(&[Charge::new(&quota, &key, step)])).unwrap();
                assert!((before..=server.time()).contains(&counted[0].now()), "{text}: {counted:?}");
                assert_eq!(counted[0].used(), if step == 1 { 4 } else { 3 }, "{text}");
                assert!(counted[0].window().unwrap().contains(counted[0].now()), "{text}");
                let expiry = counted[0].window().unwrap().end().as_unix_millis() + 1_000;
                let repaired: Vec<(u64, i64)> = stored(&server, &prefix).into_values().collect();
                assert_eq!(repaired, [(counted[0].used(), expiry)], "{text}");
            }
        }
    }
}

/// `MIGRATE` moves the remaining life of a key, so by the clock of another server it expires too early or too late.
/// What was used was forgotten before the window's end, or carried into the next one.
#[test]
fn a_counter_whose_expiry_is_off_stays_in_its_window() {
    for software in Software::ALL {
        let server = Settings::new(software).steered_clock().start();
        for (place, text) in ["5/1h", "5/1h@staggered"].into_iter().enumerate() {
            for (what, off, later, used) in [
                ("early", Some(-300), -200, 5),
                ("late", Some(300), 100, 1),
                ("by-a-window", Some(3_600_000), 100, 1),
                ("by-more", Some(3_600_300), 100, 1),
                ("never", None, 100, 1),
            ] {
                // Alone, and not the first of a batch.
                for keys in [&["b"][..], &["a", "b"]] {
                    let case = format!("{software:?} {text} {what} {keys:?}");
                    let prefix = format!("off-{place}-{what}-{}", keys.len());
                    let process = || build(store(&server).prefix(&prefix).identity(KeyIdentity::Plain));
                    let quota = quota(text);
                    let keys: Vec<Key<'_>> = keys.iter().map(|key| Key::from(*key)).collect();
                    let last = keys.last().unwrap();
                    let end = quota.quota().window_at(last, server.time()).end();
                    server.clock().set(end - Duration::from_millis(1_500));
                    let charge = |store: &RedisStore, units| {
                        let charges: Vec<[Charge<'_>; 1]> =
                            keys.iter().map(|key| [Charge::new(&quota, key, units)]).collect();
                        let together: Vec<&[Charge<'_>]> = charges.iter().map(|it| &it[..]).collect();
                        block_on(store.charge_each(&together)).pop().unwrap().unwrap()[0]
                    };
                    assert_eq!(charge(&process(), 4).used(), 4, "{case}");
                    let name =
                        stored(&server, &prefix).into_keys().find(|name| name.contains("{b}")).unwrap();
                    let expiry = (end.as_unix_millis() + 1_000).saturating_add(off.unwrap_or(0)).to_string();
                    match off {
                        Some(_) => server.command::<()>(["PEXPIREAT", &name, &expiry]),
                        None => server.command::<()>(["PERSIST", &name]),
                    }
                    let by = Duration::from_millis(i64::unsigned_abs(later));
                    server.clock().set(if later < 0 { end - by } else { end + by });
                    let other = process();
                    assert_eq!(charge(&other, 1).used(), used, "{case}");
                    let denied = charge(&other, 5);
                    assert_eq!((denied.has_room(), denied.used()), (false, used), "{case}");
                }
            }
        }
    }
}

/// A counter that is new in a batch is created before it gets its expiry.
#[test]
fn a_new_counter_that_cannot_get_an_expiry_is_not_left_behind() {
    for software in Software::ALL {
        let server = Settings::new(software).user("counter", "s3cret", "~* +@all").start();
        let url = format!("redis://counter:s3cret@{}", server.address());
        let store = build(RedisStore::builder(url.parse().unwrap()).identity(KeyIdentity::Plain));
        let quota = quota("50/30d");
        let keys = ["a", "b", "c"].map(Key::from);
        let charges = keys.each_ref().map(|key| [Charge::new(&quota, key, 1)]);
        let together = charges.each_ref().map(|charge| &charge[..]);
        block_on(store.charge(together[0])).unwrap();
        server.command::<()>(["ACL", "SETUSER", "counter", "-set"]);
        // The script stops at the first of the two new ones.
        let answers = block_on(store.charge_each(&together));
        let may_have_charged =
            |answer: &Result<_, StoreError>| answer.as_ref().err().is_some_and(StoreError::may_have_charged);
        assert!(answers.iter().any(may_have_charged), "{software:?}: {answers:?}");
        assert_eq!(server.command::<u64>(["DBSIZE"]), 1, "{software:?}");
        assert_everything_expires(&server);
    }
}

/// No window of the quota ends then. It is no later window that the counter would stay in after a step back.
#[test]
fn an_expiry_between_two_windows_is_mended() {
    let server = shared(Software::Redis);
    for (place, text) in ["5/1h", "5/1h@staggered", "5/day@Europe/Berlin"].into_iter().enumerate() {
        let prefix = format!("between-{place}");
        let store = build(store(&server).prefix(&prefix));
        let (quota, key) = (quota(text), Key::from("alice"));
        let window = block_on(store.charge(&[Charge::new(&quota, &key, 3)])).unwrap()[0].window().unwrap();
        let name = stored(&server, &prefix).into_keys().next().unwrap();
        server.command::<()>(["PEXPIREAT", &name, &(window.end().as_unix_millis() + 1_500).to_string()]);
        let counted = block_on(store.peek(&[Charge::new(&quota, &key, 1)])).unwrap()[0];
        assert_eq!((counted.used(), counted.window().unwrap()), (3, window), "{text}");
        let expiry = window.end().as_unix_millis() + 1_000;
        assert_eq!(stored(&server, &prefix)[&name], (3, expiry), "{text}");
    }
}

/// From a plain digest, whoever could read the store found every IPv4 address within minutes.
#[test]
fn a_digest_with_a_secret_names_nobody_to_those_who_do_not_have_it() {
    let server = shared(Software::Redis);
    let keyed = |secret: &[u8]| KeyIdentity::Keyed(IdentitySecret::new(secret).unwrap());
    let (ours, others) = (keyed(b"0123456789abcdef0123456789abcdef"), keyed(&[7; 32]));
    let (quota, key) = (quota("5/1h"), Key::from("alice"));
    let charge = |identity: &KeyIdentity| {
        let store = build(store(&server).prefix("keyed").identity(identity.clone()));
        block_on(store.charge(&[Charge::new(&quota, &key, 1)])).unwrap()[0].used()
    };
    let used = [&ours, &ours, &others, &KeyIdentity::Digest].map(charge);
    assert_eq!(used, [1, 2, 1, 1], "another secret means other counters");
    let names: BTreeSet<String> = stored(&server, "keyed").into_keys().collect();
    let of = |identity: &KeyIdentity| format!("keyed:1:login:1h:{{{}}}", identity.digest_of(&key));
    assert_eq!(names, BTreeSet::from([of(&ours), of(&others), of(&KeyIdentity::Digest)]));

    let shown = || store(&server).identity(ours.clone()).layout(KeyLayout::RLAAS);
    let (built, found) = (block_on(async { shown().build().err() }), shown().validate().err());
    for error in [built, found] {
        assert!(matches!(error, Some(SettingsError::NeedlessIdentitySecret)), "{error:?}");
    }
}

#[test]
fn a_value_that_is_no_count_fails_only_its_own_request() {
    let server = shared(Software::Redis);
    let store = build(store(&server).prefix("foreign").identity(KeyIdentity::Plain));
    let (quota, wide) = (quota("5/1h"), quota("9/2h"));
    let foreign = ["word", "1.5", "07", "-5", "99999999999999", "1e3", "0x1f", " 1", ""];
    let keys: Vec<Key<'_>> = (0..=foreign.len() as u64).map(Key::from).collect();
    let good = Key::from("good");
    let name = |number: usize| format!("foreign:1:login:1h:{{#{number}}}");
    for (number, value) in foreign.into_iter().enumerate() {
        server.command::<()>(["SET", &name(number), value]);
    }
    server.command::<()>(["RPUSH", &name(foreign.len()), "list"]);

    let foreign: Vec<[Charge<'_>; 1]> = keys.iter().map(|key| [Charge::new(&quota, key, 1)]).collect();
    // All or nothing: where one counter cannot be read, the other is not charged.
    let pair = [Charge::new(&wide, &good, 1), Charge::new(&quota, &keys[0], 1)];
    let one = [Charge::new(&quota, &good, 1)];
    let mut requests: Vec<&[Charge<'_>]> = foreign.iter().map(|charge| &charge[..]).collect();
    requests.extend([&one[..], &pair, &one]);
    let mut answers = block_on(store.charge_each(&requests));
    let good: Vec<_> =
        [answers.pop(), answers.swap_remove(keys.len()).into()].into_iter().flatten().collect();
    assert!(good.iter().all(|answer| answer.as_ref().unwrap().is_admitted()), "{good:?}");
    assert!(answers.iter().all(|answer| is(answer, RedisError::WrongType)), "{answers:?}");
    assert_eq!(block_on(store.peek(&pair[..1])).unwrap()[0].used(), 0);

    for key in &keys {
        assert!(is(&block_on(store.peek(&[Charge::new(&quota, key, 1)])), RedisError::WrongType));
        // A reset heals it.
        block_on(store.reset(&Counter::new(&quota, key))).unwrap();
        assert_eq!(block_on(store.charge(&[Charge::new(&quota, key, 1)])).unwrap()[0].used(), 1);
    }
}

/// What reads like a count and cannot be added to has to be seen before the other counter is written: also where it
/// expires as a counter of ours does, so that nothing else is wrong with it.
#[test]
fn a_count_that_is_spelt_otherwise_charges_no_quota_of_its_request() {
    let server = shared(Software::Redis);
    let store = build(store(&server).prefix("spelt"));
    let (quota, wide, key) = (quota("5/1h"), quota("9/2h"), Key::from("alice"));
    let pair = [Charge::new(&wide, &key, 1), Charge::new(&quota, &key, 1)];
    block_on(store.charge(&pair)).unwrap();
    let name = stored(&server, "spelt").into_keys().find(|name| name.contains(":1h:")).unwrap();
    // The script adds to the last four before it sees that they are no counts, and takes that back.
    let others = ["-5", "99999999999999", "9007199254740993", "-9223372036854775808"];
    for text in ["01", "1e0", "0x1", " 1", "1.0", "9223372036854775807"].into_iter().chain(others) {
        server.command::<()>(["SET", &name, text, "KEEPTTL"]);
        for charges in [&pair[..], &pair[1..]] {
            assert!(is(&block_on(store.charge(charges)), RedisError::WrongType), "{text}");
        }
        assert_eq!(server.command::<String>(["GET", &name]), text);
        assert_eq!(block_on(store.peek(&pair[..1])).unwrap()[0].used(), 1, "{text}");
    }
}

#[test]
fn two_stores_on_one_server_share_counts() {
    for software in Software::ALL {
        let server = shared(software);
        let stores = &[0, 1].map(|_| build(store(&server).prefix("shared")));
        let (quota, key) = (quota("1000/1h"), Key::from("alice"));
        let charge = &[Charge::new(&quota, &key, 1)];
        let ask = &|store: &RedisStore| {
            let many: Vec<&[Charge<'_>]> = (0..500).map(|_| &charge[..]).collect();
            let answers = block_on(store.charge_each(&many));
            answers.into_iter().filter(|answer| answer.as_ref().unwrap().is_admitted()).count()
        };
        let admitted: usize = std::thread::scope(|scope| {
            let askers: Vec<_> = (0..4).map(|turn| scope.spawn(move || ask(&stores[turn % 2]))).collect();
            askers.into_iter().map(|asker| asker.join().unwrap()).sum()
        });
        assert_eq!(admitted, 1_000, "{software:?}");
        assert_eq!(block_on(stores[0].peek(charge)).unwrap()[0].used(), 1_000);
    }
}

#[test]
fn a_prefix_of_its_own_means_counters_of_its_own() {
    let server = shared(Software::Redis);
    let (quota, key) = (quota("5/1h"), Key::from("alice"));
    let (one, other) = (build(store(&server).prefix("one:1")), build(store(&server).prefix("one")));
    let charge = [Charge::new(&quota, &key, 2)];
    assert_eq!(block_on(one.charge(&charge)).unwrap()[0].used(), 2);
    assert_eq!(block_on(other.charge(&charge)).unwrap()[0].used(), 2);
}

#[test]
fn a_denied_key_is_answered_locally_and_asked_again_each_second() {
    let server = shared(Software::Redis);
    let local = build(store(&server).prefix("denied"));
    let elsewhere = build(store(&server).prefix("denied"));
    let (quota, key) = (quota("5/1h"), Key::from("alice"));
    let full = [Charge::new(&quota, &key, 5)];
    let one = [Charge::new(&quota, &key, 1)];
    let mark = block_on(local.charge(&full)).unwrap()[0].mark();
    let denied = block_on(local.charge(&one)).unwrap()[0];
    assert_eq!((denied.has_room(), denied.source()), (false, Source::Store));
    // Whoever comes a second later is not the next one, and this machine may stand still for as long.
    let mut next = (0..20).map(|_| block_on(local.charge(&one)).unwrap()[0]);
    let again = next.find(|again| again.source() == Source::Local).expect("a denial that is remembered");
    assert_eq!((again.has_room(), again.used()), (false, 5));
    assert_eq!(again.window().unwrap(), denied.window().unwrap());

    // Whoever gives back here is not denied from memory.
    block_on(local.refund(&Charge::new(&quota, &key, 1), mark)).unwrap();
    assert!(block_on(local.charge(&one)).unwrap().is_admitted());

    // What another process gives back is seen within a second.
    assert!(!block_on(local.charge(&one)).unwrap().is_admitted());
    block_on(elsewhere.refund(&Charge::new(&quota, &key, 1), mark)).unwrap();
    // Real time: a denial is remembered for a second of it.
    block_on(async { tokio::time::sleep(Duration::from_millis(1_001)).await });
    assert!(block_on(local.charge(&one)).unwrap().is_admitted());
}

/// Replicas are sent what a step writes. A key that goes on asking is no burden to them.
#[test]
fn a_denial_that_is_renewed_writes_nothing() {
    for software in Software::ALL {
        let server = Server::start(software);
        let store = build(store(&server));
        let (quota, key) = (quota("5/1h"), Key::from("alice"));
        block_on(store.charge(&[Charge::new(&quota, &key, 5)])).unwrap();
        let one = [Charge::new(&quota, &key, 1)];
        let denied = || block_on(store.charge(&one)).unwrap()[0];
        assert_eq!(denied().source(), Source::Store);
        let written = || server.info("rdb_changes_since_last_save");
        let before = written();
        assert_eq!(denied().source(), Source::Local);
        let renewal = (0..1_000).find_map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            Some(denied()).filter(|denied| denied.source() == Source::Store)
        });
        assert!(renewal.is_some(), "it is never renewed");
        assert_eq!((written(), denied().used()), (before, 5), "{software:?}");
    }
}

/// Units of a denial that counts were taken, given back and taken again: three writes for replicas.
#[test]
fn a_denial_that_counts_is_one_write() {
    let server = Server::start(Software::Redis);
    let store = build(store(&server));
    let (quota, key) = (quota("5/1h").with_count_denied(CountDenied::Yes), Key::from("alice"));
    block_on(store.charge(&[Charge::new(&quota, &key, 5)])).unwrap();
    let written = || server.info("rdb_changes_since_last_save").parse::<u64>().unwrap();
    let before = written();
    let denied = block_on(store.charge(&[Charge::new(&quota, &key, 2)])).unwrap()[0];
    assert_eq!((denied.has_room(), denied.used(), written() - before), (false, 7, 1));
}

/// A denial that is remembered after a step back is one of the counter's window, which has not begun, and its wait
/// lasts to the end of that.
#[test]
fn a_denial_after_a_step_back_is_repeated_for_the_window_that_is_to_come() {
    let server = Settings::new(Software::Redis).steered_clock().start();
    let store = build(store(&server));
    let (quota, key) = (quota("5/1m"), Key::from("alice"));
    let one = [Charge::new(&quota, &key, 1)];
    let start = quota.quota().window_at(&key, server.time()).end();
    server.clock().set(start);
    let window = block_on(store.charge(&[Charge::new(&quota, &key, 5)])).unwrap()[0].window().unwrap();
    server.clock().set(start - Duration::from_secs(1));
    let mut denials = (0..20).map(|_| block_on(store.charge(&one)).unwrap()[0]);
    for source in [Source::Store, Source::Local] {
        let denied = denials.find(|denied| denied.source() == source).expect("a denial by each");
        assert_eq!(
            (denied.has_room(), denied.used(), denied.window().unwrap()),
            (false, 5, window),
            "{source:?}"
        );
        assert_eq!(denied.retry_after(), Some(window.end().since(denied.now())), "{source:?}");
        assert!(denied.now() >= start - Duration::from_secs(1), "{source:?}");
    }
}

/// A counter stops at 2^40 - 1. What it had no room for was said to be taken too, so a refund by the receipt gave back
/// more than the check had taken.
#[test]
fn a_counter_that_saturates_says_what_it_took() {
    let server = shared(Software::Redis);
    let store = build(store(&server).prefix("saturated"));
    let (quota, key) = (quota("5/365d").with_count_denied(CountDenied::Yes), Key::from("alice"));
    let leave_room_for_three = || {
        let set = block_on(store.set(&Counter::new(&quota, &key), Quota::MAX_LIMIT - 3)).unwrap();
        assert_eq!(set.used(), Quota::MAX_LIMIT - 3);
    };
    for (costs, units) in [(&[5][..], &[3][..]), (&[2, 2], &[2, 1]), (&[3, 2], &[3, 0]), (&[1, 1], &[1, 1])] {
        leave_room_for_three();
        let charges: Vec<_> = costs.iter().map(|cost| Charge::new(&quota, &key, *cost)).collect();
        let charged = block_on(store.charge(&charges)).unwrap();
        assert_eq!(charged.iter().map(QuotaState::units).collect::<Vec<_>>(), units, "{costs:?}");
    }
    leave_room_for_three();
    assert_eq!(block_on(store.record(&Charge::new(&quota, &key, 5))).unwrap().units(), 3);
}
