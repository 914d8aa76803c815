//! Runs a world once.

#[cfg(tollgate_shuttle)]
use shuttle::thread;

use super::answer::{Event, History};
use super::clock::be_thread;
#[cfg(tollgate_shuttle)]
use super::scheduler;
use super::system::System;
use super::world::{Ask, Naming, Op, World};

/// What all threads do, and then the rest: every counter is looked at, and the hook gets all that have closed.
pub(super) fn history(world: &World) -> History {
    let system = System::new(world);
    let mut threads: Vec<Vec<Event>> = match &world.threads[..] {
        [only] => vec![only.iter().flat_map(|op| system.act(0, op)).collect()],
        several => crowd(&system, several),
    };
    be_thread(0);
    let last: Vec<Event> = ending(world).iter().flat_map(|op| system.act(0, op)).collect();
    threads[0].extend(last);
    system.history(threads)
}

/// Looks at all counters; a cost of nothing is answered as a cost of one, and takes nothing.
fn ending(world: &World) -> Vec<Op> {
    let asks = world.threads.iter().flatten().cloned();
    let asks = asks.flat_map(|mut op| op.asks_mut().iter().map(|ask| **ask).collect::<Vec<Ask>>());
    let mut counters: Vec<(usize, usize)> = asks.map(|ask| (ask.quota, ask.key)).collect();
    counters.sort_unstable();
    counters.dedup();
    let looks = counters.into_iter().map(|(quota, key)| Op::Peek(vec![Ask { quota, key, cost: 0 }]));
    let mut ending: Vec<Op> = looks.collect();
    if world.naming != Naming::Off {
        ending.push(Op::Sweep);
    }
    ending
}

#[cfg(not(tollgate_shuttle))]
fn crowd(_: &System, _: &[Vec<Op>]) -> Vec<Vec<Event>> {
    unreachable!("only shuttle can run several threads in the same order again")
}

#[cfg(tollgate_shuttle)]
fn crowd(system: &System, threads: &[Vec<Op>]) -> Vec<Vec<Event>> {
    let spawn = |(number, ops): (usize, &Vec<Op>)| {
        let (system, ops) = (system.clone(), ops.clone());
        thread::spawn(move || {
            be_thread(number);
            ops.iter().flat_map(|op| system.act(number, op)).collect()
        })
    };
    let threads: Vec<_> = threads.iter().enumerate().map(spawn).collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

/// Runs a world. A panic of the store is an error.
#[cfg(not(tollgate_shuttle))]
pub(super) fn run(world: &World) -> Result<History, String> {
    super::quiet::caught(|| history(world))
}

/// Runs a world, at each atomic operation the thread that its order chooses. A panic of the store is an error, and so
/// are a deadlock and a wait for something that nobody will do.
#[cfg(tollgate_shuttle)]
pub(super) fn run(world: &World) -> Result<History, String> {
    scheduler::run(world)
}
