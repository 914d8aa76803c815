//! A primary that sentinels replace.

use tollgate_redis::{Password, RedisError};
use tollgate_testkit::servers::{Data, Sentinels, Server, ServerConnection, Software};

use crate::support::{Caller, builder, patient, patient_builder, until};

pub(crate) fn url(sentinels: &Sentinels) -> String {
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

/// The connections of stores that a sentinel has.
fn listeners(sentinel: &Server) -> usize {
    let list: String = sentinel.command(["CLIENT", "LIST"]);
    let is_ours = |line: &&str| line.contains(" name=tollgate ") && line.contains(" sub=2 ");
    list.lines().filter(is_ours).count()
}

/// The store names this server, although nobody asks it for anything.
async fn expect_to_be_named(caller: &Caller, primary: &Server) {
    let address = primary.address().to_string();
    let is_named = async || (caller.store.status().servers()[0].name() == address).then_some(());
    until("a primary that is named without a call", is_named).await;
}

/// Each second, a sentinel was connected to and asked.
#[tokio::test(flavor = "multi_thread")]
async fn sentinels_are_listened_to_and_not_asked_again_and_again() {
    const SECONDS: u64 = 6;
    for software in Software::ALL {
        let sentinels = Sentinels::start(software);
        let caller = patient(&url(&sentinels));
        caller.until_served("alice").await;
        let all = sentinels.sentinels();
        let are_listened_to = async || all.iter().all(|sentinel| listeners(sentinel) == 1).then_some(());
        until("sentinels that are listened to", are_listened_to).await;

        let mut connections: Vec<_> = all.iter().map(Server::connection).collect();
        let mut sum_of = |field: &str| -> u64 {
            let of = |connection: &mut ServerConnection| -> u64 {
                let info: String = redis::cmd("INFO").query(connection).unwrap();
                let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
                value.and_then(|value| value.trim().parse().ok()).unwrap()
            };
            connections.iter_mut().map(of).sum()
        };
        let mut seconds_pass = async |seconds: u64| {
            // By the clock of the sentinels, who stand still when this machine does.
            let later = sum_of("uptime_in_seconds") + seconds * all.len() as u64;
            until("time that passes", async || (sum_of("uptime_in_seconds") >= later).then_some(())).await;
            sum_of("total_connections_received")
        };
        // Each is asked once when it has begun to be listened to.
        let accepted = seconds_pass(2).await;
        let more = seconds_pass(SECONDS).await - accepted;
        assert!(more < SECONDS / 2, "{more} connections in {SECONDS} seconds");

        // A new primary is announced, and where it is nobody need find out by a call in vain.
        let primary = sentinels.fail_over();
        expect_to_be_named(&caller, primary).await;
        until("sentinels that are listened to again", are_listened_to).await;
        expect_primary(&caller, &sentinels).await;
    }
}

/// Sentinels that do not let us listen are asked, as all were before.
#[tokio::test(flavor = "multi_thread")]
async fn sentinels_that_cannot_be_listened_to_are_asked() {
    let sentinels = Sentinels::start(Software::Redis);
    for sentinel in sentinels.sentinels() {
        let rights = ["on", ">Sesame", "+hello", "+sentinel|get-master-addr-by-name"];
        sentinel.command::<()>(["ACL", "SETUSER", "watcher"].iter().chain(&rights));
    }
    let login = patient_builder(&url(&sentinels)).sentinel_user("watcher");
    let caller = Caller::new(login.sentinel_password(Password::new("Sesame")));
    caller.until_served("alice").await;
    assert_eq!(sentinels.sentinels().iter().map(listeners).sum::<usize>(), 0);
    let primary = sentinels.fail_over();
    expect_to_be_named(&caller, primary).await;

    // With the rights of the guide, they can.
    let guide = include_str!("../../../../docs/redis.md");
    let (_, rights) = guide.split_once("ACL SETUSER watcher on >PASSWORD ").unwrap();
    let rights = rights.lines().next().unwrap().split(' ');
    for sentinel in sentinels.sentinels() {
        sentinel.command::<()>(["ACL", "SETUSER", "watcher"].into_iter().chain(rights.clone()));
    }
    let login = patient_builder(&url(&sentinels)).sentinel_user("watcher");
    let _caller = Caller::new(login.sentinel_password(Password::new("Sesame")));
    let are_listened_to = async || sentinels.sentinels().iter().all(|it| listeners(it) > 0).then_some(());
    until("sentinels that are listened to", are_listened_to).await;
}
