//! The faults under which units are held.

use std::thread::sleep;

use tollgate_testkit::servers::{
    ByteDirection, Cluster, ConnectionEnd, Data, FaultProxy, Persistence, Sentinels, Server, Settings,
};

use super::Holders;
use super::terms::{KEYS, key_name};
use crate::fault::{Fault, Round};
use crate::{cluster, process, sentinel};

/// The server stands still, for less than a hold lives.
pub(crate) const HANG: Fault = Fault { name: "holds-hang", round: hang };

/// The server is killed, and started again with what it had acknowledged.
pub(crate) const KILL: Fault = Fault { name: "holds-kill-kept", round: kill };

/// Connections are cut, at once or after some bytes of a request or a reply.
pub(crate) const CUT: Fault = Fault { name: "holds-cut", round: cut };

/// Requests and replies are held up and then delivered.
pub(crate) const LATE: Fault = Fault { name: "holds-late", round: late };

/// The server's clock goes forward and back, by less and by more than a hold lives.
pub(crate) const CLOCK: Fault = Fault { name: "holds-clock", round: clock };

/// A replica that may lack the last holds takes over. Each time may admit one limit more.
pub(crate) const FAILOVER: Fault = Fault { name: "holds-sentinel-failover", round: failover };

/// Slots with units in flight move to other primaries.
pub(crate) const MIGRATION: Fault = Fault { name: "holds-migration", round: migration };

#[test]
fn holds_on_a_hanging_server_are_taken_once_and_freed() {
    HANG.test(1);
}

#[test]
fn holds_outlive_a_server_that_was_killed() {
    KILL.test(1);
}

#[test]
fn a_hold_whose_connection_is_cut_is_taken_once_and_freed() {
    CUT.test(2);
}

#[test]
fn a_hold_whose_replies_are_late_is_taken_once_and_freed() {
    LATE.test(2);
}

#[test]
fn a_clock_that_jumps_frees_no_unit_early_and_keeps_none() {
    CLOCK.test(1);
}

#[test]
fn a_failover_admits_at_most_one_limit_in_flight_more() {
    FAILOVER.test(1);
}

#[test]
fn holds_move_with_their_slot() {
    MIGRATION.test(1);
}

fn hang(round: &mut Round) {
    let server = Server::start(round.software());
    let mut holders = Holders::start(&process::url(&server), Data::Kept, round);
    for _ in 0..4 {
        holders.in_trouble(round, |round| {
            server.pause();
            sleep(round.millis(5..500));
            server.resume();
        });
    }
    let unknown = holders.end(round, &[&server]);
    is_noticed(round, unknown);
}

fn kill(round: &mut Round) {
    let server = Settings::new(round.software()).persistence(Persistence::EveryWrite).start();
    let mut holders = Holders::start(&process::url(&server), Data::Kept, round);
    for _ in 0..3 {
        holders.in_trouble(round, |round| {
            server.kill();
            sleep(round.millis(20..200));
            server.start_again(Data::Kept);
        });
    }
    holders.end(round, &[&server]);
}

fn cut(round: &mut Round) {
    let server = Server::start(round.software());
    let proxy = FaultProxy::before(server.address());
    let mut holders = Holders::start(&format!("redis://{}", proxy.address()), Data::Kept, round);
    for ending in [ConnectionEnd::Close, ConnectionEnd::Reset] {
        for way in [ByteDirection::Request, ByteDirection::Reply] {
            holders.in_trouble(round, |round| {
                for _ in 0..5 {
                    proxy.cut(way, round.rng.u64(0..3_000), ending);
                    sleep(round.millis(5..40));
                }
            });
            holders.in_trouble(round, |round| {
                proxy.hold(way);
                sleep(round.millis(5..30));
                // What was counted is never told.
                proxy.sever(ending);
                proxy.release(way);
            });
        }
    }
    let unknown = holders.end(round, &[&server]);
    is_noticed(round, unknown);
}

fn late(round: &mut Round) {
    let server = Server::start(round.software());
    let proxy = FaultProxy::before(server.address());
    let mut holders = Holders::start(&format!("redis://{}", proxy.address()), Data::Kept, round);
    for way in [ByteDirection::Request, ByteDirection::Reply, ByteDirection::Request, ByteDirection::Reply] {
        holders.in_trouble(round, |round| {
            proxy.hold(way);
            sleep(round.millis(5..400));
            proxy.release(way);
        });
        holders.in_trouble(round, |round| {
            proxy.delay(way, round.millis(20..150));
            sleep(round.millis(50..300));
            proxy.heal();
        });
    }
    let unknown = holders.end(round, &[&server]);
    is_noticed(round, unknown);
}

fn clock(round: &mut Round) {
    let server = Settings::new(round.software()).steered_clock().start();
    let holders = Holders::start(&process::url(&server), Data::Kept, round);
    for _ in 0..10 {
        let millis = [1..300, 300..3_000, 3_000..100_000][round.rng.usize(0..3)].clone();
        let millis = round.rng.i64(millis);
        let millis = if round.rng.bool() { millis } else { -millis };
        round.found.faults += 1;
        holders.step_clock(&server, millis);
        sleep(round.millis(50..300));
    }
    holders.end(round, &[&server]);
}

fn failover(round: &mut Round) {
    let sentinels = Sentinels::start(round.software());
    let mut holders = Holders::start(&sentinel::url(&sentinels), Data::Lost, round);
    holders.in_trouble(round, |_| {
        sentinels.fail_over();
    });
    holders.end(round, &[sentinels.primary()]);
}

fn migration(round: &mut Round) {
    let cluster = Cluster::start(round.software()).calm();
    let mut holders = Holders::start(&cluster::url(&cluster), Data::Kept, round);
    for _ in 0..4 {
        holders.in_trouble(round, |round| {
            let slot = cluster.slot_of(&format!("{{{}}}", key_name(round.rng.usize(0..KEYS))));
            let migration = cluster.migrate(slot, cluster.other_primary(slot));
            sleep(round.millis(0..30));
            // From the first key on, the old owner says ASK; between two of one step, TRYAGAIN.
            while migration.move_keys(10) > 0 {
                sleep(round.millis(0..10));
            }
            migration.finish();
        });
    }
    holders.end(round, &cluster::primaries(&cluster));
}

/// Without a step of unknown outcome, there was no trouble.
fn is_noticed(round: &mut Round, unknown: u64) {
    round.found.expect(unknown > 0, || "no outcome was unknown".to_owned());
}
