//! Models of the slot protocol: loom runs a few steps of two or three threads in every order that they can take,
//! and lets every load see every value that its ordering allows.
//!
//! A model is a [`Scene`]. In some order of its steps, the simulation's [ledger](super::sim) has to agree with all
//! answers and with what is stored in the end: then no limit is passed, nobody is denied for nothing, no unit is lost
//! or doubled, and several charges are made together or not at all. Loom finds deadlocks, and waits for something that
//! no thread will do.
//!
//! The first orders with one preemption are run, and the first with two: [`ORDERS`] of each, or as many as
//! `TOLLGATE_ORDERS` says. With `LOOM_MAX_PREEMPTIONS`, all orders with as many preemptions are run instead, and scenes that
//! have another thread get it.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use loom::model::Builder;
use loom::sync::atomic::AtomicI64;

use super::super::fingerprint::Fingerprinter;
use super::super::shard::Look;
use super::super::*;
use super::sim::answer::{Answer, Event, History, Reading, State, Step};
use super::sim::conversion::{quota, state};
use super::sim::linearize::{Linearization, linearize};
use super::sim::terms::{Cut, Denials, Terms};
use super::sim::trace::trace;
use super::sim::world::{self, Ask, Ticks, World};
use crate::{Key, PolicyQuota};

/// The keys of all scenes. If a scene does not say where they are at home, A and B meet in the first slot as long
/// as a shard has two; A moves on when it has four, and C is out of their way.
const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

/// Lengths of windows in milliseconds. Windows that do not end on a whole second are left under the lock.
const SECOND: i64 = 1_000;
const PARTS: i64 = 300;

/// How many orders are run unless `TOLLGATE_ORDERS` says otherwise. They take some seconds; for some models all orders
/// take more than a minute. Most models have fewer with one preemption.
const ORDERS: usize = 10_000;

/// When scenes begin: windows of both lengths begin then.
const START: i64 = 1_700_000_040_000;

/// A step, or the passing of time.
#[derive(Debug, Clone, Copy)]
enum Op {
    /// Charges a key so many units.
    Charge(usize, u32),
    /// Charges two keys one unit each, or none.
    Both(usize, usize),
    Peek(usize),
    Set(usize, u64),
    Reset(usize),
    /// Moves the clock by so many windows.
    Pass(i64),
}

/// Steps of some threads on one store.
struct Scene {
    limit: u64,
    /// If the quota is a bucket.
    burst: Option<u64>,
    window: i64,
    cap: Cap,
    homes: [Home; 3],
    before: Vec<Op>,
    threads: Vec<Vec<Op>>,
    /// Another thread, if more is asked for than two preemptions.
    deeper: Vec<Op>,
}

/// Where keys should be.
#[derive(Clone, Copy)]
enum Home {
    /// In one shard, in this of its four slots.
    Slot(usize),
    /// In this of two shards.
    Shard(usize),
}

impl Scene {
    fn new<const THREADS: usize>(limit: u64, threads: [&[Op]; THREADS]) -> Self {
        Self {
            limit,
            burst: None,
            window: SECOND,
            // The least memory is one shard.
            cap: Cap::Bytes(0),
            homes: [Home::Slot(1), Home::Slot(0), Home::Slot(2)],
            before: Vec::new(),
            threads: threads.map(<[Op]>::to_vec).into(),
            deeper: Vec::new(),
        }
    }

    fn before(self, before: &[Op]) -> Self {
        Self { before: before.to_vec(), ..self }
    }

    fn deeper(self, deeper: &[Op]) -> Self {
        Self { deeper: deeper.to_vec(), ..self }
    }

    /// In a bucket, instead of windows.
    fn in_a_bucket(self, burst: u64) -> Self {
        Self { burst: Some(burst), ..self }
    }

    fn in_parts_of_a_second(self) -> Self {
        Self { window: PARTS, ..self }
    }

    fn homes(self, homes: [Home; 3]) -> Self {
        Self { homes, ..self }
    }

    /// Holds at most so many keys, in a shard for each two.
    fn max_counters(self, keys: usize) -> Self {
        Self { cap: Cap::Counters(keys), ..self }
    }

