//! What happens to stores and services while overrides are changed.

use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::Value;
use tollgate_testkit::servers::{Data, SLOTS};

use crate::found::Found;
use crate::service::Ending;
use crate::site::Site;
use crate::versions::Version;
use crate::world::World;

/// A kind of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// None at all.
    Peace,
    /// The store stands still for seconds.
    Stop,
    /// The store is killed, and started again with what it has acknowledged.
    Kill,
    /// The store is started again without any data.
    Loss,
    /// A service is ended or killed, and started again.
    Restart,
    /// A replica takes over, as an operator has it.
    FailOver,
    /// The primary is killed after its last changes did not reach the replica.
    LossyFailOver,
}

/// How long a stopped store stands still: long enough for services to notice.
const STOPPED: Duration = Duration::from_millis(2_500);

/// How long a store works before it is in trouble again: as long as a driver needs to learn what became of changes.
const CALM: Duration = Duration::from_secs(3);

/// How long services may need to notice what became of the store.
const PATIENCE: Duration = Duration::from_secs(30);

impl Trouble {
    /// Brings it about once.
    pub(crate) fn happen(self, world: &World, rng: &mut Rng, found: &mut Found) {
        thread::sleep(Duration::from_millis(rng.u64(100..600)));
        match self {
            Self::Peace => {}
            Self::Stop => {
                thread::sleep(CALM);
                let server = world.site.single();
                world.during_outage(false, || {
                    server.pause();
                    thread::sleep(STOPPED);
                    expect_stale(world, true, found);
                    server.resume();
                    expect_stale(world, false, found);
                });
            }
            Self::Kill => {
                thread::sleep(CALM);
                world.during_outage(false, || {
                    world.site.single().restart(Data::Kept);
                    expect_stale(world, false, found);
                });
            }
            Self::Loss => world.begin_era(|| {
                world.site.single().restart(Data::Lost);
                until(|| versions(world) == [None, None]);
                0
            }),
            Self::Restart => {
                let ending = if rng.bool() { Ending::Terminated } else { Ending::Killed };
                world.services.restart(rng.usize(0..2), ending);
            }
            Self::FailOver => world.begin_era(|| {
                match &world.site {
                    Site::Cluster(cluster) => {
                        for third in 0..3 {
                            cluster.fail_over(third * (SLOTS / 3) + 1);
                        }
                    }
                    site => _ = site.sentinels().fail_over(),
                }
                kept(world)
            }),
            Self::LossyFailOver => {
                let sentinels = world.site.sentinels();
                let replica = sentinels.replica();
                // A replica that cannot log in falls behind. Changes are made meanwhile.
                replica.command::<()>(["CONFIG", "SET", "masterauth", "wrong"]);
                let _: Option<u64> = replica.try_command(["CLIENT", "KILL", "TYPE", "master"]).ok();
                thread::sleep(Duration::from_millis(rng.u64(300..900)));
                let mut killed = None;
                world.begin_era(|| {
                    killed = Some(sentinels.kill_primary());
                    let _ = sentinels.primary();
                    kept(world)
                });
                // For the next failover.
                replica.command::<()>(["CONFIG", "SET", "masterauth", "testkit"]);
                killed.into_iter().for_each(|killed| killed.start_again(Data::Lost));
            }
        }
    }
}

/// The number of the last change that is left, once both services agree on it.
fn kept(world: &World) -> u64 {
    let mut agreed = None;
    until(|| {
        let [first, second] = versions(world);
        let is_same = first == second && agreed == Some(first) && !any_stale(world);
        agreed = Some(first);
        // For longer than a service goes on with what it has read before.
        thread::sleep(Duration::from_millis(1_200));
        is_same
    });
    agreed.flatten().map_or(0, |version| version.number)
}

/// Waits until both services say that they are stale, or that they are not.
fn expect_stale(world: &World, is_stale: bool, found: &mut Found) {
    for service in 0..2 {
        let began = Instant::now();
        let said = || list(world, service)["stale"].as_bool();
        while said() != Some(is_stale) && began.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(20));
        }
        found.expect(began.elapsed() < PATIENCE, || format!("service {service} is not stale={is_stale}"));
    }
}

fn any_stale(world: &World) -> bool {
    (0..2).any(|service| list(world, service)["stale"] != false)
}

fn versions(world: &World) -> [Option<Version>; 2] {
    [0, 1].map(|service| list(world, service)["overrides_version"].as_str().and_then(Version::read))
}

/// The first page of the list of overrides.
fn list(world: &World, service: usize) -> Value {
    let reply = world.services.ask_admin(service, "GET", "/v1/overrides?limit=1", None);
    serde_json::from_slice(&reply.body).unwrap_or(Value::Null)
}

fn until(mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < 2 * PATIENCE, "the services do not agree");
        thread::sleep(Duration::from_millis(20));
    }
}
