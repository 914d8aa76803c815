//! What the parts of a round share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, RwLock, RwLockReadGuard};
use std::thread;
use std::time::Duration;

use fastrand::Rng;

use crate::moment::Moment;
use crate::service::Services;
use crate::site::Site;
use crate::versions::Era;

/// A round as it runs.
pub(crate) struct World {
    pub(crate) site: Site,
    pub(crate) services: Services,
    is_over: AtomicBool,
    /// Changes that are still to be made.
    left: AtomicU32,
    /// The number of a change from which on drivers make no other for now.
    halt: AtomicU64,
    /// Raised when counts may be lost: clients then go on with new users.
    generation: AtomicU64,
    /// The eras that have begun. Drivers change overrides while they hold it for reading.
    eras: RwLock<Vec<Era>>,
    users: Mutex<BTreeMap<usize, Vec<String>>>,
    /// When the store did not answer, or lost counts.
    outages: Mutex<Vec<Outage>>,
    /// When this process did not run.
    pauses: Mutex<Vec<(Moment, Moment)>>,
}

/// A time in which the store may not answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outage {
    pub(crate) from: Moment,
    /// `None` as long as it lasts.
    pub(crate) to: Option<Moment>,
    /// Whether it may lose counts.
    pub(crate) loses_counts: bool,
}

/// What happened in a round besides.
pub(crate) struct Circumstances {
    pub(crate) eras: Vec<Era>,
    pub(crate) outages: Vec<Outage>,
    pub(crate) pauses: Vec<(Moment, Moment)>,
}

/// This process is called late if it sleeps for so much longer than it wants.
const LATE: Duration = Duration::from_millis(50);

impl World {
    pub(crate) fn new(site: Site, services: Services, changes: u32) -> Self {
        let now = Moment::now();
        Self {
            site,
            services,
            is_over: AtomicBool::new(false),
            left: AtomicU32::new(changes),
            halt: AtomicU64::new(u64::MAX),
            generation: AtomicU64::new(0),
            eras: RwLock::new(vec![Era { kept: 0, begun: now, settled: now }]),
            users: Mutex::default(),
            outages: Mutex::default(),
            pauses: Mutex::default(),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(SeqCst)
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, SeqCst);
    }

    /// Whether changes are still to be made.
    pub(crate) fn wants_changes(&self) -> bool {
        !self.is_over() && self.left.load(SeqCst) > 0
    }

    /// Has no more changes made.
    pub(crate) fn stop_changes(&self) {
        self.left.store(0, SeqCst);
    }

    /// Counts a change that was made.
    pub(crate) fn count_change(&self) {
        let _ = self.left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
    }

    pub(crate) fn halt(&self) -> u64 {
        self.halt.load(SeqCst)
    }

    /// Lets drivers make changes up to this number. Each may make one more that it has begun.
    pub(crate) fn halt_at(&self, number: u64) {
        self.halt.store(number, SeqCst);
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(SeqCst)
    }

    pub(crate) fn set_users(&self, client: usize, users: Vec<String>) {
        self.users.lock().expect("no panic").insert(client, users);
    }

    /// The users that clients ask for now.
    pub(crate) fn users(&self) -> Vec<String> {
        self.users.lock().expect("no panic").values().flatten().cloned().collect()
    }

    /// The eras so far. While somebody has them, none begins.
    pub(crate) fn eras(&self) -> RwLockReadGuard<'_, Vec<Era>> {
        self.eras.read().expect("no panic")
    }

    /// Runs a failover while nothing is changed. It returns the number of the last change that is left.
    pub(crate) fn begin_era(&self, fail_over: impl FnOnce() -> u64) {
        let mut eras = self.eras.write().expect("no panic");
        let begun = Moment::now();
        let kept = self.during_outage(true, fail_over);
        eras.push(Era { kept, begun, settled: Moment::now() });
    }

    /// Runs something during which the store may not answer.
    pub(crate) fn during_outage<T>(&self, loses_counts: bool, cause: impl FnOnce() -> T) -> T {
        let place = {
            let mut outages = self.outages.lock().expect("no panic");
            outages.push(Outage { from: Moment::now(), to: None, loses_counts });
            outages.len() - 1
        };
        self.generation.fetch_add(u64::from(loses_counts), SeqCst);
        let caused = cause();
        self.outages.lock().expect("no panic")[place].to = Some(Moment::now());
        self.generation.fetch_add(u64::from(loses_counts), SeqCst);
        caused
    }

    /// Notes when this process does not run, until the round is over.
    pub(crate) fn watch_itself(&self) {
        let step = Duration::from_millis(10);
        while !self.is_over() {
            let before = Moment::now();
            thread::sleep(step);
            let after = Moment::now();
            if after.since(before) > step + LATE {
                self.pauses.lock().expect("no panic").push((before, after));
            }
        }
    }

    /// Lets changes be made for a while without trouble, unless none is wanted any more.
    pub(crate) fn calm_down(&self, rng: &mut Rng) {
        let until = Moment::now().later(Duration::from_millis(rng.u64(0..2_500)));
        while self.wants_changes() && Moment::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Leaves the processor to others.
    pub(crate) fn pace(&self) {
        thread::sleep(Duration::from_micros(500));
    }

    pub(crate) fn circumstances(&self) -> Circumstances {
        Circumstances {
            eras: self.eras().clone(),
            outages: self.outages.lock().expect("no panic").clone(),
            pauses: self.pauses.lock().expect("no panic").clone(),
        }
    }
}

impl Outage {
    /// Whether any of this time may be in it, or within so much after it.
    pub(crate) fn meets(&self, from: Moment, to: Moment, after: Duration) -> bool {
        self.from <= to && self.to.is_none_or(|end| from <= end.later(after))
    }
}
