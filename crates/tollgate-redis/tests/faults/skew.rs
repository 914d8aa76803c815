//! The servers of a Cluster do not have the same time.

use std::thread;
use std::time::Duration;

use tollgate::{Charge, Key, PolicyQuota, QuotaState};
use tollgate_redis::{KeyIdentity, KeyLayout, RedisStore};
use tollgate_testkit::StoreSteps;
use tollgate_testkit::block_on;
use tollgate_testkit::servers::{Cluster, Settings};

use crate::cluster::{primaries, url};
use crate::crowd::{build, builder, patient};
use crate::fault::{Fault, Found, Round};
use crate::ledger;

/// Clocks that are up to 30 hours apart, with every anchor and layout, while connections are cut.
pub(crate) const SKEW: Fault = Fault { name: "skew", round: skew };

#[test]
fn servers_with_times_of_their_own_count_by_them() {
    SKEW.test(1);
}

const QUOTAS: [&str; 7] = [
    "1000/1h",
    "1000/1h@staggered",
    "1000/1h@first_hit",
    "1000/day@Europe/Berlin",
    "1000/week@America/New_York",
    "1000/month@UTC",
    "1000/year@Asia/Tokyo",
];

/// Each form of a window, and the pattern of the keys. The braces keep the keys of one caller on one server.
const LAYOUTS: [(&str, &str); 3] = [
    ("skew:{{{user}}}:{windows}:{window}", "skew:{USER}:WINDOWS:*"),
    ("at:{window_start}:{windows}:{{{user}}}", "at:*:WINDOWS:{USER}"),
    ("skew:{windows}:{{{user}}}:{window_start_ms}", "skew:WINDOWS:{USER}:*"),
];

/// A layout counts windows from the epoch.
const OF_LAYOUTS: [(&str, &str); 2] = [("1000/1h", "1h"), ("1000/1d", "1d")];

/// Counters of each quota, on all servers.
const KEYS: usize = 9;

const CHARGES: u32 = 30;

/// What one caller charges.
struct Counted {
    store: RedisStore,
    quota: PolicyQuota,
    /// The pattern of the names in the servers, in which `USER` stands for the key.
    names: String,
}

/// What one caller saw, and for each key the last answer and the number of charges of unknown outcome after it.
struct Watched {
    found: Found,
    last: Vec<Option<QuotaState>>,
    unknown: [u64; KEYS],
}

/// A Cluster whose servers have times of their own, and in which none is called away for that.
pub(crate) fn skewed(round: &mut Round) -> Cluster {
    let cluster = Cluster::with(&Settings::new(round.software()).steered_clock()).calm();
    for node in cluster.nodes() {
        // By their own clocks, the others have been away for hours.
        node.command::<()>(["CONFIG", "SET", "cluster-node-timeout", "1000000000"]);
    }
    for node in primaries(&cluster) {
        node.clock().step(round.rng.i64(-30 * 3_600_000..30 * 3_600_000));
    }
    cluster
}

fn skew(round: &mut Round) {
    let cluster = skewed(round);
    let url = url(&cluster);
    let plain = builder(&url).deadline(Duration::from_millis(200)).identity(KeyIdentity::Plain);
    let plain = build(plain);
    let own = |(number, text): (usize, &&str)| {
        let policy = format!("skew-{number}");
        let names = format!("tollgate:1:{policy}:*:{{USER}}");
        Counted { store: plain.clone(), quota: PolicyQuota::new(&policy, text.parse().unwrap()), names }
    };
    let mut counted: Vec<Counted> = QUOTAS.iter().enumerate().map(own).collect();
    for (number, (layout, names)) in LAYOUTS.iter().enumerate() {
        let layout: KeyLayout = layout.parse().unwrap();
        let store = build(patient(&url).layout(layout));
        counted.extend(OF_LAYOUTS.map(|(text, windows)| {
            let quota = PolicyQuota::new(&format!("layout-{number}"), text.parse().unwrap());
            Counted { store: store.clone(), quota, names: names.replace("WINDOWS", windows) }
        }));
    }
    thread::scope(|scope| {
        let callers: Vec<_> = counted.iter().map(|counted| scope.spawn(|| watch(counted))).collect();
        while !callers.iter().all(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(round.millis(50..300));
            let servers = primaries(&cluster);
            let server = servers[round.rng.usize(0..servers.len())];
            server.command::<u64>(["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            round.found.faults += 1;
        }
        // Only now, when no connection is cut any more, can servers be asked for what they have.
        for (caller, Counted { quota, names, .. }) in callers.into_iter().zip(&counted) {
            let Watched { found, last, unknown } = caller.join().unwrap();
            round.found.add(found);
            for (place, (last, unknown)) in last.iter().zip(unknown).enumerate() {
                let user = format!("caller-{place}");
                let server = cluster.primary_of(cluster.slot_of(&format!("{{{user}}}")));
                if let Some(last) = last {
                    let name = names.replace("USER", &user);
                    ledger::check(server, &name, quota, last, unknown, &mut round.found);
                }
            }
        }
    });
}

/// The only one who charges these counters, each one after another, and so knows what each answer has to say.
fn watch(Counted { store, quota, .. }: &Counted) -> Watched {
    let mut found = Found::default();
    let mut last: Vec<Option<QuotaState>> = vec![None; KEYS];
    let mut unknown = [0; KEYS];
    for number in 0..CHARGES * KEYS as u32 {
        let place = number as usize % KEYS;
        let key = Key::from(format!("caller-{place}"));
        match block_on(store.charge(&[Charge::new(quota, &key, 1)])) {
            Ok(counted) => {
                let (state, before) = (counted[0], last[place].replace(counted[0]));
                let (window, now) = (state.window().unwrap(), state.now());
                let what = || format!("{} {}: {state:?} after {before:?}", quota.policy(), quota.windows());
                found.expect(window.start() <= now && now < window.end(), || {
                    format!("not its time: {}", what())
                });
                let goes_on = before.filter(|before| before.window() == state.window());
                let used = goes_on.map_or(0, |before| before.used());
                let possible = used + 1..=used + 1 + unknown[place];
                found.expect(counted.is_admitted() && possible.contains(&state.used()), || {
                    format!("{} unknown, counted by another time: {}", unknown[place], what())
                });
                found.expect(before.is_none_or(|before| before.mark().time() <= window.start()), || {
                    format!("back in an earlier window: {}", what())
                });
                unknown[place] = 0;
            }
            Err(error) => {
                unknown[place] += u64::from(error.may_have_charged());
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
    found.expect(last.iter().all(Option::is_some), || format!("{} was never served", quota.windows()));
    Watched { found, last, unknown }
}
