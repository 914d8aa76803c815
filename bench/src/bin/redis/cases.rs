//! The cases, and their contestants.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::runtime::Runtime;
use tollgate::{Clock as _, Quota, SystemClock};
use tollgate_bench_harness::cpu_time::cpu_time;
use tollgate_bench_harness::keys::write_key;
use tollgate_testkit::servers::Software;

use crate::askers::{Asker, FEW, Increment, NEVER_REACHED, Ours, Script};
use crate::bytes;
use crate::course::{Course, Tally, runtime};
use crate::delay::{self, Far};
use crate::figures::Figure;
use crate::http::{Peer, Services};
use crate::kinds::{Counting, Kinds};
use crate::store::Store;
use crate::two::Two;

/// A single measurement.
pub(crate) struct Case {
    /// The names of results, each with its figure.
    pub(crate) results: &'static [(&'static str, Figure)],
    /// A further figure of ours.
    pub(crate) also: Option<(&'static str, Figure)>,
    /// The peer.
    pub(crate) peer: &'static str,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// This many callers, and a hundred thousand keys.
    Distinct(usize),
    /// The same on a Cluster, where a call only has keys of one slot.
    Slots(usize),
    /// One caller, which waits for each answer.
    Lone,
    /// The same, compared with a plain script.
    LoneScript,
    /// 64 callers, one key.
    Hot,
    /// So many keys of a store that is far away, compared with the same near.
    Delay(usize),
    /// Two processes with this many callers each, compared with one of them.
    TwoProcesses(usize),
    /// The same with a store that is far away.
    TwoFarProcesses(usize),
    /// 64 callers, one key that has used up its limit.
    Denied,
    /// This many callers, and a hundred thousand keys, compared with a peer that counts in the same way.
    Counting(Counting, usize),
    /// The same with 64 callers, compared with fixed windows.
    CountingOverWindows(Counting),
    Http(Peer),
    Bytes,
}

/// Ours, or the peer of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Ours,
    Peer,
}

const SCRIPT: &str = "script";

const KEYS: u32 = 100_000;

const CASES: &[Case] = &[
    calls(
        &[("redis/distinct/64", Figure::Rate), ("redis/store-cpu/64", Figure::StoreMicros)],
        Kind::Distinct(64),
    ),
    calls(&[("redis/distinct/256", Figure::Rate)], Kind::Distinct(256)),
    calls(
        &[("redis/slots/256", Figure::Rate), ("redis/slots-store-cpu/256", Figure::StoreMicros)],
        Kind::Slots(256),
    ),
    case(&[("redis/lone/p50", Figure::Micros)], "INCR", Kind::Lone),
    case(&[("redis/lone-script/p50", Figure::Micros)], SCRIPT, Kind::LoneScript),
    calls(&[("redis/hot/64", Figure::Rate)], Kind::Hot),
    calls(&[("redis/denied-hot", Figure::Rate)], Kind::Denied),
    case(&[("redis/delay/distinct", Figure::Rate)], "no delay", Kind::Delay(KEYS as usize)),
    case(&[("redis/delay/hot", Figure::Rate)], "no delay", Kind::Delay(1)),
    case(&[("redis/two-processes/near", Figure::Rate)], "one process", Kind::TwoProcesses(64)),
    case(&[("redis/two-processes/far", Figure::Rate)], "one process", Kind::TwoFarProcesses(64)),
    counting(
        &[("redis/burst/64", Figure::Rate), ("redis/burst-store-cpu/64", Figure::StoreMicros)],
        Kind::Counting(Counting::Burst, 64),
    ),
    counting(&[("redis/burst/256", Figure::Rate)], Kind::Counting(Counting::Burst, 256)),
    case(
        &[("redis/burst-over-window/64", Figure::StoreMicros)],
        "window",
        Kind::CountingOverWindows(Counting::Burst),
    ),
    counting(
        &[("redis/sliding/64", Figure::Rate), ("redis/sliding-store-cpu/64", Figure::StoreMicros)],
        Kind::Counting(Counting::Sliding, 64),
    ),
    counting(&[("redis/sliding/256", Figure::Rate)], Kind::Counting(Counting::Sliding, 256)),
    case(
        &[("redis/sliding-over-window/64", Figure::StoreMicros)],
        "window",
        Kind::CountingOverWindows(Counting::Sliding),
    ),
    case(&[("redis/http/64", Figure::Rate)], "limitador", Kind::Http(Peer::Limitador)),
    case(&[("redis/http-floor/64", Figure::Rate)], "hyper", Kind::Http(Peer::Hyper)),
    case(&[("redis/bytes", Figure::Bytes)], "SET PX", Kind::Bytes),
];