    fn terms(&self) -> Terms {
        let (burst, cut) = match self.burst {
            Some(burst) => (burst, Cut::Burst(self.window)),
            None => (0, Cut::Epoch(self.window)),
        };
        Terms { policy: "", limit: self.limit, burst, cut, denials: Denials::Free }
    }

    /// The scene in the terms of the ledger, which needs to know the keys and how many threads there are.
    fn world(&self, cap: usize) -> World {
        let keys = [A, B, C].map(|key| Ask { quota: 0, key, cost: 0 });
        let mut threads = vec![Vec::new(); self.threads.len()];
        threads[0] = vec![world::Op::Peek(keys.into())];
        World {
            start: START,
            ticks: Ticks { length: 0, missed: 0 },
            cap,
            naming: world::Naming::Off,
            hash: 0,
            quotas: vec![self.terms()],
            drifts: Vec::new(),
            threads,
            order: 0,
        }
    }

    /// Runs the scene in the first orders with one preemption and with two, or in all that have as many preemptions as
    /// `LOOM_MAX_PREEMPTIONS` allows.
    fn run(mut self) {
        let asked = Builder::new().preemption_bound;
        if asked.is_some() {
            self.threads.extend((!self.deeper.is_empty()).then(|| std::mem::take(&mut self.deeper)));
        }
        let quota = Arc::new(quota(&self.terms()));
        let keys = Arc::new(keys(&quota, self.homes));
        let scene = Arc::new(self);
        match asked {
            Some(preemptions) => explore(&scene, &quota, &keys, preemptions, usize::MAX),
            None => {
                let orders =
                    std::env::var("TOLLGATE_ORDERS").map_or(ORDERS, |orders| orders.parse().unwrap());
                explore(&scene, &quota, &keys, 1, orders);
                explore(&scene, &quota, &keys, 2, orders);
            }
        }
    }
}

/// Runs the scene in its orders with so many preemptions, but in no more than `most` orders, and prints how many there
/// were.
fn explore(
    scene: &Arc<Scene>,
    quota: &Arc<PolicyQuota>,
    keys: &Arc<[Key<'static>; 3]>,
    preemptions: usize,
    most: usize,
) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_permutations = (most < usize::MAX).then_some(most);
    builder.max_branches = 10_000;
    // How often it looks at the time.
    builder.checkpoint_interval = 1_000;
    let (start, limit) = (Instant::now(), builder.max_duration);
    let orders = Arc::new(AtomicUsize::new(0));
    let (scene, quota, keys, counted) =
        (Arc::clone(scene), Arc::clone(quota), Arc::clone(keys), Arc::clone(&orders));
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Stage::new(&scene, &quota, &keys).play();
    });
    let name = std::thread::current().name().and_then(|name| name.rsplit("::").next().map(str::to_owned));
    let (name, elapsed) = (name.unwrap_or_default(), start.elapsed());
    let orders = orders.load(Ordering::Relaxed);
    // Loom ends before the last that it may run.
    let cut = orders.saturating_add(1) >= most || limit.is_some_and(|limit| elapsed >= limit);
    let (complete, seconds) = (if cut { "no" } else { "yes" }, elapsed.as_secs_f64());
    println!(
        "RESULT prove/memory/{name} preemptions={preemptions} orders={orders} complete={complete} seconds={seconds:.1}"
    );
}

/// A store and what a scene needs to act on it.
#[derive(Clone)]
struct Stage {
    scene: Arc<Scene>,
    quota: Arc<PolicyQuota>,
    keys: Arc<[Key<'static>; 3]>,
    clock: ModelClock,
    store: MemoryStore<ModelClock>,
}

/// A clock that loom knows of, so that it is moved between any two steps of other threads. It writes down every
/// reading. A reading shows the latest time, and orders nothing else: no lock of the store may rely on it.
#[derive(Clone)]
struct ModelClock {
    now: Arc<AtomicI64>,
    log: Arc<Mutex<ClockLog>>,
}

#[derive(Default)]
struct ClockLog {
    /// Counts readings, calls and returns: their order.
    moment: u64,
    readings: Vec<Reading>,
    has_stepped_back: bool,
}

loom::thread_local! {
    /// The number of this thread in its scene.
    static THREAD: Cell<usize> = Cell::new(0);
}

impl ModelClock {
    fn new() -> Self {
        Self { now: Arc::new(AtomicI64::new(START)), log: Arc::default() }
    }

