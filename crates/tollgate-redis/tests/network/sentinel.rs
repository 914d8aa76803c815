//! A primary that sentinels replace.

use tollgate_redis::RedisError;
use tollgate_testkit::servers::{Data, Sentinels, Software};

use crate::support::{Caller, builder, patient, until};

fn url(sentinels: &Sentinels) -> String {
    let addresses: Vec<_> =
        sentinels.sentinels().iter().map(|sentinel| sentinel.address().to_string()).collect();
    format!("redis+sentinel://{}/{}", addresses.join(","), Sentinels::NAME)
}

/// Charges are counted by the primary that the sentinels agree on: as a rule the one that was expected, and another one
/// where this machine stood still for as long as they need to call a server dead.
async fn expect_primary(caller: &Caller, sentinels: &Sentinels) {
    let is_followed = async || {
        let primary = sentinels.primary();
        let address = primary.address().to_string();
        let is_asked = || caller.store.status().servers()[0].name() == address;
        // Before the charge as well: what the old primary counts last may be lost.
        let was_asked = is_asked();
        let served = caller.charge("alice").await.is_ok();
        (was_asked && served && is_asked() && primary.command::<u64>(["DBSIZE"]) == 1).then_some(())
    };
    until("charges that are counted by the primary", is_followed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn follows_the_primary_when_two_are_exchanged() {
    for software in Software::ALL {
        let sentinels = Sentinels::start(software);
        let caller = Caller::new(builder(&url(&sentinels)));
        caller.until_served("alice").await;
        let old = sentinels.primary().address();
        let load = caller.load("alice", 8);
        let new = sentinels.fail_over();
        assert_ne!(new.address(), old);
        expect_primary(&caller, &sentinels).await;
        load.goes_on(1).await;
        load.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn goes_over_to_the_replica_of_a_primary_that_is_killed() {
    for software in Software::ALL {
        let sentinels = Sentinels::start(software);
        let caller = Caller::new(builder(&url(&sentinels)));
        caller.until_served("alice").await;
        let dead = sentinels.kill_primary();
        expect_primary(&caller, &sentinels).await;

        // The dead one comes back believing that it is the primary, and must not be believed for long.
        dead.start_again(Data::Lost);
        let _ = sentinels.replica();
        expect_primary(&caller, &sentinels).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_sentinel_that_answers_is_enough() {
    let sentinels = Sentinels::start(Software::Redis);
    let url = url(&sentinels);
    sentinels.sentinels()[0].kill();
    sentinels.sentinels()[1].pause();
    let caller = Caller::new(builder(&url));
    caller.until_served("alice").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_no_sentinel_knows_is_said() {
    let sentinels = Sentinels::start(Software::Redis);
    let caller = patient(&url(&sentinels).replace(Sentinels::NAME, "other"));
    assert_eq!(caller.charge("alice").await, Err(RedisError::Unreachable));
    let status = caller.store.status();
    assert_eq!(status.servers()[0].name(), "other");
    assert_eq!(status.servers()[0].trouble(), Some("no sentinel knows the primary"));
}