/// Compares with one call of a script for each decision.
const fn calls(results: &'static [(&'static str, Figure)], kind: Kind) -> Case {
    Case { also: Some(("store_calls", Figure::StoreCalls)), ..case(results, SCRIPT, kind) }
}

/// Compares with one call of a peer's script for each decision.
const fn counting(results: &'static [(&'static str, Figure)], kind: Kind) -> Case {
    let peer = match kind {
        Kind::Counting(Counting::Burst, _) => "redis_rate",
        _ => "upstash",
    };
    Case { peer, ..calls(results, kind) }
}

const fn case(results: &'static [(&'static str, Figure)], peer: &'static str, kind: Kind) -> Case {
    Case { results, also: None, peer, kind }
}

/// The chosen cases, and all their contestants.
pub(crate) struct Cases {
    chosen: Vec<&'static Case>,
    keys: Vec<String>,
    ours: Ours,
    ours_denied: Ours,
    script: Script,
    script_denied: Script,
    increment: Increment,
    slots: Option<Slots>,
    far: Option<Far>,
    two: Option<Two>,
    two_far: Option<Two>,
    kinds: Option<Kinds>,
    services: Option<Services>,
    // Dropped after everything that has connections.
    runtime: Runtime,
    store: Store,
    software: Software,
}

/// A Cluster, and both of its callers.
struct Slots {
    ours: Ours,
    script: Script,
    store: Store,
}

impl Cases {
    /// Starts the store, and connects all contestants.
    pub(crate) fn start(software: Software, service: &Path, filter: &str) -> Result<Self> {
        let is_chosen = |case: &&Case| case.results.iter().any(|(name, _)| name.contains(filter));
        let chosen: Vec<&Case> = CASES.iter().filter(is_chosen).collect();
        ensure!(!chosen.is_empty(), "no case has `{filter}` in its name");
        let store = Store::start(software)?;
        let has = |is_it: fn(Kind) -> bool| chosen.iter().any(|case| is_it(case.kind));
        let services = has(|kind| matches!(kind, Kind::Http(_)))
            .then(|| Services::start(&store, service))
            .transpose()?;
        let with_slots = has(|kind| matches!(kind, Kind::Slots(_)));
        let with_slots = with_slots.then(|| Store::start_with_slots(software)).transpose()?;
        let two = has(|kind| matches!(kind, Kind::TwoProcesses(_)));
        let two = two.then(|| Two::near(&store)).transpose()?;
        let two_far = has(|kind| matches!(kind, Kind::TwoFarProcesses(_)));
        let two_far = two_far.then(|| Two::far(&store)).transpose()?;
        let runtime = runtime()?;
        let _inside = runtime.enter();
        let slots = with_slots.map(|store| Slots::new(store, &runtime)).transpose()?;
        let kinds = has(|kind| matches!(kind, Kind::Counting(..) | Kind::CountingOverWindows(_)));
        let kinds = kinds.then(|| Kinds::start(&store, &runtime)).transpose()?;
        let far = has(|kind| matches!(kind, Kind::Delay(_))).then(|| Far::new(&store)).transpose()?;
        Ok(Self {
            chosen,
            keys: keys(KEYS),
            ours: Ours::new(&store, NEVER_REACHED)?,
            ours_denied: Ours::new(&store, FEW)?,
            script: runtime.block_on(Script::new(&store, NEVER_REACHED))?,
            script_denied: runtime.block_on(Script::new(&store, FEW))?,
            increment: runtime.block_on(Increment::new(&store))?,
            slots,
            far,
            two,
            two_far,
            kinds,
            services,
            runtime,
            store,
            software,
        })
    }

