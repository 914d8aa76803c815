//! The kinds of histories: on which servers, and in which trouble.

use std::thread::sleep;
use std::time::Duration;

use fastrand::Rng;
use tollgate_testkit::servers::{
    ByteDirection, Cluster, ConnectionEnd, Data, FaultProxy, Persistence, SLOTS, Sentinels, Server, Settings,
    Software,
};

use super::holds::HoldRecorder;
use super::model::{Opens, Terms};
use super::record::{Recorder, stores};
use super::{Loss, Recorded, record, record_holds};
use crate::commands::fail_over;
use crate::{cluster, process, sentinel};

/// Histories on servers of one kind, in one kind of trouble.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Histories for which servers are started once.
    together: u64,
    /// Whether calls without a reply are what its trouble is about.
    pub(crate) leaves_unknown: bool,
    /// Records so many, and some more if the trouble is not over by then.
    record: fn(&mut Round) -> Vec<Recorded>,
}

/// What the histories of a round are made from.
struct Round {
    rng: Rng,
    software: Software,
    count: u64,
    /// Whether they are histories of holds.
    are_holds: bool,
}

/// Low enough that clients are denied. No history crosses the end of such a window.
const LONG: Terms = Terms { limit: 12, window: 3_653 * 86_400_000, opens: Opens::FromEpoch, kind: None };

/// As long, from the first unit on.
const FROM_FIRST_HIT: Terms = Terms { opens: Opens::AtFirstUnit, ..LONG };

/// Of which no unit comes back while a history lasts.
const OTHERS: [Terms; 3] = [
    Terms { kind: Some("1/1d~burst:12"), ..LONG },
    Terms { kind: Some("12/3652d~log"), ..LONG },
    Terms { kind: Some("12/3652d~sliding"), ..LONG },
];

/// Most histories cross the end of one. Its counters do not tell their window.
const SHORT: Terms = Terms { window: 20, ..LONG };

/// The shortest of which counters tell their window.
const NUMBERED: Terms = Terms { window: 1_000, ..LONG };

/// Short enough that a replica whose clock lags is often some windows behind.
const LAGGING: Terms = Terms { window: 250, ..LONG };

/// How long clients wait between two operations, in microseconds.
const PAUSES: std::ops::Range<u64> = 0..2_000;

/// Longer, so that a history lasts for some of its short windows.
const LONG_PAUSES: std::ops::Range<u64> = 0..15_000;

const MANY: u64 = 2_000;

/// Few where a round has one failover: most of the histories of a round have to be running then.
const FEW: u64 = 60;

pub(crate) const SINGLE: Kind =
    Kind { name: "single", together: MANY, leaves_unknown: false, record: single };

/// Short windows, of which histories cross the ends.
pub(crate) const WINDOW_ENDS: Kind =
    Kind { name: "window-ends", together: MANY, leaves_unknown: false, record: window_ends };

/// Connections are cut, and requests and replies held up.
pub(crate) const CUT: Kind =
    Kind { name: "cut", together: MANY, leaves_unknown: true, record: |round| cut(round, LONG) };

/// The same, with windows from the first hit.
pub(crate) const FIRST_HIT: Kind = Kind {
    name: "first-hit",
    together: MANY,
    leaves_unknown: true,
    record: |round| cut(round, FROM_FIRST_HIT),
};

/// The same, with buckets, logs and sliding windows.
pub(crate) const OTHER_KINDS: Kind = Kind {
    name: "other-kinds",
    together: MANY,
    leaves_unknown: true,
    record: |round| {
        round.count = round.count.div_ceil(OTHERS.len() as u64);
        OTHERS.into_iter().flat_map(|terms| cut(round, terms)).collect()
    },
};

/// The server stands still for a while.
pub(crate) const HANG: Kind = Kind { name: "hang", together: MANY, leaves_unknown: true, record: hang };

/// The server is killed, and started again with what it acknowledged.
const RESTART: Kind = Kind { name: "kill", together: MANY, leaves_unknown: true, record: kill };

/// A replica takes over of which the clock lags behind, around the end of a window.
const LAGGING_FAILOVER: Kind =
    Kind { name: "lagging-failover", together: FEW, leaves_unknown: false, record: lagging_failover };

const SENTINEL: Kind =
    Kind { name: "sentinel", together: MANY, leaves_unknown: false, record: healthy_sentinels };
const SENTINEL_FAILOVER: Kind =
    Kind { name: "sentinel-failover", together: FEW, leaves_unknown: false, record: sentinel_failover };
