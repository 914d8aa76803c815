//! Published systems and Tollgate on one server: each takes its own steps, as its documents say, and both share one
//! count. The research behind the numbers is in `examples/seeds/PARITY.md`.

use std::time::Duration;

use tollgate::{Charge, CountDenied, Key, PolicyQuota, Quota};
use tollgate_redis::{KeyLayout, RedisStore};
use tollgate_testkit::StoreSteps as _;
use tollgate_testkit::block_on;
use tollgate_testkit::servers::published::{
    PublishedSteps, PublishedWindow, envoy_ratelimit, hammer, leetdezine, rlaas, rlaas_script,
    spring_starter, user_rate_limit,
};
use tollgate_testkit::servers::{Server, ServerConnection, Software};

use crate::servers::{build, on_cluster, shared, shared_cluster, store};

const LONG: Duration = Duration::from_secs(3_650 * 86_400);

/// A system, and the settings of a Tollgate that shares its keys.
struct System {
    layout: KeyLayout,
    prefix: &'static str,
    steps: PublishedSteps,
    /// The key of a user, where the system has the user's name.
    key: fn(&str) -> Key<'_>,
    software: Software,
}

fn systems() -> Vec<System> {
    let plain = |layout, steps: PublishedSteps, software| System {
        layout,
        prefix: "ratelimiter",
        steps,
        key: |user| Key::from(user),
        software,
    };
    vec![
        plain(KeyLayout::RLAAS, rlaas, Software::Redis),
        System {
            key: |user| Key::from(format!("user:{user}")),
            ..plain(KeyLayout::SPRING_STARTER, spring_starter, Software::Redis)
        },
        System {
            key: |user| Key::from((user, "/search")),
            ..plain(KeyLayout::LEETDEZINE, leetdezine, Software::Redis)
        },
        plain(KeyLayout::USER_RATE_LIMIT, user_rate_limit, Software::Valkey),
        System {
            prefix: "",
            key: |user| Key::parts(["shop", "user", user]),
            ..plain(KeyLayout::ENVOY_RATELIMIT, envoy_ratelimit, Software::Redis)
        },
        // It has no name here: the template says it all.
        plain("{prefix}:{key}:{window}".parse().unwrap(), hammer, Software::Redis),
    ]
}

impl System {
    fn store(&self, server: &Server) -> RedisStore {
        build(store(server).prefix(self.prefix).layout(self.layout.clone()))
    }

    /// Whether the published system admits a request, by what it has counted then.
    fn admits(&self, server: &Server, connection: &mut ServerConnection, user: &str, quota: &Quota) -> bool {
        let tollgate::WindowLength::Fixed(length) = quota.window() else { panic!("a calendar") };
        (self.steps)(connection, user, PublishedWindow::now(server, length)) <= quota.limit()
    }
}

/// In windows of ten years, so that none ends in the middle of a test.
fn long(limit: u32) -> Quota {
    Quota::new(limit.into(), LONG).unwrap()
}

/// As those systems count: denials as well.
fn attempts(quota: Quota) -> PolicyQuota {
    PolicyQuota::new("attempts", quota).with_count_denied(CountDenied::Yes)
}

/// One request: whether Tollgate admits it, and what is counted then.
fn check(store: &RedisStore, quota: &PolicyQuota, key: &Key<'_>) -> (bool, u64) {
    let counted = block_on(store.charge(&[Charge::new(quota, key, 1)])).unwrap();
    (counted.is_admitted(), counted[0].used())
}

/// In turn, whoever begins: the fifth of five is admitted, the sixth is not, and both count every attempt.
#[test]
fn side_by_side_they_share_one_count() {
    for system in systems() {
        let server = shared(system.software);
        let (store, mut connection) = (system.store(&server), server.connection());
        let quota = attempts(long(5));
        for (user, tollgate_begins) in [("alice", true), ("bob", false)] {
            let user = format!("{user}-{}", std::process::id());
            let key = (system.key)(&user);
            for attempt in 1..=8_u64 {
                let is_admitted = if tollgate_begins == (attempt % 2 == 1) {
                    let (is_admitted, used) = check(&store, &quota, &key);
                    assert_eq!(used, attempt, "{}", system.layout);
                    is_admitted
                } else {
                    system.admits(&server, &mut connection, &user, quota.quota())
                };
                assert_eq!(is_admitted, attempt <= 5, "{}: attempt {attempt}", system.layout);
            }
        }
        expect_expiry(&server, &system.layout);
    }
}

/// No key without an expiry, whoever made it.
fn expect_expiry(server: &Server, layout: &KeyLayout) {
    let keys: Vec<String> = server.command(["KEYS", "*"]);
    for key in keys {
        assert_ne!(server.command::<i64>(["PTTL", &key]), -1, "{layout}: {key}");
    }
}

