//! Shared records, which two processes change, two follow and one loads, all the time.

mod crowd;
mod ledger;

use std::thread::sleep;
use std::time::Duration;

use tollgate_testkit::servers::{Cluster, Data, Sentinels, Server};

use self::crowd::{PARTS, RecordCrowd};
use crate::fault::{Fault, Round};
use crate::{cluster, process, sentinel};

/// The server hangs, forgets its scripts and hangs up, and loses nothing.
pub(crate) const KEPT: Fault = Fault { name: "records", round: kept };

/// The server goes back to an earlier state, as a failover does, or forgets everything.
pub(crate) const LOST: Fault = Fault { name: "records-lost", round: lost };

/// The primary is killed, and its replica takes over.
pub(crate) const KILL: Fault = Fault { name: "records-kill", round: kill };

/// The slot of the records moves.
pub(crate) const MIGRATION: Fault = Fault { name: "records-migration", round: migration };

#[test]
fn all_copies_of_records_are_the_same_whatever_interrupts_them() {
    KEPT.test(2);
}

#[test]
fn all_copies_of_records_follow_a_server_that_loses_changes() {
    LOST.test(2);
}

#[test]
fn all_copies_of_records_follow_a_replica() {
    KILL.test(1);
}

#[test]
fn all_copies_of_records_follow_a_slot() {
    MIGRATION.test(1);
}

/// Some time in which changes are made.
fn peace(round: &mut Round) {
    sleep(round.millis(20..150));
}

fn kept(round: &mut Round) {
    let server = Server::start(round.software());
    let crowd = RecordCrowd::start(&process::url(&server), Data::Kept);
    for _ in 0..6 {
        peace(round);
        match round.rng.u8(0..3) {
            0 => server.command::<()>(["SCRIPT", "FLUSH"]),
            1 => server.command::<()>(["CLIENT", "KILL", "TYPE", "normal"]),
            _ => {
                server.pause();
                sleep(round.millis(1..200));
                server.resume();
            }
        }
        round.found.faults += 1;
    }
    peace(round);
    crowd.end(round, &server);
}

fn lost(round: &mut Round) {
    let server = Server::start(round.software());
    let crowd = RecordCrowd::start(&process::url(&server), Data::Lost);
    for _ in 0..4 {
        peace(round);
        if round.rng.u8(0..4) == 0 {
            server.command::<()>(["FLUSHALL"]);
        } else {
            let saved = SavedRecords::of(&server);
            sleep(round.millis(0..20));
            saved.restore(&server);
        }
        round.found.faults += 1;
    }
    peace(round);
    crowd.end(round, &server);
}

fn kill(round: &mut Round) {
    let sentinels = Sentinels::start(round.software());
    let crowd = RecordCrowd::start(&sentinel::url(&sentinels), Data::Lost);
    peace(round);
    // What is made from now on is lost, and its numbers are given again.
    sentinels.replica().command::<()>(["REPLICAOF", "NO", "ONE"]);
    sleep(round.millis(0..50));
    sentinels.kill_primary();
    let primary = sentinels.primary();
    round.found.faults += 1;
    peace(round);
    crowd.end(round, primary);
}

fn migration(round: &mut Round) {
    let cluster = Cluster::start(round.software()).calm();
    let crowd = RecordCrowd::start(&cluster::url(&cluster), Data::Kept);
    let slot = cluster.slot_of(&crowd::key("head"));
    for _ in 0..3 {
        peace(round);
        let migration = cluster.migrate(slot, cluster.other_primary(slot));
        // In one step as often as one by one: a load ends soon after the first of them has moved.
        let most = if round.rng.bool() { 1 } else { PARTS.len() };
        while migration.move_keys(most) > 0 {
            sleep(round.millis(0..10));
        }
        migration.finish();
        round.found.faults += 1;
    }
    peace(round);
    crowd.end(round, cluster.primary_of(slot));
}

/// The keys of the records at one instant.
struct SavedRecords(Vec<Option<Vec<u8>>>);

impl SavedRecords {
    fn of(server: &Server) -> Self {
        let mut all = redis::pipe();
        all.atomic();
        PARTS.iter().for_each(|part| _ = all.cmd("DUMP").arg(crowd::key(part)));
        Self(all.query(&mut server.connection()).unwrap())
    }

    fn restore(&self, server: &Server) {
        let mut all = redis::pipe();
        all.atomic();
        for (part, value) in PARTS.iter().zip(&self.0) {
            let key = crowd::key(part);
            match value {
                Some(value) => all.cmd("RESTORE").arg(&key).arg(0).arg(value).arg("REPLACE").ignore(),
                None => all.cmd("DEL").arg(&key).ignore(),
            };
        }
        all.query::<()>(&mut server.connection()).unwrap();
    }
}

/// For how long a call may wait.
const PATIENCE: Duration = Duration::from_secs(30);