const SENTINEL_KILL: Kind =
    Kind { name: "sentinel-kill", together: FEW, leaves_unknown: false, record: sentinel_kill };

const CLUSTER: Kind =
    Kind { name: "cluster", together: MANY, leaves_unknown: false, record: healthy_cluster };

/// As agreed: nothing is lost.
const CLUSTER_FAILOVER: Kind =
    Kind { name: "cluster-failover", together: MANY, leaves_unknown: false, record: cluster_failover };
const CLUSTER_KILL: Kind =
    Kind { name: "cluster-kill", together: FEW, leaves_unknown: false, record: cluster_kill };

/// Holds of one key, without trouble.
pub(crate) const HOLDS: Kind =
    Kind { name: "holds", together: MANY, leaves_unknown: false, record: |round| single(round.of_holds()) };

/// Holds over connections that are cut and held up.
pub(crate) const HOLDS_CUT: Kind = Kind {
    name: "holds-cut",
    together: MANY,
    leaves_unknown: true,
    record: |round| cut(round.of_holds(), LONG),
};

/// Holds on a server that stands still for a while.
const HOLDS_HANG: Kind =
    Kind { name: "holds-hang", together: MANY, leaves_unknown: true, record: |round| hang(round.of_holds()) };

/// Holds on a server that is killed, and started again with what it acknowledged. Few at a time: a hasty store on a busy
/// machine is hardly served as long as the server is killed again and again.
const HOLDS_RESTART: Kind =
    Kind { name: "holds-kill", together: FEW, leaves_unknown: true, record: |round| kill(round.of_holds()) };

/// Holds behind Sentinels, undisturbed.
const HOLDS_SENTINEL: Kind = Kind {
    name: "holds-sentinel",
    together: MANY,
    leaves_unknown: false,
    record: |round| healthy_sentinels(round.of_holds()),
};

/// Holds in a Cluster of which replicas take over as agreed: nothing is lost.
const HOLDS_CLUSTER_FAILOVER: Kind = Kind {
    name: "holds-cluster-failover",
    together: MANY,
    leaves_unknown: false,
    record: |round| cluster_failover(round.of_holds()),
};

pub(crate) const KINDS: [&Kind; 20] = [
    &SINGLE,
    &WINDOW_ENDS,
    &CUT,
    &FIRST_HIT,
    &OTHER_KINDS,
    &HANG,
    &RESTART,
    &LAGGING_FAILOVER,
    &SENTINEL,
    &SENTINEL_FAILOVER,
    &SENTINEL_KILL,
    &CLUSTER,
    &CLUSTER_FAILOVER,
    &CLUSTER_KILL,
    &HOLDS,
    &HOLDS_CUT,
    &HOLDS_HANG,
    &HOLDS_RESTART,
    &HOLDS_SENTINEL,
    &HOLDS_CLUSTER_FAILOVER,
];

impl Kind {
    pub(super) fn record(&self, seed: u64, count: u64) -> Vec<Recorded> {
        let software = Software::ALL[(seed % Software::ALL.len() as u64) as usize];
        // So that short proofs have both kinds of servers.
        let count = count.min(self.together);
        (self.record)(&mut Round { rng: Rng::with_seed(seed), software, count, are_holds: false })
    }
}

impl Round {
    fn of_holds(&mut self) -> &mut Self {
        self.are_holds = true;
        self
    }

    fn record(
        &mut self,
        url: &str,
        terms: Terms,
        loss: Loss,
        trouble: impl FnMut(&mut Rng),
    ) -> Vec<Recorded> {
        if self.are_holds {
            return record_holds(HoldRecorder::new(stores(url), PAUSES), &mut self.rng, self.count, trouble);
        }
        let ends = terms.window != LONG.window;
        let pauses = if ends { LONG_PAUSES } else { PAUSES };
        // A failover can be at any time in a window, and should find running histories.
        let before_ends = ends && loss == Loss::Nothing;
        let recorder = Recorder::new(stores(url), terms, pauses, before_ends);
        record(recorder, &mut self.rng, self.count, loss, trouble)
    }

    fn in_peace(&mut self, url: &str, terms: Terms) -> Vec<Recorded> {
        self.record(url, terms, Loss::Nothing, |_| sleep(Duration::from_millis(1)))
    }
}

/// A random time of so many milliseconds.
fn millis(rng: &mut Rng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(rng.u64(range))
}

fn single(round: &mut Round) -> Vec<Recorded> {
    let server = Server::start(round.software);
    round.in_peace(&process::url(&server), LONG)
}