    fn pass(&self, millis: i64) {
        self.now.fetch_add(millis, Ordering::Relaxed);
        self.with_log(|log| log.has_stepped_back |= millis < 0);
    }

    fn read(&self, is_coarse: bool) -> Timestamp {
        let time = self.now.fetch_add(0, Ordering::Relaxed);
        let thread = THREAD.with(Cell::get);
        let moment = self.moment();
        self.with_log(|log| log.readings.push(Reading { moment, thread, is_coarse, time, truth: time }));
        Timestamp::from_unix_millis(time)
    }

    fn moment(&self) -> u64 {
        self.with_log(|log| {
            log.moment += 1;
            log.moment
        })
    }

    /// Loom switches threads at its own atomics only, so nobody waits for this lock.
    fn with_log<T>(&self, act: impl FnOnce(&mut ClockLog) -> T) -> T {
        act(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Clock for ModelClock {
    fn now(&self) -> Timestamp {
        self.read(false)
    }

    fn coarse_now(&self) -> Timestamp {
        self.read(true)
    }
}

impl Stage {
    fn new(scene: &Arc<Scene>, quota: &Arc<PolicyQuota>, keys: &Arc<[Key<'static>; 3]>) -> Self {
        let clock = ModelClock::new();
        let store =
            MemoryStoreBuilder { cap: scene.cap, ..MemoryStore::builder().clock(clock.clone()) }.build();
        let (scene, quota, keys) = (Arc::clone(scene), Arc::clone(quota), Arc::clone(keys));
        Self { scene, quota, keys, clock, store }
    }

    fn play(&self) {
        let mut events = self.act_all(0, &self.scene.before);
        let called = self.clock.moment();
        let (own, others) = self.scene.threads.split_last().unwrap();
        let others: Vec<_> = (0..others.len())
            .map(|index| {
                let stage = self.clone();
                loom::thread::spawn(move || stage.act_all(index + 1, &stage.scene.threads[index]))
            })
            .collect();
        let own = self.act_all(0, own);
        let mut threads = vec![own];
        threads.extend(others.into_iter().map(|thread| thread.join().unwrap()));
        let returned = self.clock.moment();
        // What one thread has done need not be seen by another one until both meet. So their steps may come in any
        // order that keeps the order of each thread.
        for event in threads.iter_mut().flatten() {
            (event.called, event.returned) = (called, returned);
        }
        events.append(&mut threads[0]);
        events.extend(self.act_all(0, &[Op::Peek(A), Op::Peek(B), Op::Peek(C)]));
        if let Some(last) = events.last_mut() {
            last.held = Some(self.store.counters());
        }
        threads[0] = events;
        let history = self.clock.with_log(|log| History {
            threads,
            readings: log.readings.clone(),
            has_stepped_back: log.has_stepped_back,
            received: Vec::new(),
            lost: 0,
        });
        let world = self.scene.world(self.store.max_counters());
        match linearize(&world, &history) {
            Linearization::Explained => {}
            Linearization::Violated(violation) => panic!("{}", trace(&world, Some(&history), &violation)),
            Linearization::Unknown => panic!("too many orders to look at"),
        }
    }

    fn act_all(&self, thread: usize, ops: &[Op]) -> Vec<Event> {
        THREAD.with(|number| number.set(thread));
        ops.iter().filter_map(|op| self.act(thread, op)).collect()
    }

    /// Takes a step and says what happened, or lets time pass.
    fn act(&self, thread: usize, op: &Op) -> Option<Event> {
        let called = self.clock.moment();
        let ask = |key: usize, cost| Ask { quota: 0, key, cost };
        let charge = |ask: &Ask| Charge::new(&self.quota, &self.keys[ask.key], ask.cost);
        let all = |asks: &[Ask]| asks.iter().map(charge).collect::<Vec<_>>();
        let one = |answer: Result<QuotaState, Full>| answer.map(QuotaStates::one);
        let step = match *op {
            Op::Charge(key, cost) => Step::Charge(vec![ask(key, cost)]),
            Op::Both(first, second) => Step::Charge(vec![ask(first, 1), ask(second, 1)]),
            Op::Peek(key) => Step::Peek(vec![ask(key, 1)]),
            Op::Set(key, used) => Step::Set(ask(key, 0), used),
            Op::Reset(key) => Step::Reset(ask(key, 0)),
            Op::Pass(windows) => {
                self.clock.pass(windows * self.scene.window);
                return None;
            }
        };
        let counted = match &step {
            Step::Charge(asks) => self.store.charge(&all(asks)).finish(),
            Step::Peek(asks) => self.store.peek(&all(asks)),
            Step::Set(ask, used) => one(self.store.set(&charge(ask).counter(), *used)),
            Step::Reset(ask) => one(Ok(self.store.reset(&charge(ask).counter()))),
            Step::ChargeBefore(..)
            | Step::Record(_)
            | Step::Block(_)
            | Step::Refund(..)
            | Step::Sweep
            | Step::List => {
                unreachable!("in no scene")
            }
        };
        let answer = match counted {
            Ok(counted) => Answer::Counted(counted.iter().map(state).collect::<Vec<State>>(), None),
            Err(Full) => Answer::Full,
        };
        let returned = self.clock.moment();
        let readings = self.clock.with_log(|log| {
            let own = log.readings.iter().filter(|it| it.thread == thread && called < it.moment);
            own.copied().collect::<Vec<_>>()
        });
        let time = readings.last().map_or(START, |reading| reading.time);
        Some(Event { thread, called, returned, time, step, readings, answer, held: None })
    }
}

/// Different keys that are at home there.
fn keys(quota: &PolicyQuota, homes: [Home; 3]) -> [Key<'static>; 3] {
    let mut candidates = (0_u64..).map(Key::from);
    homes.map(|home| candidates.find(|key| home.is_of(&Counter::new(quota, key))).unwrap())
}

impl Home {
    fn is_of(self, counter: &Counter<'_>) -> bool {
        let fingerprint = Fingerprinter::new().of(counter);
        match self {
            Self::Slot(slot) => fingerprint.place(4) == slot,
            Self::Shard(shard) => fingerprint.shard(2) == shard,
        }
    }
}

/// Two threads bring the same key; one slot is made of it.
#[test]
fn claim() {
    Scene::new(1, [&[Op::Charge(A, 1)], &[Op::Charge(A, 1)]]).run();
}

#[test]
fn claim_and_go_on() {
    Scene::new(3, [&[Op::Charge(A, 1), Op::Charge(A, 1)], &[Op::Charge(A, 1)]])
        .deeper(&[Op::Charge(A, 1)])
        .run();
}

/// Two keys want the same slot.
#[test]
fn claim_neighbours() {
    Scene::new(1, [&[Op::Charge(A, 1)], &[Op::Charge(B, 1)]]).deeper(&[Op::Charge(A, 1)]).run();
}

/// The last unit goes to one of them.
#[test]
fn admit() {
    let charge: &[_] = &[Op::Charge(A, 1)];
    Scene::new(3, [charge, charge, charge]).before(&[Op::Set(A, 1)]).run();
}

#[test]
fn admit_costs() {
    Scene::new(4, [&[Op::Charge(A, 3)], &[Op::Charge(A, 2), Op::Charge(A, 1)]])
        .before(&[Op::Set(A, 0), Op::Charge(A, 1)])
        .deeper(&[Op::Charge(A, 1)])
        .run();
}

/// Two threads fill a bucket, and units come back between their charges.
#[test]
fn admit_in_a_bucket() {
    Scene::new(
        3,
        [&[Op::Charge(A, 1), Op::Charge(A, 1)], &[Op::Charge(A, 2), Op::Pass(1), Op::Charge(A, 1)]],
    )
    .in_a_bucket(3)
    .before(&[Op::Charge(A, 1)])
    .deeper(&[Op::Charge(A, 1)])
    .run();
}

/// The clock has stepped back far, and the bucket falls to twice its burst once.
#[test]
fn step_back_far_with_a_bucket() {
    Scene::new(1, [&[Op::Charge(A, 1)], &[Op::Peek(A), Op::Charge(A, 1)]])
        .in_a_bucket(1)
        .before(&[Op::Charge(A, 1), Op::Pass(-4)])
        .run();
}

/// What was denied is admitted once there is room.
#[test]
fn deny() {
    Scene::new(1, [&[Op::Charge(A, 1), Op::Charge(A, 1)], &[Op::Set(A, 0), Op::Charge(A, 1)]])
        .before(&[Op::Charge(A, 1)])
        .run();
}

/// The window ends between two charges.
#[test]
fn roll_over() {
    Scene::new(1, [&[Op::Charge(A, 1), Op::Charge(A, 1)], &[Op::Pass(1), Op::Charge(A, 1)]])
        .before(&[Op::Charge(A, 1)])
        .deeper(&[Op::Charge(A, 1)])
        .run();
}

/// The clock has stepped back by a second: the counter stays in its window.
#[test]
fn step_back() {
    Scene::new(2, [&[Op::Charge(A, 1)], &[Op::Charge(A, 1)]]).before(&[Op::Charge(A, 1), Op::Pass(-1)]).run();
}

/// It has stepped back by more: the counter is taken into the window that holds now, with what it has used.
#[test]
fn step_back_far() {
    Scene::new(2, [&[Op::Charge(A, 1)], &[Op::Peek(A), Op::Charge(A, 1)]])
        .before(&[Op::Charge(A, 1), Op::Pass(-2)])
        .run();
}

/// A counter was dropped when its window was over, and the clock steps back into it: it is not opened again.
#[test]
fn step_back_to_a_window_of_the_dropped() {
    Scene::new(1, [&[Op::Charge(A, 1)], &[Op::Pass(1), Op::Charge(B, 1), Op::Pass(-1), Op::Charge(A, 1)]])
        .homes([Home::Slot(1), Home::Slot(1), Home::Slot(3)])
        .before(&[Op::Charge(A, 1), Op::Charge(C, 1)])
        .run();
}

/// The clock passes a window and steps back, and the slot of A is that of B, with the same count in the same window.
#[test]
fn step_back_to_a_window_of_another() {
    Scene::new(3, [&[Op::Charge(A, 1)], &[Op::Pass(2), Op::Charge(B, 1), Op::Pass(-2), Op::Peek(B)]])
        .homes([Home::Slot(1), Home::Slot(1), Home::Slot(3)])
        .before(&[Op::Charge(A, 1), Op::Charge(C, 1)])
        .run();
}

/// The same, where A and C were dropped, and C comes back to the slot of A.
#[test]
fn step_back_after_a_drop() {
    Scene::new(3, [&[Op::Charge(A, 1)], &[Op::Pass(2), Op::Charge(B, 1), Op::Pass(-2), Op::Charge(C, 1)]])
        .homes([Home::Slot(1), Home::Slot(2), Home::Slot(1)])
        .max_counters(2)
        .before(&[Op::Charge(A, 1), Op::Charge(C, 1)])
        .run();
}

/// A closed counter's slot goes to another key, while the closed one is rolled over.
#[test]
fn reclaim() {
    Scene::new(1, [&[Op::Charge(A, 1)], &[Op::Charge(B, 1)]])
        .homes([Home::Slot(1), Home::Slot(1), Home::Slot(3)])
        .before(&[Op::Charge(A, 1), Op::Charge(C, 1), Op::Pass(1), Op::Charge(C, 1)])
        .deeper(&[Op::Charge(B, 1)])
        .run();
}

/// The same while the window passes: to some threads the old counter is still open.
#[test]
fn reclaim_at_the_end_of_a_window() {
    Scene::new(1, [&[Op::Charge(A, 1)], &[Op::Pass(1), Op::Charge(B, 1)]])
        .homes([Home::Slot(1), Home::Slot(1), Home::Slot(3)])
        .before(&[Op::Charge(A, 1), Op::Charge(C, 1)])
        .run();
}

/// A new key makes the shard grow, and takes the slot of one that is charged meanwhile, with the same count.
#[test]
fn grow() {
    Scene::new(2, [&[Op::Charge(A, 1)], &[Op::Charge(B, 1)]])
        .before(&[Op::Charge(A, 1)])
        .deeper(&[Op::Charge(B, 1)])
        .run();
}

/// The same with a key that is full; the one that takes its slot is not.
#[test]
fn grow_while_denied() {
    Scene::new(2, [&[Op::Charge(A, 1)], &[Op::Charge(B, 1)]]).before(&[Op::Set(A, 2)]).run();
}

/// Closed counters are dropped and the others change their places.
#[test]
fn rebuild() {
    Scene::new(1, [&[Op::Charge(A, 1)], &[Op::Charge(B, 1)]]).before(&[Op::Charge(A, 1), Op::Pass(1)]).run();
}

/// The slot of a counter that was reset goes to another key, with the same count in the same window.
#[test]
fn reset() {
    Scene::new(2, [&[Op::Charge(A, 1)], &[Op::Reset(A), Op::Charge(B, 1)]])
        .homes([Home::Slot(1), Home::Slot(1), Home::Slot(3)])
        .before(&[Op::Charge(A, 1), Op::Charge(C, 1)])
        .run();
}

#[test]
fn reset_the_full() {
    Scene::new(1, [&[Op::Charge(A, 1)], &[Op::Reset(A), Op::Charge(B, 1)]])
        .homes([Home::Slot(1), Home::Slot(1), Home::Slot(3)])
        .before(&[Op::Charge(A, 1), Op::Charge(C, 1)])
        .deeper(&[Op::Charge(B, 1)])
        .run();
}

/// A key that is not full gets the slot of one that was; nobody takes the one for the other.
#[test]
fn inherit() {
    Scene::new(2, [&[Op::Charge(B, 1)], &[Op::Reset(A), Op::Charge(B, 1)]])
        .homes([Home::Slot(1), Home::Slot(1), Home::Slot(3)])
        .before(&[Op::Set(A, 2), Op::Charge(C, 1)])
        .run();
}

/// The same within one step, while the window passes.
#[test]
fn inherit_from_the_closed() {
    Scene::new(1, [&[Op::Charge(B, 1)], &[Op::Pass(1), Op::Charge(B, 1)]])
        .homes([Home::Slot(1), Home::Slot(1), Home::Slot(3)])
        .before(&[Op::Charge(A, 1), Op::Charge(C, 1)])
        .run();
}

/// Counters move up to where they should be: C to the slot of B, which is full.
#[test]
fn move_up() {
    Scene::new(2, [&[Op::Charge(C, 1)], &[Op::Charge(A, 1)]])
        .homes([Home::Slot(1), Home::Slot(1), Home::Slot(2)])
        .before(&[Op::Charge(A, 1), Op::Set(B, 2), Op::Charge(C, 1), Op::Reset(A)])
        .run();
}

/// The same, where both have the same count: a charge of one is not made to the other.
#[test]
fn move_up_with_the_same_count() {
    Scene::new(2, [&[Op::Charge(B, 1)], &[Op::Charge(A, 1)]])
        .homes([Home::Slot(1), Home::Slot(1), Home::Slot(2)])
        .before(&[Op::Charge(A, 1), Op::Charge(B, 1), Op::Charge(C, 1), Op::Reset(A)])
        .run();
}

/// The next window ends in another fraction of a second, so it is entered under the lock.
#[test]
fn roll_over_in_parts_of_a_second() {
    Scene::new(1, [&[Op::Charge(A, 1), Op::Charge(A, 1)], &[Op::Pass(1), Op::Charge(A, 1)]])
        .in_parts_of_a_second()
        .before(&[Op::Charge(A, 1)])
        .run();
}

#[test]
fn wide() {
    let much = 1 << 32;
    Scene::new(much + 2, [&[Op::Charge(A, 1), Op::Charge(A, 1)], &[Op::Charge(A, 1)]])
        .before(&[Op::Set(A, much)])
        .run();
}

/// The end of a wide counter's window is in another word than its count: both are read as of one time.
#[test]
fn wide_words_belong_together() {
    let much = 1 << 37;
    Scene::new(much, [&[Op::Both(A, B)], &[Op::Charge(A, 1), Op::Set(A, 1)]])
        .before(&[Op::Set(A, much - 1), Op::Set(B, 1)])
        .run();
}

/// A count outgrows its word and becomes wide.
#[test]
fn widen() {
    let most = u64::from(u32::MAX);
    Scene::new(most + 2, [&[Op::Charge(A, 1)], &[Op::Charge(A, 1)]])
        .before(&[Op::Set(A, most)])
        .deeper(&[Op::Both(A, B)])
        .run();
}

/// All or nothing, and no deadlock.
#[test]
fn both_crosswise() {
    Scene::new(1, [&[Op::Both(A, B)], &[Op::Both(B, A)]])
        .homes([Home::Shard(0), Home::Shard(1), Home::Shard(1)])
        .max_counters(4)
        .before(&[Op::Set(A, 1), Op::Set(A, 0)])
        .run();
}

#[test]
fn both_new() {
    Scene::new(1, [&[Op::Both(A, B)], &[Op::Both(B, A)]])
        .homes([Home::Shard(0), Home::Shard(1), Home::Shard(1)])
        .max_counters(4)
        .run();
}

/// One of the two is charged alone meanwhile.
#[test]
fn both_and_one() {
    Scene::new(2, [&[Op::Both(A, B)], &[Op::Charge(A, 1), Op::Charge(B, 1)]])
        .homes([Home::Shard(0), Home::Shard(1), Home::Shard(1)])
        .max_counters(4)
        .before(&[Op::Charge(A, 1), Op::Charge(B, 1)])
        .deeper(&[Op::Charge(B, 1)])
        .run();
}

/// No request is denied because of charges that are not made in the end.
#[test]
fn both_denied() {
    Scene::new(1, [&[Op::Both(A, B)], &[Op::Charge(A, 1)]])
        .before(&[Op::Set(A, 1), Op::Set(A, 0), Op::Charge(B, 1)])
        .deeper(&[Op::Set(B, 0)])
        .run();
}

/// Several are denied by reads alone, while the counters change their places.
#[test]
fn both_denied_while_growing() {
    Scene::new(2, [&[Op::Both(A, C)], &[Op::Charge(B, 1)]]).before(&[Op::Set(A, 2)]).run();
}

/// The last place goes to one of them.
#[test]
fn fill() {
    Scene::new(1, [&[Op::Charge(A, 1)], &[Op::Charge(B, 1)]])
        .max_counters(1)
        .deeper(&[Op::Charge(A, 1)])
        .run();
}

/// A closed counter's place goes to another key.
#[test]
fn fill_again() {
    Scene::new(1, [&[Op::Charge(A, 1)], &[Op::Charge(B, 1)]])
        .max_counters(1)
        .before(&[Op::Charge(C, 1), Op::Pass(1)])
        .run();
}

/// A denial takes no lock and changes no word.
#[test]
fn a_denial_only_reads() {
    loom::model(|| {
        let scene = Arc::new(Scene::new(1, [&[]]));
        let quota = Arc::new(quota(&scene.terms()));
        let keys = Arc::new(keys(&quota, scene.homes));
        let stage = Stage::new(&scene, &quota, &keys);
        stage.act_all(0, &[Op::Charge(A, 1), Op::Charge(B, 1)]);
        let table = &stage.store.inner.table;
        let fingerprints = [A, B].map(|key| table.fingerprint(&Counter::new(&quota, &keys[key])));
        let words = || {
            fingerprints.map(|fingerprint| match table.shard(fingerprint).find(fingerprint) {
                Look::Found(seen) => seen.word,
                Look::Absent | Look::Busy => panic!("not found"),
            })
        };
        // Who takes a lock waits for ever.
        let guards = table.lock(&fingerprints);
        let before = words();
        for op in [Op::Charge(A, 1), Op::Both(A, B)] {
            let Some(Event { answer: Answer::Counted(states, _), .. }) = stage.act(0, &op) else {
                panic!("{op:?} is not counted");
            };
            assert!(states.iter().any(|state| state.denial.is_some()), "{op:?}");
        }
        assert_eq!(words(), before);
        drop(guards);
    });
}
