//! What a store has done when it is warm, and how long it is waited for.

use std::net::TcpListener;
use std::time::Duration;

use tollgate_redis::RedisError;
use tollgate_testkit::servers::{Cluster, SLOTS, Server, Software};

use crate::lanes::calls;
use crate::support::{PATIENCE, builder, patient_builder, trouble};

#[tokio::test]
async fn a_warm_store_has_been_answered_over_each_of_its_connections() {
    for software in Software::ALL {
        let server = Server::start(software);
        let store = patient_builder(&format!("redis://{}", server.address())).connections(3).build().unwrap();
        store.warm_up(PATIENCE).await.unwrap();
        assert_eq!(calls(&server), 3);
    }
    let cluster = Cluster::start(Software::Redis).calm();
    let url = format!("redis+cluster://{}", cluster.nodes()[5].address());
    patient_builder(&url).build().unwrap().warm_up(PATIENCE).await.unwrap();
    let third = SLOTS / 3;
    assert_eq!([0, 1, 2].map(|n| calls(cluster.primary_of(n * third))), [2, 2, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_is_waited_for_until_the_time_is_up() {
    const HOUR: Duration = Duration::from_secs(3_600);
    // Accepts, and never answers.
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", server.local_addr().unwrap());
    let store = builder(&url).connect_timeout(9 * HOUR).build().unwrap();
    let begun = tokio::time::Instant::now();
    assert_eq!(store.warm_up(HOUR).await.map_err(trouble), Err(RedisError::Unreachable));
    assert_eq!(begun.elapsed().as_secs(), HOUR.as_secs());
}
