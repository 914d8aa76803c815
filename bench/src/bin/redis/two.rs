//! Two processes that count in one store: each has a runtime and connections of its own.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use tokio::runtime::Runtime;
use tollgate::Quota;
use tollgate_testkit::servers::{ByteDirection, FaultProxy};

use crate::askers::{NEVER_REACHED, Ours};
use crate::course::{Course, Tally, runtime};
use crate::delay::DELAY;
use crate::store::Store;

/// The limit that both get together. Each asks as often.
const LIMIT: u32 = 10_000;

/// How many keys were used up.
static USED_UP: AtomicU64 = AtomicU64::new(0);

pub(crate) struct Two {
    processes: [Process; 2],
    _proxy: Option<FaultProxy>,
}

struct Process {
    /// With a limit that no key reaches.
    endless: Ours,
    limited: Ours,
    // Dropped after everything that has connections.
    runtime: Runtime,
}

impl Two {
    pub(crate) fn near(store: &Store) -> Result<Self> {
        Self::at(store, store.address(), None)
    }

    /// The same with a store that is far away. Then what so many callers get is bounded by their wait, and not by the
    /// core that both processes share.
    pub(crate) fn far(store: &Store) -> Result<Self> {
        let proxy = FaultProxy::before(store.address());
        proxy.delay(ByteDirection::Reply, DELAY);
        Self::at(store, proxy.address(), Some(proxy))
    }

    fn at(store: &Store, address: SocketAddr, proxy: Option<FaultProxy>) -> Result<Self> {
        let process = || Process::new(store, address);
        Ok(Self { processes: [process()?, process()?], _proxy: proxy })
    }

    /// The sum of both, with so many callers each. Before that, both use up one limit, and together get exactly that.
    pub(crate) fn both(&self, keys: &[String], callers: usize, length: Duration) -> Result<Tally> {
        let key = format!("both-{}", USED_UP.fetch_add(1, Relaxed));
        let once = || Course::once(&vec![key.clone(); LIMIT as usize]);
        let Tally { admitted, .. } = self.together(once, |process| &process.limited, callers, length)?;
        ensure!(admitted == u64::from(LIMIT), "{admitted} of {LIMIT} admitted");
        self.together(|| Course::endless(keys), |process| &process.endless, callers, length)
    }

    /// One of them, with so many callers.
    pub(crate) fn one(&self, keys: &[String], callers: usize, length: Duration) -> Result<Tally> {
        let [process, _] = &self.processes;
        Course::endless(keys).run(&process.runtime, &process.endless, callers, length)
    }

    fn together(
        &self,
        course: impl Fn() -> Course,
        asker: fn(&Process) -> &Ours,
        callers: usize,
        length: Duration,
    ) -> Result<Tally> {
        let [first, second] =
            self.processes.each_ref().map(|process| (course(), &process.runtime, asker(process)));
        let run = |(course, runtime, asker): &(Course, &Runtime, &Ours)| {
            course.run(runtime, *asker, callers, length)
        };
        let (first, second) = thread::scope(|scope| {
            let second = scope.spawn(|| run(&second));
            (run(&first), second.join())
        });
        let (first, second) = (first?, second.map_err(|_| anyhow!("a process panicked"))??);
        Ok(Tally {
            decisions: first.decisions + second.decisions,
            admitted: first.admitted + second.admitted,
            seconds: first.seconds.max(second.seconds),
        })
    }
}

impl Process {
    fn new(store: &Store, address: SocketAddr) -> Result<Self> {
        let runtime = runtime()?;
        let _inside = runtime.enter();
        let ours = |limit| Ours::over(store.builder_at(address)?, Quota::per_hour(limit));
        let (endless, limited) = (ours(NEVER_REACHED)?, ours(LIMIT)?);
        Ok(Self { endless, limited, runtime })
    }
}