fn window_ends(round: &mut Round) -> Vec<Recorded> {
    let server = Server::start(round.software);
    let url = process::url(&server);
    round.count = round.count.div_ceil(2);
    [SHORT, NUMBERED].into_iter().flat_map(|terms| round.in_peace(&url, terms)).collect()
}

fn cut(round: &mut Round, terms: Terms) -> Vec<Recorded> {
    let server = Server::start(round.software);
    let proxy = FaultProxy::before(server.address());
    round.record(&format!("redis://{}", proxy.address()), terms, Loss::Nothing, |rng| {
        let way = [ByteDirection::Request, ByteDirection::Reply][rng.usize(0..2)];
        match rng.u8(0..4) {
            0 => proxy.sever(ConnectionEnd::Reset),
            1 => proxy.cut(way, rng.u64(0..2_000), ConnectionEnd::Close),
            2 => {
                proxy.hold(way);
                sleep(millis(rng, 1..50));
                if rng.bool() {
                    proxy.sever(ConnectionEnd::Reset);
                }
                proxy.release(way);
            }
            _ => {
                proxy.delay(way, millis(rng, 5..30));
                sleep(millis(rng, 5..50));
                proxy.heal();
            }
        }
        sleep(millis(rng, 5..40));
    })
}

fn hang(round: &mut Round) -> Vec<Recorded> {
    let server = Server::start(round.software);
    round.record(&process::url(&server), LONG, Loss::Nothing, |rng| {
        server.pause();
        sleep(millis(rng, 5..80));
        server.resume();
        sleep(millis(rng, 5..40));
    })
}

fn kill(round: &mut Round) -> Vec<Recorded> {
    let server = Settings::new(round.software).persistence(Persistence::EveryWrite).start();
    round.record(&process::url(&server), LONG, Loss::Nothing, |rng| {
        server.restart(Data::Kept);
        sleep(millis(rng, 20..100));
    })
}

fn lagging_failover(round: &mut Round) -> Vec<Recorded> {
    let [primary, replica] = crate::commands::pair(&Settings::new(round.software).steered_clock());
    let proxy = FaultProxy::before(primary.address());
    replica.clock().step(-round.rng.i64(1..900));
    let terms = if round.rng.bool() { LAGGING } else { NUMBERED };
    round.record(&format!("redis://{}", proxy.address()), terms, Loss::Failover, |rng| {
        // What the primary acknowledges from here on is lost.
        replica.command::<()>(["REPLICAOF", "NO", "ONE"]);
        sleep(millis(rng, 5..50));
        fail_over(&primary, &replica, &proxy);
    })
}

fn healthy_sentinels(round: &mut Round) -> Vec<Recorded> {
    let sentinels = Sentinels::start(round.software);
    round.in_peace(&sentinel::url(&sentinels), LONG)
}

fn sentinel_failover(round: &mut Round) -> Vec<Recorded> {
    let sentinels = Sentinels::start(round.software);
    round.record(&sentinel::url(&sentinels), LONG, Loss::Failover, |_| {
        sentinels.fail_over();
    })
}

fn sentinel_kill(round: &mut Round) -> Vec<Recorded> {
    let sentinels = Sentinels::start(round.software);
    round.record(&sentinel::url(&sentinels), LONG, Loss::Failover, |_| {
        sentinels.kill_primary();
        let _ = sentinels.primary();
    })
}

fn healthy_cluster(round: &mut Round) -> Vec<Recorded> {
    let cluster = Cluster::start(round.software).calm();
    round.in_peace(&cluster::url(&cluster), LONG)
}

fn cluster_failover(round: &mut Round) -> Vec<Recorded> {
    let cluster = Cluster::start(round.software).calm();
    let first = round.rng.u16(0..SLOTS);
    // Of one primary after another: a node votes for another replica of the same one after minutes.
    let mut slots = [0, 1, 2].map(|third| (first + third * (SLOTS / 3)) % SLOTS).into_iter();
    round.record(&cluster::url(&cluster), LONG, Loss::Nothing, |rng| {
        if let Some(slot) = slots.next() {
            cluster.fail_over(slot);
        }
        sleep(millis(rng, 10..50));
    })
}

fn cluster_kill(round: &mut Round) -> Vec<Recorded> {
    let cluster = Cluster::start(round.software);
    let slot = round.rng.u16(0..SLOTS);
    round.record(&cluster::url(&cluster), LONG, Loss::Failover, |_| {
        cluster.kill_primary_of(slot);
        let _ = cluster.primary_of(slot);
    })
}