    pub(crate) fn chosen(&self) -> impl Iterator<Item = &Case> {
        self.chosen.iter().copied()
    }

    /// Measures one side once.
    pub(crate) fn measure(&self, case: &Case, side: Side, length: Duration) -> Result<Vec<(Figure, f64)>> {
        let measured = match case.kind {
            Kind::Distinct(callers) => {
                self.admitted(side, (&self.ours, &self.script, &self.store), &self.keys, callers, length)
            }
            Kind::Slots(callers) => {
                let Slots { ours, script, store } = self.slots.as_ref().context("there is no Cluster")?;
                // A new minute has new counters, while those of the script last for an hour.
                if matches!(side, Side::Ours) {
                    Course::once(&self.keys).run(&self.runtime, ours, callers, length)?;
                }
                self.admitted(side, (ours, script, store), &self.keys, callers, length)
            }
            Kind::Hot => {
                let hot = ["hot".to_owned()];
                self.admitted(side, (&self.ours, &self.script, &self.store), &hot, 64, length)
            }
            Kind::Delay(keys) => {
                let Far { ours, .. } = self.far.as_ref().context("there is no proxy")?.turn(side);
                let keys = self.keys.get(..keys).context("there are not so many keys")?;
                self.admitted_by(ours, &self.store, keys, delay::CALLERS, length)
            }
            Kind::TwoProcesses(callers) => self.two(side, self.two.as_ref(), callers, length),
            Kind::TwoFarProcesses(callers) => self.two(side, self.two_far.as_ref(), callers, length),
            Kind::Counting(counting, callers) => self.counting(side, counting, callers, length),
            Kind::CountingOverWindows(counting) => {
                let ours = if side == Side::Ours { self.kinds()?.ours(counting) } else { &self.ours };
                self.admitted_by(ours, &self.store, &self.keys, 64, length)
            }
            Kind::Denied => self.denied(side, &["denied".to_owned()], length),
            Kind::Lone => self.lone(side, &self.increment, length),
            Kind::LoneScript => self.lone(side, &self.script, length),
            Kind::Http(peer) => {
                let services = self.services.as_ref().context("the services were not started")?;
                services.measure(side, peer, &self.store, length)
            }
            Kind::Bytes => Ok(vec![(Figure::Bytes, bytes::measure(&self.runtime, self.software, side)?)]),
        };
        measured.with_context(|| format!("{}, {side:?}", case.name()))
    }

    fn admitted(
        &self,
        side: Side,
        (ours, script, store): (&Ours, &Script, &Store),
        keys: &[String],
        callers: usize,
        length: Duration,
    ) -> Result<Vec<(Figure, f64)>> {
        match side {
            Side::Ours => self.admitted_by(ours, store, keys, callers, length),
            Side::Peer => self.admitted_by(script, store, keys, callers, length),
        }
    }

    fn counting(
        &self,
        side: Side,
        counting: Counting,
        callers: usize,
        length: Duration,
    ) -> Result<Vec<(Figure, f64)>> {
        let (kinds, store, keys) = (self.kinds()?, &self.store, &self.keys);
        match (side, counting) {
            (Side::Ours, _) => self.admitted_by(kinds.ours(counting), store, keys, callers, length),
            (Side::Peer, Counting::Burst) => {
                self.admitted_by(&kinds.redis_rate, store, keys, callers, length)
            }
            (Side::Peer, Counting::Sliding) => self.admitted_by(&kinds.upstash, store, keys, callers, length),
        }
    }

    fn kinds(&self) -> Result<&Kinds> {
        self.kinds.as_ref().context("the other kinds were not started")
    }

    fn admitted_by(
        &self,
        asker: &impl Asker,
        store: &Store,
        keys: &[String],
        callers: usize,
        length: Duration,
    ) -> Result<Vec<(Figure, f64)>> {
        let (tally, measured) = self.crowd(asker, store, &Course::endless(keys), callers, length)?;
        expect_all_admitted(&tally)?;
        Ok(measured)
    }

