//! What is in flight to a server at once, and what waits for it.

use std::time::Duration;

use tollgate::{Charge, Key, PolicyQuota, Quota};
use tollgate_redis::{RedisError, RedisStore};
use tollgate_testkit::StoreSteps;
use tollgate_testkit::servers::{ByteDirection, FaultProxy, Server, Software, cluster_of_one};

use crate::support::{Caller, builder, patient_builder, trouble, until};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// A single server, and one that has a Cluster to itself; each with its URL.
fn servers() -> [(Server, String); 2] {
    let (single, node) = (Server::start(Software::Redis), cluster_of_one(Software::Redis));
    let urls = [format!("redis://{}", single.address()), format!("redis+cluster://{}", node.address())];
    let [single_url, node_url] = urls;
    [(single, single_url), (node, node_url)]
}

/// Charges a unit of all these quotas for each of so many keys, all at once. What each was told.
async fn charge_at_once(
    store: &RedisStore,
    quotas: &[PolicyQuota],
    keys: u64,
) -> Vec<Result<(), RedisError>> {
    let keys: Vec<Key<'_>> = (0..keys).map(Key::from).collect();
    let charges = |key| quotas.iter().map(move |quota| Charge::new(quota, key, 1)).collect::<Vec<_>>();
    let charges: Vec<_> = keys.iter().map(charges).collect();
    let requests: Vec<&[Charge<'_>]> = charges.iter().map(|charges| &charges[..]).collect();
    let answers = store.charge_each(&requests).await.into_iter();
    answers.map(|answer| answer.map(drop).map_err(trouble)).collect()
}

fn quotas(count: u64) -> Vec<PolicyQuota> {
    (1..=count).map(|days| PolicyQuota::new("lanes", format!("9/{days}d").parse().unwrap())).collect()
}

async fn connected(store: &RedisStore) {
    until("a connection", async || store.status().is_connected().then_some(())).await;
}

/// How often the script was called.
pub(crate) fn calls(server: &Server) -> u64 {
    server.calls_of("evalsha")
}

/// The bound was on calls, of which a single server never had more than two; on a Cluster, each could have 128
/// counters.
#[tokio::test]
async fn no_more_counters_are_under_way_than_are_allowed() {
    for (server, url) in servers() {
        // Again if this machine stood still until the deadline before all were sent that may be.
        let all_are_under_way = async || {
            server.command::<()>(["FLUSHALL"]);
            let store = builder(&url).deadline(Duration::from_millis(300)).counters_in_flight(6);
            let store = store.build().unwrap();
            connected(&store).await;
            server.pause();
            let answers = charge_at_once(&store, &quotas(2), 10).await;
            server.resume();
            let under_way = answers.iter().filter(|told| **told == Err(RedisError::TimedOut)).count();
            let waited = answers.iter().filter(|told| **told == Err(RedisError::Overloaded)).count();
            assert!(under_way <= 3, "{answers:?}");
            // What waited was not sent, and so not counted.
            assert!(server.command::<usize>(["DBSIZE"]) <= 6);
            ((under_way, waited) == (3, 7)).then_some(())
        };
        until("three requests of two counters each under way", all_are_under_way).await;
    }
}

/// On a Cluster there was a queue for each slot, so that any number of requests could wait for a server.
#[tokio::test]
async fn no_more_counters_wait_than_a_server_takes_before_the_deadline() {
    for (_server, url) in servers() {
        let store = patient_builder(&url).build().unwrap();
        connected(&store).await;
        // No task of the runtime's only thread runs before all are asked.
        let answers = charge_at_once(&store, &quotas(4), 5_000).await;
        let served = answers.iter().filter(|told| told.is_ok()).count();
        let refused = answers.iter().filter(|told| **told == Err(RedisError::Overloaded)).count();
        assert_eq!((served, refused), (4_096, 904));
    }
}

/// Batches were counted in requests, so that one of many quotas held the server up for as many times as long.
#[tokio::test]
async fn a_call_has_no_more_counters_than_a_server_takes_at_once() {
    let server = Server::start(Software::Redis);
    let store = patient_builder(&format!("redis://{}", server.address())).build().unwrap();
    connected(&store).await;
    let before = calls(&server);
    let answers = charge_at_once(&store, &quotas(8), 160).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(calls(&server) - before, 10);
}

/// No more than 256 requests were in flight at once, so that a server two milliseconds away made 128,000 decisions a
/// second at most.
#[tokio::test]
async fn a_round_trip_is_for_as_many_as_ask() {
    const KEYS: u64 = 20 * 128;
    let server = Server::start(Software::Redis);
    let proxy = FaultProxy::before(server.address());
    let store = patient_builder(&format!("redis://{}", proxy.address())).build().unwrap();
    connected(&store).await;
    proxy.hold(ByteDirection::Reply);
    let quota = [PolicyQuota::new("lanes", Quota::per_day(9))];
    let all_are_counted = async {
        until("all of them", async || (server.command::<u64>(["DBSIZE"]) == KEYS).then_some(())).await;
        proxy.release(ByteDirection::Reply);
    };
    let (answers, ()) = tokio::join!(charge_at_once(&store, &quota, KEYS), all_are_counted);
    assert!(answers.iter().all(Result::is_ok));
}

/// A batch waited for a connection until the last of its deadlines, so the callers with the others were told late. When
/// that wait alone had an end, callers who were told that nothing was sent were charged: their units stayed in the call
/// that was encoded before the wait.
#[tokio::test(start_paused = true)]
async fn callers_are_told_in_time_that_there_is_no_connection_and_are_not_charged() {
    let server = Server::start(Software::Redis);
    let proxy = FaultProxy::before(server.address());
    proxy.hold(ByteDirection::Reply);
    let url = format!("redis://{}", proxy.address());
    let caller = Caller::new(builder(&url).deadline(HOUR).connect_timeout(9 * HOUR));
    let begun = tokio::time::Instant::now();
    let charge_after = |minutes| {
        let caller = caller.clone();
        tokio::spawn(async move {
            tokio::time::sleep(minutes * MINUTE).await;
            let answer = caller.charge("key").await;
            (answer, begun.elapsed())
        })
    };
    // The first two keep both drivers busy for an hour. Then two of the others go together.
    let _first = [0, 0].map(charge_after);
    let (early, late) = (charge_after(30), [45, 45].map(charge_after));
    let (answer, told) = early.await.unwrap();
    assert_eq!(answer, Err(RedisError::Unreachable));
    assert_eq!(told.as_secs(), 90 * 60);
    tokio::time::resume();
    proxy.release(ByteDirection::Reply);
    let [one, other] = late;
    let mut used = [one.await.unwrap().0.unwrap(), other.await.unwrap().0.unwrap()];
    used.sort_unstable();
    assert_eq!(used, [1, 2]);
}

/// The time of a reply began before the wait for a connection. After a long wait, the server was taken for a slow one
/// and got no more than two batches at once.
#[tokio::test(start_paused = true)]
async fn a_wait_for_a_connection_does_not_make_the_server_slow() {
    const KEYS: u64 = 4 * 128;
    let server = Server::start(Software::Redis);
    let proxy = FaultProxy::before(server.address());
    proxy.hold(ByteDirection::Reply);
    let url = format!("redis://{}", proxy.address());
    let store = builder(&url).deadline(HOUR).connect_timeout(9 * HOUR).build().unwrap();
    let quota = [PolicyQuota::new("lanes", Quota::per_day(9))];
    let connected = async {
        tokio::time::sleep(50 * MINUTE).await;
        tokio::time::resume();
        proxy.release(ByteDirection::Reply);
    };
    let (first, ()) = tokio::join!(charge_at_once(&store, &quota, 1), connected);
    assert_eq!(first, [Ok(())]);
    proxy.hold(ByteDirection::Reply);
    let all_are_counted = async {
        until("all of them", async || (server.command::<u64>(["DBSIZE"]) == KEYS).then_some(())).await;
        proxy.release(ByteDirection::Reply);
    };
    let (answers, ()) = tokio::join!(charge_at_once(&store, &quota, KEYS), all_are_counted);
    assert!(answers.iter().all(Result::is_ok));
}

/// A process that was stopped refused all that waited in it, although it alone was late.
#[tokio::test]
async fn a_process_that_stood_still_serves_what_waited_meanwhile() {
    let server = Server::start(Software::Redis);
    let proxy = FaultProxy::before(server.address());
    let url = format!("redis://{}", proxy.address());
    let caller = Caller::new(builder(&url).deadline(HOUR).connect_timeout(HOUR));
    connected(&caller.store).await;
    proxy.hold(ByteDirection::Reply);
    let charged = ["one", "two", "three"].map(|key| {
        let caller = caller.clone();
        tokio::spawn(async move { caller.charge(key).await })
    });
    // The third waits for a driver.
    until("two under way", async || (server.command::<u64>(["DBSIZE"]) == 2).then_some(())).await;
    tokio::time::pause();
    proxy.release(ByteDirection::Reply);
    // Nothing of this process runs here, until the replies are in its socket.
    while proxy.passed(ByteDirection::Reply) < proxy.arrived(ByteDirection::Reply) {
        std::thread::yield_now();
    }
    tokio::time::advance(HOUR + HOUR / 2).await;
    tokio::time::resume();
    for charged in charged {
        assert_eq!(charged.await.unwrap(), Ok(1));
    }
}

/// The requests of each slot were a task, a timer and a call written by itself; now those of a server go together.
#[tokio::test]
async fn requests_of_many_slots_are_answered_by_their_own_calls() {
    let node = cluster_of_one(Software::Redis);
    let store = patient_builder(&format!("redis+cluster://{}", node.address())).build().unwrap();
    connected(&store).await;
    let quota = PolicyQuota::new("lanes", Quota::per_day(9));
    let keys: Vec<Key<'_>> = (0..600_u64).map(|key| Key::from(key % 300)).collect();
    let charges: Vec<_> = keys.iter().map(|key| [Charge::new(&quota, key, 1)]).collect();
    let requests: Vec<&[Charge<'_>]> = charges.iter().map(|charge| &charge[..]).collect();
    let answers = store.charge_each(&requests).await;
    let mut used: Vec<u64> = answers.into_iter().map(|answer| answer.unwrap()[0].used()).collect();
    used.sort_unstable();
    assert_eq!(used, [[1; 300], [2; 300]].concat());
    node.command::<()>(["SCRIPT", "FLUSH"]);
    let answers = store.charge_each(&requests).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(node.command::<u64>(["DBSIZE"]), 300);
}
