//! What an operator can do to a server that runs.

use std::thread::sleep;
use std::time::Duration;

use tollgate_redis::RedisError;
use tollgate_testkit::servers::{Data, FaultProxy, Server, Settings};

use crate::crowd::{Crowd, Noticed};
use crate::fault::{Fault, Round};
use crate::process::url;

/// The server forgets its scripts.
pub(crate) const SCRIPT_FLUSH: Fault = Fault { name: "script-flush", round: script_flush };

/// The server forgets its data and goes on.
pub(crate) const FLUSHALL: Fault = Fault { name: "flushall", round: flushall };

/// The server hangs up on everybody.
pub(crate) const CLIENT_KILL: Fault = Fault { name: "client-kill", round: client_kill };

/// The server lets everybody wait, or everybody who writes.
pub(crate) const CLIENT_PAUSE: Fault = Fault { name: "client-pause", round: client_pause };

/// The server has no memory for another write (`maxmemory` without eviction).
pub(crate) const OUT_OF_MEMORY: Fault = Fault { name: "oom", round: out_of_memory };

/// The server is no primary any more, as after a failover, and later is one again.
pub(crate) const READONLY: Fault = Fault { name: "readonly", round: readonly };

/// Its replica takes over its name, and it goes on as a replica of that. Connections that are open stay.
pub(crate) const FAILOVER: Fault = Fault { name: "failover", round: failover };

#[test]
fn nobody_who_waits_notices_that_scripts_are_flushed() {
    SCRIPT_FLUSH.test(2);
}

#[test]
fn a_flush_admits_one_limit_more_and_is_no_error() {
    FLUSHALL.test(2);
}

#[test]
fn connections_that_are_killed_charge_nothing_twice() {
    CLIENT_KILL.test(2);
}

#[test]
fn a_server_that_lets_its_clients_wait_counts_once() {
    CLIENT_PAUSE.test(2);
}

#[test]
fn a_server_without_memory_denies_nobody() {
    OUT_OF_MEMORY.test(2);
}

#[test]
fn a_primary_that_is_one_no_more_denies_nobody() {
    READONLY.test(2);
}

#[test]
fn a_primary_whose_name_went_to_its_replica_is_left() {
    FAILOVER.test(2);
}

fn script_flush(round: &mut Round) {
    let server = Server::start(round.software());
    let mut crowd = Crowd::start(&url(&server), Data::Kept);
    for _ in 0..10 {
        crowd.in_trouble(round, |round| {
            server.command::<()>(["SCRIPT", "FLUSH"]);
            sleep(round.millis(5..40));
        });
    }
    crowd.end(round, &Noticed::Never, &[&server]);
}

fn flushall(round: &mut Round) {
    let server = Server::start(round.software());
    let mut crowd = Crowd::start(&url(&server), Data::Lost);
    for _ in 0..5 {
        crowd.in_trouble(round, |round| {
            server.command::<()>(["FLUSHALL"]);
            sleep(round.millis(5..100));
        });
    }
    crowd.end(round, &Noticed::Never, &[&server]);
}

fn client_kill(round: &mut Round) {
    let server = Server::start(round.software());
    let mut crowd = Crowd::start(&url(&server), Data::Kept);
    for _ in 0..5 {
        crowd.in_trouble(round, |round| {
            server.command::<u64>(["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            sleep(round.millis(0..100));
        });
    }
    crowd.end(round, &Noticed::Perhaps, &[&server]);
}

fn client_pause(round: &mut Round) {
    let server = Server::start(round.software());
    let mut crowd = Crowd::start(&url(&server), Data::Kept);
    let told = crowd.told();
    for what in ["WRITE", "ALL"] {
        crowd.in_trouble(round, |round| {
            let time = round.millis(50..400);
            // Once, unless this machine stood still for as long.
            for _ in 0..50 {
                server.command::<()>(["CLIENT", "PAUSE", &time.as_millis().to_string(), what]);
                sleep(time);
                if told.has(&RedisError::TimedOut) {
                    break;
                }
            }
        });
    }
    crowd.end(round, &Noticed::As(&RedisError::TimedOut), &[&server]);
}

fn out_of_memory(round: &mut Round) {
    let server = Server::start(round.software());
    let mut crowd = Crowd::start(&url(&server), Data::Kept);
    let told = crowd.told();
    for _ in 0..3 {
        crowd.in_trouble(round, |round| {
            server.command::<()>(["CONFIG", "SET", "maxmemory", "1"]);
            sleep(round.millis(20..200));
            told.wait_for(&RedisError::OutOfMemory);
            server.command::<()>(["CONFIG", "SET", "maxmemory", "0"]);
        });
    }
    crowd.end(round, &Noticed::As(&RedisError::OutOfMemory), &[&server]);
}

fn readonly(round: &mut Round) {
    let server = Server::start(round.software());
    let mut crowd = Crowd::start(&url(&server), Data::Kept);
    let told = crowd.told();
    for _ in 0..3 {
        crowd.in_trouble(round, |round| {
            // Nobody is there, so it keeps what it has.
            server.command::<()>(["REPLICAOF", "127.0.0.1", "1"]);
            sleep(round.millis(20..300));
            told.wait_for(&RedisError::NotReady);
            server.command::<()>(["REPLICAOF", "NO", "ONE"]);
        });
    }
    crowd.end(round, &Noticed::As(&RedisError::NotReady), &[&server]);
}

fn failover(round: &mut Round) {
    let servers = pair(&Settings::new(round.software()));
    let [mut primary, mut replica] = [&servers[0], &servers[1]];
    let proxy = FaultProxy::before(primary.address());
    let mut crowd = Crowd::start(&format!("redis://{}", proxy.address()), Data::Lost);
    for _ in 0..2 {
        wait_until_linked(replica);
        crowd.in_trouble(round, |_| fail_over(primary, replica, &proxy));
        (primary, replica) = (replica, primary);
    }
    crowd.end(round, &Noticed::Perhaps, &[primary]);
}

/// A primary and its replica, which is up to date.
pub(crate) fn pair(settings: &Settings) -> [Server; 2] {
    let servers = [(); 2].map(|()| settings.clone().config("repl-diskless-sync-delay", "0").start());
    follow(&servers[1], &servers[0]);
    wait_until_linked(&servers[1]);
    servers
}

/// Makes the replica a primary, gives it the name of its primary, and lets that follow it.
pub(crate) fn fail_over(primary: &Server, replica: &Server, name: &FaultProxy) {
    replica.command::<()>(["REPLICAOF", "NO", "ONE"]);
    name.lead_to(replica.address());
    follow(primary, replica);
}

fn follow(replica: &Server, primary: &Server) {
    let port = primary.address().port().to_string();
    replica.command::<()>(["REPLICAOF", "127.0.0.1", &port]);
}

fn wait_until_linked(replica: &Server) {
    while replica.info("master_link_status") != "up" {
        sleep(Duration::from_millis(5));
    }
}
