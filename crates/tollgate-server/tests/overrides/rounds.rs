//! Rounds: services and stores, clients and drivers, and one kind of trouble.

use std::thread;
use std::time::Duration;

use fastrand::Rng;
use tollgate_testkit::servers::Software;

use crate::books::{Books, DoubtfulChange, MadeChange};
use crate::canaries;
use crate::client;
use crate::driver::{DRIVERS, Diary, Driver};
use crate::found::Found;
use crate::freshness;
use crate::judge::Judge;
use crate::observation::Observed;
use crate::service::Services;
use crate::site::{Site, SiteKind};
use crate::trouble::Trouble;
use crate::versions::{Era, is_lost};
use crate::world::World;

/// What a round is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Round {
    pub(crate) name: &'static str,
    pub(crate) site: SiteKind,
    pub(crate) trouble: Trouble,
}

/// How strict a round is about time, and what is logged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    /// What may be added to promised times on a machine that is busy.
    pub(crate) bound: Duration,
    pub(crate) log_level: &'static str,
}

/// Clients of a round.
const CLIENTS: usize = 4;

/// How long a service waits for a store, so that a busy machine makes few outcomes unknown.
const DEADLINES: [&str; 4] = ["--store-timeout", "2s", "--store-connect-timeout", "5s"];

pub(crate) const PEACE: Round = Round { name: "peace", site: SiteKind::Single, trouble: Trouble::Peace };
pub(crate) const STOP: Round = Round { name: "stop", site: SiteKind::Single, trouble: Trouble::Stop };
pub(crate) const RESTART: Round =
    Round { name: "restart", site: SiteKind::Single, trouble: Trouble::Restart };
pub(crate) const LOSSY: Round =
    Round { name: "lossy-failover", site: SiteKind::Sentinels, trouble: Trouble::LossyFailOver };

pub(crate) const RECURRENCE: Round =
    Round { name: "recurring-numbers", site: SiteKind::Sentinels, trouble: Trouble::Recurrence };

pub(crate) const ROUNDS: [Round; 10] = [
    PEACE,
    STOP,
    Round { name: "kill", site: SiteKind::Single, trouble: Trouble::Kill },
    Round { name: "loss", site: SiteKind::Single, trouble: Trouble::Loss },
    RESTART,
    Round { name: "sentinel-failover", site: SiteKind::Sentinels, trouble: Trouble::FailOver },
    LOSSY,
    RECURRENCE,
    Round { name: "cluster", site: SiteKind::Cluster, trouble: Trouble::Peace },
    Round { name: "cluster-failover", site: SiteKind::Cluster, trouble: Trouble::FailOver },
];

impl Round {
    /// Makes so many changes, and judges everything that was answered meanwhile.
    pub(crate) fn run(&self, software: Software, seed: u64, changes: u32, manner: Manner) -> Found {
        let mut rng = Rng::with_seed(seed);
        let site = Site::start(self.site, software);
        let arguments = [site.arguments(), &DEADLINES].concat();
        let services = Services::start(&site.url(), &arguments, manner.log_level);
        let world = World::new(site, services, changes);
        let mut found = Found::default();
        let (diaries, observed) = self.play(&world, &mut rng, &mut found);
        let (mut made, mut doubtful) = (Vec::<MadeChange>::new(), Vec::<DoubtfulChange>::new());
        for diary in diaries {
            made.extend(diary.made);
            doubtful.extend(diary.doubtful);
            found.add(diary.found);
        }
        let circumstances = world.circumstances();
        world.site.expect_failovers(circumstances.eras.len() - 1);
        let mut books = Books::new(&circumstances.eras, &made, &doubtful);
        found.violations.append(&mut books.violations);
        for observed in &observed {
            found.add(Judge::new(&books, &circumstances).judge(observed));
        }
        found.figures.lost = lost(&made, &circumstances.eras);
        found.add(freshness::judge(&made, &observed, &circumstances, manner.bound));
        canaries::search(&world, &mut found);
        found.report(&format!("{} {software:?}, seed {seed}", self.name));
        found
    }

    /// Runs drivers and clients, and the trouble again and again as long as changes are made.
    fn play(&self, world: &World, rng: &mut Rng, found: &mut Found) -> (Vec<Diary>, Vec<Vec<Observed>>) {
        thread::scope(|scope| {
            // A panic of one part ends the others.
            let _end = EndOnDrop(world);
            scope.spawn(|| world.watch_itself());
            let clients: Vec<_> = (0..CLIENTS)
                .map(|number| {
                    let rng = rng.fork();
                    scope.spawn(move || client::run(world, number, rng))
                })
                .collect();
            let drivers: Vec<_> = (0..DRIVERS)
                .map(|number| {
                    let driver = Driver::new(world, number, rng.fork());
                    scope.spawn(move || driver.run())
                })
                .collect();
            let mut trouble = self.trouble;
            loop {
                trouble.happen(world, rng, found);
                // What services do not agree on stays so, and each further failover would wait for it.
                if !found.violations.is_empty() {
                    world.stop_changes();
                }
                if !world.wants_changes() || drivers.iter().any(thread::ScopedJoinHandle::is_finished) {
                    break;
                }
                // A node votes for another replica of the same primary only after minutes.
                if self.site == SiteKind::Cluster {
                    trouble = Trouble::Peace;
                }
            }
            let diaries = drivers.into_iter().map(|driver| driver.join().expect("a driver")).collect();
            // The last changes are asked for as well.
            thread::sleep(Duration::from_millis(1_500));
            world.end();
            (diaries, clients.into_iter().map(|client| client.join().expect("a client")).collect())
        })
    }
}

/// How many changes failovers have taken back.
fn lost(made: &[MadeChange], eras: &[Era]) -> u64 {
    made.iter().filter(|change| is_lost(change.era, change.version.number, eras)).count() as u64
}

/// Ends a round even if a part of it fails, because it would never end otherwise.
struct EndOnDrop<'w>(&'w World);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
