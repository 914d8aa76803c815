//! What lies in the server for quotas that are not fixed windows.

use tollgate::{Charge, Counter, Key, PolicyQuota, Timestamp};
use tollgate_redis::{KeyIdentity, RedisError, RedisStore};
use tollgate_testkit::block_on;
use tollgate_testkit::servers::{Server, Software};
use tollgate_testkit::{StoreSteps, StoreUnderTest};

use super::{quota, stands};
use crate::servers::{build, is, shared, steered_with, store};

/// A whole minute.
const START: i64 = 1_700_000_040_000;

/// The value of a counter, and when it expires.
fn stored(server: &Server, name: &str) -> (Option<String>, i64) {
    (server.command(["GET", name]), server.command(["PEXPIRETIME", name]))
}

fn name(quota: &PolicyQuota) -> String {
    // A colon separates the parts of a name.
    format!("kinds:1:kinds:{}:{{alice}}", quota.windows().replace(':', "%3A"))
}

/// The time after the start, the cost, then the value and for how long it lives.
type ChargeAt = (i64, u32, &'static str, i64);

fn plain(builder: tollgate_redis::RedisStoreBuilder) -> tollgate_redis::RedisStoreBuilder {
    builder.prefix("kinds").identity(KeyIdentity::Plain)
}

#[test]
fn values_and_expiries_are_those_that_the_script_documents() {
    let cases: [(&str, &[ChargeAt]); 5] = [
        (
            "100/1m~burst:5",
            &[
                (0, 1, "1700000040600", 1_600),
                (0, 4, "1700000043000", 4_000),
                (3_500, 1, "1700000044100", 1_600),
            ],
        ),
        ("7/1s~burst:3", &[(0, 1, "1700000040142.8571429", 1_143), (0, 2, "1700000040428.5714286", 1_429)]),
        (
            "10/1m~sliding",
            &[
                (59_000, 3, "1700000040000 3", 62_000),
                (60_000, 1, "1700000100000 1 3", 121_000),
                (120_000, 1, "1700000160000 1 1", 121_000),
                (240_000, 2, "1700000280000 2", 121_000),
            ],
        ),
        (
            "9/1m~log",
            &[
                (0, 2, "1700000040000 2", 61_000),
                (0, 1, "1700000040000 3", 61_000),
                (10, 1, "1700000040000 3 10 1", 61_000),
                (60_000, 1, "1700000040010 1 59990 1", 61_000),
            ],
        ),
        ("5000/1h~log:1m", &[(0, 2, "28333334 2", 3_660_999), (119_999, 7, "28333334 2 1 7", 3_601_000)]),
    ];
    for software in Software::ALL {
        let store = steered_with(software, plain);
        let server = store.server();
        for (text, steps) in cases {
            let (quota, key) = (quota(text), Key::from("alice"));
            for (after, cost, value, life) in steps {
                let now = START + after;
                server.clock().set(Timestamp::from_unix_millis(now));
                let charge = [Charge::new(&quota, &key, *cost)];
                assert!(block_on(store.store().charge(&charge)).unwrap().is_admitted(), "{text} at {after}");
                let expected = (Some((*value).to_owned()), now + life);
                assert_eq!(stored(server, &name(&quota)), expected, "{software:?} {text} at {after}");
            }
            // Neither a look nor a denial writes.
            let before = stored(server, &name(&quota));
            block_on(store.store().peek(&[Charge::new(&quota, &key, 1)])).unwrap();
            block_on(store.store().charge(&[Charge::new(&quota, &key, u32::MAX)])).unwrap();
            assert_eq!(stored(server, &name(&quota)), before, "{software:?} {text}");
            block_on(store.store().reset(&Counter::new(&quota, &key))).unwrap();
            assert_eq!(stored(server, &name(&quota)), (None, -2), "{software:?} {text}");
        }
    }
}

/// Nothing is stored of a counter of which all was given back.
#[test]
fn a_counter_without_units_is_deleted() {
    let store = steered_with(Software::Redis, plain);
    for text in ["100/1m~burst:5", "10/1m~sliding", "9/1m~log", "9/1m~log:1s"] {
        let (quota, key) = (quota(text), Key::from("alice"));
        let charge = Charge::new(&quota, &key, 2);
        let charged = block_on(store.store().charge(&[charge])).unwrap()[0];
        assert_eq!(block_on(store.store().refund(&charge, charged.mark())).unwrap().units(), 2, "{text}");
        assert_eq!(stored(store.server(), &name(&quota)), (None, -2), "{text}");
        block_on(store.store().charge(&[charge])).unwrap();
        block_on(store.store().set(&Counter::new(&quota, &key), 0)).unwrap();
        assert_eq!(stored(store.server(), &name(&quota)), (None, -2), "{text}");
    }
}

#[test]
fn a_value_that_is_no_counter_fails_only_its_own_request() {
    let cases: [(&str, &[&str]); 4] = [
        ("100/1m~burst:5", &["word", "", "-5", " 7", "1.5", "1e3", "1.123456", "1234567890123456", "7 1"]),
        (
            "10/1m~sliding",
            &[
                "word",
                "",
                "7",
                "1700000040000",
                "1700000040000 -1",
                "1700000040001 1",
                "1700000040000 1000001",
                "1700000040000 1 1000001",
                "1700000040000 1 1 1",
                "1.5 1",
            ],
        ),
        (
            "9/1m~log",
            &[
                "word",
                "",
                "7",
                "1700000040000",
                "1700000040000 0",
                "1700000040000 16777216",
                "1700000040000 1 5",
                "1700000040000 1 0 1",
                "1700000040000 1  5 1",
                "1700000040000 1 5 1 ",
                " 1700000040000 1",
                "1700000040000 16777215 5 1",
                "1700000040000 -1",
                "1700000040000 1.5",
            ],
        ),
        ("9/1m~log:1s", &["1700000040 1 x", "1700000040 1 5 99999999"]),
    ];
    let store = steered_with(Software::Redis, plain);
    let server = store.server();
    server.clock().set(Timestamp::from_unix_millis(START + 30_000));
    let (good, window, [alice, bob]) = (quota("9/1h"), quota("9/1h"), ["alice", "bob"].map(Key::from));
    for (text, values) in cases {
        let quota = quota(text);
        let too_many: Vec<String> = (0..257).map(|_| "1 1".to_owned()).collect();
        let too_many = format!("1700000040000 1 {}", too_many.join(" "));
        let values = values.iter().copied().chain(text.ends_with("log").then_some(&*too_many));
        for value in values.map(Some).chain([None]) {
            match value {
                Some(value) => server.command::<()>(["SET", &name(&quota), value]),
                None => {
                    server.command::<()>(["DEL", &name(&quota)]);
                    server.command::<()>(["RPUSH", &name(&quota), "list"]);
                }
            }
            let before: i64 = server.command(["EXISTS", &name(&quota)]);
            let (one, pair) = (
                [Charge::new(&quota, &alice, 1)],
                [Charge::new(&window, &alice, 1), Charge::new(&quota, &alice, 1)],
            );
            let (others, same_kind) = ([Charge::new(&good, &bob, 1)], [Charge::new(&quota, &bob, 1)]);
            let mut answers = block_on(store.store().charge_each(&[&one, &pair, &others, &same_kind]));
            for answer in answers.drain(2..) {
                assert!(answer.unwrap().is_admitted(), "{text}: {value:?}");
            }
            answers.push(block_on(store.store().peek(&one)));
            answers.extend([
                block_on(store.store().record(&one[0])).map(|state| [state].into_iter().collect()),
                block_on(store.store().set(&Counter::new(&quota, &alice), 3))
                    .map(|state| [state].into_iter().collect()),
            ]);
            for answer in &answers {
                assert!(is(answer, RedisError::WrongType), "{text}: {value:?}: {answer:?}");
            }
            assert_eq!(block_on(store.store().peek(&pair[..1])).unwrap()[0].used(), 0, "{text}: {value:?}");
            assert_eq!(before, 1);
            // A reset heals it.
            block_on(store.store().reset(&Counter::new(&quota, &alice))).unwrap();
            assert_eq!(
                stands(&block_on(store.store().charge(&one)).unwrap()),
                [(1, true)],
                "{text}: {value:?}"
            );
            for (quota, key) in [(&quota, &alice), (&quota, &bob), (&good, &bob)] {
                block_on(store.store().reset(&Counter::new(quota, key))).unwrap();
            }
        }
    }
}

/// The value decides, so a lost expiry changes no answer. The next charge restores it, and what counts nothing any more
/// is deleted by any step.
#[test]
fn a_counter_that_lost_its_expiry_is_not_there_for_ever() {
    for software in Software::ALL {
        let store = steered_with(software, plain);
        let server = store.server();
        // With the time after which nothing counts that was charged at the start, and a second.
        for (text, life) in [
            ("100/1m~burst:5", 1_601),
            ("10/1m~sliding", 121_000),
            ("9/1m~log", 61_000),
            ("9/1m~log:7s", 63_999),
        ] {
            let (quota, key) = (quota(text), Key::from("alice"));
            let name = name(&quota);
            let at = |after| server.clock().set(Timestamp::from_unix_millis(START + after));
            let look = || block_on(store.store().peek(&[Charge::new(&quota, &key, 1)])).unwrap()[0].used();
            let charge = |cost| block_on(store.store().charge(&[Charge::new(&quota, &key, cost)])).unwrap();
            at(0);
            charge(1);
            server.command::<()>(["PERSIST", &name]);
            assert_eq!(look(), 1, "{text}");
            assert_eq!(stands(&charge(1)), [(2, true)], "{text}");
            assert!(stored(server, &name).1 > START, "{text}");
            for step in ["look", "denial", "charge"] {
                block_on(store.store().reset(&Counter::new(&quota, &key))).unwrap();
                at(0);
                charge(1);
                server.command::<()>(["PERSIST", &name]);
                at(life);
                assert_eq!(look(), 0, "{text}");
                assert_eq!(stored(server, &name).1, -1, "{text}: it would have been there for as long");
                at(life + 1);
                match step {
                    "look" => assert_eq!(look(), 0, "{text}"),
                    "denial" => assert_eq!(stands(&charge(99)), [(0, false)], "{text}"),
                    _ => assert_eq!(stands(&charge(1)), [(1, true)], "{text}"),
                }
                let expiry = stored(server, &name).1;
                assert!(
                    if step == "charge" { expiry > START + life } else { expiry == -2 },
                    "{text}: {step}"
                );
            }
        }
    }
}

/// Units that were charged ahead of a clock that has stepped back count from now, and the first step writes that, even
/// a look: otherwise the key would be held for the whole step.
#[test]
fn a_long_step_back_is_written_by_the_first_look() {
    for software in Software::ALL {
        let store = steered_with(software, plain);
        let server = store.server();
        for (text, moved) in [
            // Twice the burst.
            ("100/1m~burst:5", "1700000046000"),
            ("10/1m~sliding", "1700000040000 5"),
            ("9/1m~log", "1700000040000 5"),
            ("9/1m~log:1s", "1700000040 5"),
        ] {
            let (quota, key) = (quota(text), Key::from("alice"));
            for is_batch in [false, true] {
                server.clock().set(Timestamp::from_unix_millis(START + 3_600_000));
                for cost in [2, 3] {
                    block_on(store.store().charge(&[Charge::new(&quota, &key, cost)])).unwrap();
                    server.clock().step(7);
                }
                server.clock().set(Timestamp::from_unix_millis(START));
                let other = Key::from("bob");
                let (look, other) = ([Charge::new(&quota, &key, 0)], [Charge::new(&quota, &other, 0)]);
                if is_batch {
                    block_on(store.store().charge_each(&[&look, &other])).pop().unwrap().unwrap();
                } else {
                    block_on(store.store().peek(&look)).unwrap();
                }
                assert_eq!(stored(server, &name(&quota)).0.as_deref(), Some(moved), "{software:?} {text}");
                block_on(store.store().reset(&Counter::new(&quota, &key))).unwrap();
            }
        }
    }
}

/// The oldest entries of too many leave later, with the next one. Charges that ask for no room make them.
#[test]
fn a_log_joins_its_oldest_entries_at_256() {
    let store = steered_with(Software::Redis, plain);
    let server = store.server();
    let (quota, key) = (quota("9/1m~log"), Key::from("alice"));
    server.clock().set(Timestamp::from_unix_millis(START));
    for _ in 0..258 {
        block_on(store.store().record(&Charge::new(&quota, &key, 1))).unwrap();
        server.clock().step(10);
    }
    let (value, expiry) = stored(server, &name(&quota));
    let value = value.unwrap();
    assert!(value.starts_with("1700000040020 3 10 1 "), "{value}");
    assert_eq!((value.split(' ').count(), expiry), (512, START + 2_570 + 61_000));
    let used_at = |after: i64| {
        server.clock().set(Timestamp::from_unix_millis(START + after));
        block_on(store.store().peek(&[Charge::new(&quota, &key, 1)])).unwrap()[0].used()
    };
    assert_eq!([60_000, 60_019, 60_020, 60_030].map(used_at), [258, 258, 255, 254]);
}

#[test]
fn layouts_of_other_systems_cannot_count_other_kinds() {
    let server = shared(Software::Redis);
    let layout = || "{prefix}:{policy}:{key}:{window}".parse().unwrap();
    let store: RedisStore = build(store(&server).prefix("layout-kinds").layout(layout()));
    let key = Key::from("alice");
    for text in ["5/1m~burst", "5/1m~sliding", "5/1m~log"] {
        let (quota, window) = (quota(text), quota("5/1m"));
        let charge = Charge::new(&quota, &key, 1);
        let answers = [
            block_on(store.charge(&[charge])),
            block_on(store.charge(&[Charge::new(&window, &key, 1), charge])),
            block_on(store.peek(&[charge])),
            block_on(store.record(&charge)).map(|state| [state].into_iter().collect()),
            block_on(store.refund(&charge, tollgate::Mark::at(Timestamp::EPOCH)))
                .map(|state| [state].into_iter().collect()),
        ];
        for answer in answers {
            assert!(matches!(answer, Err(tollgate::StoreError::Uncountable(_))), "{text}: {answer:?}");
        }
    }
    assert_eq!(server.command::<Vec<String>>(["KEYS", "layout-kinds:*"]), [""; 0]);
    // The service says so when it starts.
    assert!(tollgate_redis::KeyLayout::LEETDEZINE.validate(quota("5/1m~log").quota()).is_err());
}