/// Eight of each at once: together exactly the limit, and every attempt is counted.
#[test]
fn racing_they_admit_exactly_the_limit() {
    const THREADS: u64 = 8;
    const TURNS: u64 = 50;
    const LIMIT: u32 = 333;
    for system in systems() {
        let server = shared(system.software);
        let (store, quota) = (system.store(&server), attempts(long(LIMIT)));
        let user = format!("racer-{}", std::process::id());
        let key = (system.key)(&user);
        let admitted: u64 = std::thread::scope(|scope| {
            let ours = || (0..TURNS).filter(|_| check(&store, &quota, &key).0).count() as u64;
            let theirs = || {
                let mut connection = server.connection();
                let admits = |_: &u64| system.admits(&server, &mut connection, &user, quota.quota());
                (0..TURNS).filter(admits).count() as u64
            };
            let (ours, theirs): (Vec<_>, Vec<_>) =
                (0..THREADS).map(|_| (scope.spawn(ours), scope.spawn(theirs))).unzip();
            ours.into_iter().chain(theirs).map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(admitted, u64::from(LIMIT), "{}", system.layout);
        let counted = block_on(store.peek(&[Charge::new(&quota, &key, 0)])).unwrap()[0].used();
        assert_eq!(counted, 2 * THREADS * TURNS, "{}", system.layout);
    }
}

/// Where Tollgate does not count denials, those systems still admit nobody beyond the limit.
#[test]
fn a_denial_that_we_do_not_count_lets_nobody_in() {
    for system in systems() {
        let server = shared(system.software);
        let (store, mut connection) = (system.store(&server), server.connection());
        let quota = PolicyQuota::new("admissions", long(2));
        let user = format!("carol-{}", std::process::id());
        let key = (system.key)(&user);
        let admitted = [
            check(&store, &quota, &key).0,
            system.admits(&server, &mut connection, &user, quota.quota()),
            check(&store, &quota, &key).0,
            check(&store, &quota, &key).0,
            system.admits(&server, &mut connection, &user, quota.quota()),
        ];
        assert_eq!(admitted, [true, true, false, false, false], "{}", system.layout);
    }
}

/// Fifty at once of a limit of 20, the starter's own test.
#[test]
fn exactly_twenty_of_fifty_concurrent_requests_are_admitted() {
    let server = shared(Software::Redis);
    let store = &build(store(&server).prefix("ratelimiter").layout(KeyLayout::SPRING_STARTER));
    let (quota, key) = (&attempts(long(20)), &Key::from("global:fifty"));
    let admitted = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..50).map(|_| scope.spawn(move || check(store, quota, key).0)).collect();
        callers.into_iter().map(|caller| u64::from(caller.join().unwrap())).sum::<u64>()
    });
    assert_eq!(admitted, 20);
}

/// RLaaS on a cluster of three: its script names a key that it was not asked with, and is refused wherever another
/// server has that key. The same counters, named before they are asked, are counted wherever they lie.
#[test]
fn counts_keys_on_a_cluster_for_which_the_other_script_fails() {
    let cluster = shared_cluster(Software::Redis);
    let store = build(on_cluster(&cluster).layout(KeyLayout::RLAAS));
    let quota = attempts(long(5));
    let (mut users, mut refused, mut taken) = (0.., 0, 0);
    while refused < 3 || taken < 2 {
        let user = format!("user-{}-{}", users.next().unwrap(), std::process::id());
        let key = Key::from(&user);
        for attempt in 1..=6 {
            assert_eq!(check(&store, &quota, &key), (attempt <= 5, attempt), "{user}");
        }
        let window = block_on(store.peek(&[Charge::new(&quota, &key, 0)])).unwrap()[0].window().unwrap();
        let declared = format!("rlaas:rate_limit:{user}");
        let used = format!("{declared}:{}", window.start().as_unix_millis() / millis(LONG));
        let [asked, holder] = [&declared, &used].map(|name| cluster.primary_of(cluster.slot_of(name)));
        let answer = rlaas_script(&mut asked.connection(), &declared, millis(LONG) / 1_000);
        if asked.address() == holder.address() {
            assert!(matches!(answer, Ok((0, 7, _))), "{answer:?}");
            taken += 1;
        } else {
            assert!(answer.is_err(), "{answer:?}");
            assert_eq!(holder.command::<u64>(["GET", &used]), 6);
            refused += 1;
        }
    }
}

fn millis(length: Duration) -> i64 {
    i64::try_from(length.as_millis()).unwrap()
}
