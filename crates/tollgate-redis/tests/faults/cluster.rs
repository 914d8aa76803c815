//! Many primaries: slots that move, and primaries that change.

use std::thread::sleep;

use tollgate_testkit::servers::{Cluster, Data, SLOTS, Server};

use crate::crowd::{Crowd, Noticed};
use crate::fault::{Fault, Round};

/// A replica takes over from its primary, as agreed.
pub(crate) const FAILOVER: Fault = Fault { name: "cluster-failover", round: failover };

/// A primary is killed, and its replica takes over.
pub(crate) const KILL: Fault = Fault { name: "cluster-kill", round: kill };

/// Slots with counters that are being charged move to other primaries.
pub(crate) const MIGRATION: Fault = Fault { name: "migration", round: migration };

#[test]
fn an_exchange_in_a_cluster_loses_nothing() {
    FAILOVER.test(1);
}

#[test]
fn the_loss_of_a_primary_of_a_cluster_admits_at_most_one_limit_more() {
    KILL.test(1);
}

#[test]
fn nobody_who_waits_notices_that_slots_move() {
    MIGRATION.test(2);
}

pub(crate) fn url(cluster: &Cluster) -> String {
    format!("redis+cluster://{}", cluster.nodes()[5].address())
}

pub(crate) fn primaries(cluster: &Cluster) -> Vec<&Server> {
    let is_primary = |node: &&Server| node.is_running() && node.info("role") == "master";
    cluster.nodes().iter().filter(is_primary).collect()
}

/// The slots of those counters that are charged all the time, not of those that have been used up.
fn charged_slots(cluster: &Cluster) -> Vec<u16> {
    let keys = primaries(cluster).into_iter().flat_map(|node| node.command::<Vec<String>>(["KEYS", "*"]));
    let keys = keys.filter(|key| !key.contains(":narrow:"));
    let mut slots: Vec<u16> = keys.map(|key| cluster.slot_of(&key)).collect();
    slots.sort_unstable();
    slots.dedup();
    slots
}

fn failover(round: &mut Round) {
    // A replica that takes over because its primary stood still has not received everything.
    let cluster = Cluster::start(round.software()).calm();
    let mut crowd = Crowd::start(&url(&cluster), Data::Kept);
    let slot = round.rng.u16(0..SLOTS);
    // Of two primaries: who is calm votes for another replica of the same one after minutes.
    for slot in [slot, (slot + SLOTS / 2) % SLOTS] {
        crowd.in_trouble(round, |_| {
            cluster.fail_over(slot);
        });
    }
    crowd.end(round, &Noticed::Perhaps, &primaries(&cluster));
}

fn kill(round: &mut Round) {
    let cluster = Cluster::start(round.software());
    let mut crowd = Crowd::start(&url(&cluster), Data::Lost);
    crowd.in_trouble(round, |round| {
        let slot = round.rng.u16(0..SLOTS);
        cluster.kill_primary_of(slot);
        // Comes back when the replica has taken over.
        let _ = cluster.primary_of(slot);
    });
    crowd.end(round, &Noticed::Perhaps, &primaries(&cluster));
}

fn migration(round: &mut Round) {
    let cluster = Cluster::start(round.software()).calm();
    let mut crowd = Crowd::start(&url(&cluster), Data::Kept);
    for _ in 0..5 {
        let slots = charged_slots(&cluster);
        crowd.in_trouble(round, |round| {
            let slot = slots[round.rng.usize(0..slots.len())];
            let migration = cluster.migrate(slot, cluster.other_primary(slot));
            sleep(round.millis(0..30));
            // From the first key on, the old owner says ASK; between two of one request, TRYAGAIN.
            while migration.move_keys(1) > 0 {
                sleep(round.millis(0..30));
            }
            migration.finish();
        });
    }
    crowd.end(round, &Noticed::Never, &primaries(&cluster));
}
