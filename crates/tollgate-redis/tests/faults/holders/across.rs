//! The faults under which units are held across slots of a Cluster: one primary is in trouble while the others answer.

use std::thread::sleep;
use std::time::{Duration, Instant};

use tollgate_testkit::servers::{
    ByteDirection, Cluster, ConnectionEnd, Data, FaultProxy, Persistence, Server, Settings,
};

use super::Holders;
use super::terms::{KEYS, key_name};
use crate::cluster::{primaries, url};
use crate::fault::{Fault, Round};

/// A primary stands still or its connections are cut, a slot moves, or a replica takes over as agreed.
pub(crate) const ACROSS: Fault = Fault { name: "holds-across", round: across };

/// Requests to a primary and its replies are held up, delivered late, or cut off.
pub(crate) const ACROSS_LATE: Fault = Fault { name: "holds-across-late", round: late };

/// A primary is killed, and started again with what it had acknowledged.
pub(crate) const ACROSS_KILL: Fault = Fault { name: "holds-across-kill-kept", round: kill };

/// A primary is killed, and its replica takes over. It may lack the last holds, and admit one limit more.
pub(crate) const ACROSS_LOSS: Fault = Fault { name: "holds-across-kill", round: loss };

#[test]
fn holds_across_slots_are_taken_whole_or_undone() {
    ACROSS.test(1);
}

/// A trouble in which no data is lost.
#[derive(Debug, Clone, Copy)]
enum Disturbance {
    Hang,
    Cut,
    Move,
    FailOver,
}

fn across(round: &mut Round) {
    use Disturbance::{Cut, FailOver, Hang, Move};
    let cluster = Cluster::start(round.software()).calm();
    let mut holders = start(&cluster, Data::Kept, round);
    // A replica takes over at most once: a calm node votes for another one of the same primary after minutes. Redis and
    // Valkey take turns faster than these.
    let last = round.in_turn(&[Move, Move, FailOver, FailOver]);
    for disturbance in [Hang, Cut, Hang, last] {
        holders.in_trouble(round, |round| disturbance.occur(round, &cluster));
    }
    let unknown = holders.end(round, &primaries(&cluster));
    round.found.expect(unknown > 0, || "no outcome was unknown".to_owned());
}

fn late(round: &mut Round) {
    let cluster = Cluster::start(round.software()).calm();
    let proxies = proxies(&primaries(&cluster), cluster.nodes());
    let mut holders = start(&cluster, Data::Kept, round);
    for (way, ending) in
        [(ByteDirection::Request, ConnectionEnd::Close), (ByteDirection::Reply, ConnectionEnd::Reset)]
    {
        let mut in_trouble = |fault: fn(&mut Round, &FaultProxy, ByteDirection, ConnectionEnd)| {
            holders.in_trouble(round, |round| {
                let proxy = &proxies[round.rng.usize(0..proxies.len())];
                fault(round, proxy, way, ending);
            });
        };
        in_trouble(|round, proxy, way, _| {
            proxy.hold(way);
            sleep(round.millis(5..300));
            proxy.release(way);
        });
        in_trouble(|round, proxy, way, _| {
            proxy.delay(way, round.millis(20..150));
            sleep(round.millis(50..300));
            proxy.heal();
        });
        in_trouble(|round, proxy, way, ending| {
            proxy.hold(way);
            sleep(round.millis(5..30));
            // What was counted is never told.
            proxy.sever(ending);
            proxy.release(way);
        });
        in_trouble(|round, proxy, way, ending| {
            for _ in 0..5 {
                proxy.cut(way, round.rng.u64(0..3_000), ending);
                sleep(round.millis(5..40));
            }
        });
    }
    let unknown = holders.end(round, &primaries(&cluster));
    round.found.expect(unknown > 0, || "no outcome was unknown".to_owned());
}

fn kill(round: &mut Round) {
    let settings = Settings::new(round.software()).persistence(Persistence::EveryWrite);
    let cluster = Cluster::with(&settings).calm();
    let mut holders = start(&cluster, Data::Kept, round);
    for _ in 0..2 {
        holders.in_trouble(round, |round| {
            let slot = held_slot(round, &cluster);
            let primary = cluster.kill_primary_of(slot);
            sleep(round.millis(20..200));
            primary.start_again(Data::Kept);
            // It serves its slots once it has heard from the others.
            let _ = cluster.primary_of(slot);
        });
    }
    holders.end(round, &primaries(&cluster));
}

fn loss(round: &mut Round) {
    let cluster = Cluster::start(round.software());
    let mut holders = start(&cluster, Data::Lost, round);
    holders.in_trouble(round, |round| {
        let slot = held_slot(round, &cluster);
        cluster.kill_primary_of(slot);
        // Comes back when the replica has taken over.
        let _ = cluster.primary_of(slot);
    });
    holders.end(round, &primaries(&cluster));
}

/// Starts to hold, at first in peace: a denial proves something only before an outcome is unknown.
fn start(cluster: &Cluster, data: Data, round: &mut Round) -> Holders {
    let holders = Holders::start_with(KEYS, &url(cluster), data, round);
    sleep(round.millis(200..400));
    holders
}

impl Disturbance {
    fn occur(self, round: &mut Round, cluster: &Cluster) {
        let slot = held_slot(round, cluster);
        match self {
            Self::Hang => {
                let primary = cluster.primary_of(slot);
                primary.pause();
                sleep(round.millis(5..400));
                primary.resume();
            }
            Self::Cut => {
                for _ in 0..5 {
                    let primary = cluster.primary_of(held_slot(round, cluster));
                    primary.command::<u64>(["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
                    sleep(round.millis(0..20));
                }
            }
            Self::Move => {
                let migration = cluster.migrate(slot, cluster.other_primary(slot));
                sleep(round.millis(0..30));
                // From the first key on, the old owner says ASK; between two of one step, TRYAGAIN.
                while migration.move_keys(10) > 0 {
                    sleep(round.millis(0..10));
                }
                migration.finish();
            }
            Self::FailOver => {
                cluster.fail_over(slot);
            }
        }
    }
}

/// The slot of a key that is held.
fn held_slot(round: &mut Round, cluster: &Cluster) -> u16 {
    cluster.slot_of(&format!("{{{}}}", key_name(round.rng.usize(0..KEYS))))
}

/// Puts a proxy before each primary, and comes back when all nodes send clients there.
fn proxies(primaries: &[&Server], nodes: &[Server]) -> Vec<FaultProxy> {
    let before = |primary: &&Server| {
        let proxy = FaultProxy::before(primary.address());
        let port = proxy.address().port().to_string();
        primary.command::<()>(["CONFIG", "SET", "cluster-announce-port", &port]);
        proxy
    };
    let (proxies, start): (Vec<FaultProxy>, _) = (primaries.iter().map(before).collect(), Instant::now());
    let knows_all = |node: &Server| {
        let seen: String = node.command(["CLUSTER", "NODES"]);
        proxies.iter().all(|proxy| seen.contains(&format!(":{}@", proxy.address().port())))
    };
    while !nodes.iter().all(knows_all) {
        assert!(start.elapsed() < Duration::from_secs(60), "a node sends clients past the proxies");
        sleep(Duration::from_millis(10));
    }
    proxies
}
