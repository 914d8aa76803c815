//! A Cluster whose servers do not have the same time.

use tollgate::{Charge, Key, Mark, PolicyQuota};
use tollgate_redis::{KeyLayout, RedisStore, RedisStoreBuilder};
use tollgate_testkit::StoreSteps;
use tollgate_testkit::servers::{Cluster, Settings, Software};

use crate::support::{patient_builder, until};

/// How far the clocks of the primaries are from this machine's, in milliseconds.
const SKEWS: [i64; 3] = [0, 3 * 3_600_000, -29 * 3_600_000];

const KEYS: u64 = 60;

fn cluster() -> Cluster {
    let cluster = Cluster::with(&Settings::new(Software::Redis).steered_clock()).calm();
    for node in cluster.nodes() {
        // By their own clocks, the others have been away for hours.
        node.command::<()>(["CONFIG", "SET", "cluster-node-timeout", "1000000000"]);
    }
    for (node, skew) in cluster.nodes().iter().zip(SKEWS) {
        node.clock().step(skew);
    }
    cluster
}

/// How often the script was called, on all servers.
fn calls(cluster: &Cluster) -> u64 {
    cluster.nodes().iter().map(|node| node.calls_of("evalsha")).sum()
}

async fn charge(store: &RedisStore, quota: &PolicyQuota, key: u64) -> u64 {
    let key = Key::from(key);
    let counted = store.charge(&[Charge::new(quota, &key, 1)]).await.unwrap();
    let (now, window) = (counted[0].reset_at() - counted[0].reset_after(), counted[0].window().unwrap());
    assert!(window.start() <= now && now < window.end(), "{window:?} at {now:?}");
    counted[0].used()
}

async fn every_server_counts_by_its_own_clock(cluster: &Cluster, builder: RedisStoreBuilder, quota: &str) {
    let quota = PolicyQuota::new("skew", quota.parse().unwrap());
    let store = builder.build().unwrap();
    until("all servers", async || (store.status().is_connected()).then_some(())).await;
    for key in 0..KEYS {
        assert_eq!(charge(&store, &quota, key).await, 1, "{quota:?}");
    }
    // Now their times are known, and each is asked once.
    let before = calls(cluster);
    for key in 0..KEYS {
        assert_eq!(charge(&store, &quota, key).await, 2, "{quota:?}");
    }
    let asked = calls(cluster) - before;
    assert!(asked <= KEYS + 6, "{asked} calls for {KEYS} charges");
}

/// One estimate of the time served all servers, so that a window which its server did not call open was named again and
/// again, and a charge that had no more tries failed.
#[tokio::test(flavor = "multi_thread")]
async fn windows_that_a_caller_names_are_those_of_the_server_that_counts() {
    let cluster = cluster();
    let url = format!("redis+cluster://{}", cluster.nodes()[0].address());
    let builder = |prefix: &str| patient_builder(&url).prefix(prefix);
    for quota in ["9/1m", "9/1h@staggered", "9/1h@first_hit", "9/day@Europe/Berlin", "9/month@UTC"] {
        every_server_counts_by_its_own_clock(&cluster, builder(quota), quota).await;
    }
    let layout: KeyLayout = "skew:{{{user}}}:{windows}:{window}".parse().unwrap();
    for quota in ["9/1h", "9/1d"] {
        let builder = builder("layout").layout(layout.clone());
        every_server_counts_by_its_own_clock(&cluster, builder, quota).await;
    }
}

/// The counter of the next window lay on a server whose clock was behind, and the two servers referred to each other
/// until no try was left. The store was then said not to be ready, and `open` admitted without a count.
#[tokio::test(flavor = "multi_thread")]
async fn windows_of_one_key_on_servers_with_other_times_are_counted() {
    let cluster = cluster();
    let url = format!("redis+cluster://{}", cluster.nodes()[0].address());
    for layout in ["skew:{user}:{windows}:{window}", "{prefix}:{user}:{window}"] {
        let layout: KeyLayout = layout.parse().unwrap();
        let store = patient_builder(&url).layout(layout).build().unwrap();
        until("all servers", async || (store.status().is_connected()).then_some(())).await;
        let quota = PolicyQuota::new("skew", "3/1h".parse().unwrap());
        for key in 0..KEYS {
            let key = Key::from(key);
            let (mut admitted, mut ends, mut last) = (0, Vec::new(), None);
            for _ in 0..9 {
                let counted = store.charge(&[Charge::new(&quota, &key, 1)]).await.unwrap();
                admitted += u64::from(counted.is_admitted());
                ends.push(counted[0].reset_at());
                last = Some((counted[0].window().unwrap(), counted[0].used()));
            }
            ends.dedup();
            let (window, used) = last.unwrap();
            assert!(admitted >= 3, "key {key:?}: what fits is admitted");
            // Windows that a clock is ahead of are others, and each has a full limit.
            assert!(
                admitted <= 3 * ends.len() as u64,
                "{admitted} were admitted in windows that end at {ends:?}"
            );
            // What was charged can be given back, although its window may not have begun on its server.
            let charge = Charge::new(&quota, &key, 1);
            let given = store.refund(&charge, Mark::at(window.start())).await.unwrap();
            assert_eq!((given.units(), given.used()), (1, used - 1), "{key:?}, {window:?}");
        }
    }
}