    fn two(
        &self,
        side: Side,
        two: Option<&Two>,
        callers: usize,
        length: Duration,
    ) -> Result<Vec<(Figure, f64)>> {
        let two = two.context("there are no two processes")?;
        let tally = match side {
            Side::Ours => two.both(&self.keys, callers, length),
            Side::Peer => two.one(&self.keys, callers, length),
        }?;
        expect_all_admitted(&tally)?;
        Ok(vec![(Figure::Rate, tally.decisions as f64 / tally.seconds)])
    }

    fn denied(&self, side: Side, key: &[String], length: Duration) -> Result<Vec<(Figure, f64)>> {
        let keys = vec![key[0].clone(); FEW as usize];
        let (used_up, course) = (Course::once(&keys), Course::endless(key));
        let (tally, measured) = match side {
            Side::Ours => {
                used_up.run(&self.runtime, &self.ours_denied, 1, length)?;
                self.crowd(&self.ours_denied, &self.store, &course, 64, length)
            }
            Side::Peer => {
                used_up.run(&self.runtime, &self.script_denied, 1, length)?;
                self.crowd(&self.script_denied, &self.store, &course, 64, length)
            }
        }?;
        // The measurement may span the end of a window.
        ensure!(tally.admitted <= FEW.into(), "{} admitted", tally.admitted);
        Ok(measured)
    }

    fn lone(&self, side: Side, peer: &impl Asker, length: Duration) -> Result<Vec<(Figure, f64)>> {
        let course = Course::endless(&self.keys);
        let micros = match side {
            Side::Ours => course.lone(&self.runtime, &self.ours, length),
            Side::Peer => course.lone(&self.runtime, peer, length),
        }?;
        Ok(vec![(Figure::Micros, micros)])
    }

    fn crowd(
        &self,
        asker: &impl Asker,
        store: &Store,
        course: &Course,
        callers: usize,
        length: Duration,
    ) -> Result<(Tally, Vec<(Figure, f64)>)> {
        let this = std::process::id();
        let (own, store_time, calls) = (cpu_time(this)?, store.cpu_time()?, store.script_calls());
        let tally = course.run(&self.runtime, asker, callers, length)?;
        let micros = |cpu: Duration| cpu.as_secs_f64() * 1e6 / tally.decisions as f64;
        let store_micros = micros(store.cpu_time()?.saturating_sub(store_time));
        let own = micros(cpu_time(this)?.saturating_sub(own));
        let calls = (store.script_calls() - calls) as f64;
        let measured = vec![
            (Figure::Rate, tally.decisions as f64 / tally.seconds),
            (Figure::StoreMicros, store_micros),
            (Figure::OwnMicros, own),
            (Figure::StoreCalls, calls / tally.seconds),
        ];
        Ok((tally, measured))
    }
}

const MINUTE: u64 = 60_000;

impl Slots {
    /// Connects both callers, and waits until a window begins.
    fn new(store: Store, runtime: &Runtime) -> Result<Self> {
        let ours = Ours::over(store.builder()?, Quota::per_minute(NEVER_REACHED))?;
        let script = runtime.block_on(Script::new(&store, NEVER_REACHED))?;
        // A process asks the servers of a Cluster for more in windows that began before it knew where the slots are.
        let wait = MINUTE - SystemClock.now().as_unix_millis().unsigned_abs() % MINUTE;
        let wait = if wait < 2_000 { wait + MINUTE } else { wait };
        eprintln!("waits {} s, until the next minute begins", wait.div_ceil(1_000));
        std::thread::sleep(Duration::from_millis(wait));
        Ok(Self { ours, script, store })
    }
}

impl Case {
    pub(crate) fn name(&self) -> &'static str {
        self.results.first().map_or("", |(name, _)| name)
    }
}

fn expect_all_admitted(tally: &Tally) -> Result<()> {
    ensure!(tally.admitted == tally.decisions, "{} of {} admitted", tally.admitted, tally.decisions);
    Ok(())
}

fn keys(count: u32) -> Vec<String> {
    let key = |number| {
        let mut text = String::new();
        write_key(&mut text, number);
        text
    };
    (0..count).map(key).collect()
}
