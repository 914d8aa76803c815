//! What happens to stores and services while overrides are changed.

use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::Value;
use tollgate_testkit::servers::{Data, SLOTS, Sentinels};

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
    /// The same, while one service does not run. It goes on when other changes have the numbers of those that are lost.
    Recurrence,
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
                let is_empty = until(|| [0, 1].map(|service| version(world, service)) == [None, None]);
                found.expect(is_empty, || "a service goes on with overrides that are lost".to_owned());
                0
            }),
            Self::Restart => {
                let ending = if rng.bool() { Ending::Terminated } else { Ending::Killed };
                world.services.restart(rng.usize(0..2), ending);
            }
            Self::FailOver => {
                world.begin_era(|| {
                    match &world.site {
                        Site::Cluster(cluster) => {
                            for third in 0..3 {
                                cluster.fail_over(third * (SLOTS / 3) + 1);
                            }
                        }
                        site => _ = site.sentinels().fail_over(),
                    }
                    kept(world, &[0, 1], found)
                });
                world.calm_down(rng);
            }
            Self::LossyFailOver => lose_changes(world, rng, |sentinels, _| {
                world.begin_era(|| {
                    kill_primary(sentinels);
                    kept(world, &[0, 1], found)
                });
            }),
            Self::Recurrence => lose_changes(world, rng, |sentinels, rng| {
                let paused = rng.usize(0..2);
                world.begin_era(|| {
                    let known = version(world, paused).map_or(0, |version| version.number);
                    world.services.pause(paused);
                    kill_primary(sentinels);
                    // Some numbers are the same, and some are a few more.
                    world.halt_at(known + rng.u64(0..3));
                    kept(world, &[1 - paused], found)
                });
                until(|| {
                    let reached = version(world, 1 - paused).map_or(0, |version| version.number);
                    reached >= world.halt() || !world.wants_changes()
                });
                world.services.resume(paused);
                let _ = kept(world, &[0, 1], found);
                world.services.show(paused);
                world.halt_at(u64::MAX);
            }),
        }
    }
}

/// Makes changes that do not reach the replica, does something, and starts again what was killed.
fn lose_changes(world: &World, rng: &mut Rng, fail_over: impl FnOnce(&Sentinels, &mut Rng)) {
    let sentinels = world.site.sentinels();
    let replica = sentinels.replica();
    // A replica that cannot log in falls behind. Changes are made meanwhile.
    replica.command::<()>(["CONFIG", "SET", "masterauth", "wrong"]);
    let _: Option<u64> = replica.try_command(["CLIENT", "KILL", "TYPE", "master"]).ok();
    thread::sleep(Duration::from_millis(rng.u64(300..900)));
    fail_over(sentinels, rng);
    let killed = sentinels.servers().iter().filter(|server| !server.is_running());
    killed.for_each(|killed| killed.start_again(Data::Lost));
    // For the next failover. A server that was promoted has written the wrong one into its configuration.
    let servers = sentinels.servers().iter();
    servers.for_each(|server| server.command::<()>(["CONFIG", "SET", "masterauth", "testkit"]));
    world.calm_down(rng);
}

fn kill_primary(sentinels: &Sentinels) {
    let _ = sentinels.kill_primary();
    let _ = sentinels.primary();
}

/// The number of the last change that is left, once these services agree on it.
fn kept(world: &World, services: &[usize], found: &mut Found) -> u64 {
    let mut agreed = None;
    let do_agree = until(|| {
        let versions: Vec<_> = services.iter().map(|service| version(world, *service)).collect();
        let is_stale = services.iter().any(|service| list(world, *service)["stale"] != false);
        let first = versions[0];
        let is_same = versions.iter().all(|version| *version == first) && agreed == Some(first) && !is_stale;
        agreed = Some(first);
        // For longer than a service goes on with what it has read before.
        thread::sleep(Duration::from_millis(1_200));
        is_same
    });
    found.expect(do_agree, || format!("services {services:?} do not agree on a version after a failover"));
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

fn version(world: &World, service: usize) -> Option<Version> {
    list(world, service)["overrides_version"].as_str().and_then(Version::read)
}

/// The first page of the list of overrides.
fn list(world: &World, service: usize) -> Value {
    let reply = world.services.ask_admin(service, "GET", "/v1/overrides?limit=1", None);
    serde_json::from_slice(&reply.body).unwrap_or(Value::Null)
}

/// Waits until this holds. Returns whether it does.
fn until(mut holds: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while !holds() {
        if began.elapsed() > PATIENCE {
            return false;
        }
        thread::sleep(Duration::from_millis(20));
    }
    true
}
