//! A schedule that fails, cut down to what its failure takes.

use super::terms::{Cut, Denials, Terms};
use super::world::{Ask, Move, Naming, Op, Ticks, World};

/// Changes that are tried, at most.
const MOST_CHANGES: usize = 20_000;

/// The smallest world found that still fails. `fails` may choose another order of its threads, and returns it.
pub(super) fn shrink(world: &World, fails: impl Fn(&World) -> Option<World>) -> World {
    let mut smallest = world.clone();
    let mut tried = 0;
    loop {
        let before = tried;
        let mut changed = false;
        // Each list is made again after a change, and gone on with where it was.
        let mut index = 0;
        while let Some(candidate) = smaller(&smallest).into_iter().nth(index) {
            tried += 1;
            match fails(&candidate) {
                Some(failing) => {
                    smallest = failing;
                    changed = true;
                }
                None => index += 1,
            }
            if tried - before > MOST_CHANGES {
                return smallest;
            }
        }
        if !changed || tried > MOST_CHANGES {
            return smallest;
        }
    }
}

/// Worlds that are a little smaller.
fn smaller(world: &World) -> Vec<World> {
    let mut worlds = Vec::new();
    let mut with = |change: &dyn Fn(&mut World)| {
        let mut other = world.clone();
        change(&mut other);
        worlds.push(other);
    };
    if world.threads.len() > 2 {
        (0..world.threads.len()).for_each(|thread| with(&|world| drop(world.threads.remove(thread))));
    }
    for (thread, ops) in world.threads.iter().enumerate() {
        // Whole halves and quarters first.
        for part in [2, 4, 8].into_iter().filter(|part| ops.len() >= *part * 2) {
            let length = ops.len() / part;
            (0..part).for_each(|nth| {
                with(&|world| drop(world.threads[thread].drain(nth * length..(nth + 1) * length)));
            });
        }
        (0..ops.len()).rev().for_each(|op| with(&|world| drop(world.threads[thread].remove(op))));
    }
    (0..world.drifts.len()).for_each(|drift| with(&|world| drop(world.drifts.drain(drift..=drift))));
    for unused in (0..world.quotas.len()).rev().filter(|quota| !is_used(world, *quota)) {
        with(&|world| remove_quota(world, unused));
    }
    settings(world, &mut with);
    for (thread, ops) in world.threads.iter().enumerate() {
        for (index, op) in ops.iter().enumerate() {
            for simpler in simpler_ops(op) {
                with(&|world| world.threads[thread][index] = simpler.clone());
            }
        }
    }
    for (drift, (reading, by)) in world.drifts.iter().enumerate() {
        for simpler in simpler_moves(*by) {
            with(&|world| world.drifts[drift] = (*reading, simpler));
        }
    }
    worlds
}

fn settings(world: &World, with: &mut impl FnMut(&dyn Fn(&mut World))) {
    if world.ticks.missed > 0 {
        with(&|world| world.ticks.missed = 0);
        with(&|world| world.ticks.missed /= 2);
    }
    if world.ticks.length > 0 {
        with(&|world| world.ticks = Ticks { length: 0, missed: 0 });
    }
    if world.naming != Naming::Off {
        with(&|world| world.naming = Naming::Off);
    }
    for cap in [20, world.operations(), world.cap / 2, world.cap.saturating_sub(1)] {
        if cap < world.cap {
            with(&|world| world.cap = cap);
        }
    }
    for start in [0, 1_700_000_040_000, world.start - world.start.rem_euclid(1_000)] {
        if start.unsigned_abs() < world.start.unsigned_abs() {
            with(&|world| world.start = start);
        }
    }
    for (number, quota) in world.quotas.iter().enumerate() {
        for simpler in simpler_terms(quota) {
            // Quotas that share their counters have the same windows.
            let (scope, cut) = (world.scope(number), simpler.cut);
            with(&|world| {
                let sharing: Vec<usize> =
                    (0..world.quotas.len()).filter(|other| world.scope(*other) == scope).collect();
                sharing.into_iter().for_each(|other| world.quotas[other].cut = cut);
                world.quotas[number] = simpler;
            });
        }
    }
}

fn is_used(world: &World, quota: usize) -> bool {
    let mut ops = world.threads.iter().flatten().cloned();
    ops.any(|mut op| op.asks_mut().iter().any(|ask| ask.quota == quota))
}

fn remove_quota(world: &mut World, quota: usize) {
    if world.quotas.len() == 1 {
        return;
    }
    world.quotas.remove(quota);
    for op in world.threads.iter_mut().flatten() {
        for ask in op.asks_mut().into_iter().filter(|ask| ask.quota > quota) {
            ask.quota -= 1;
        }
    }
}

fn simpler_terms(terms: &Terms) -> Vec<Terms> {
    let mut simpler = Vec::new();
    if terms.denials != Denials::Free {
        simpler.push(Terms { denials: Denials::Free, ..*terms });
    }
    for limit in [1, terms.limit / 2] {
        if limit < terms.limit {
            simpler.push(Terms { limit, ..*terms });
        }
    }
    if terms.burst > 1 {
        simpler.push(Terms { burst: terms.burst - 1, ..*terms });
    }
    let cut = |cut| Terms { cut, ..*terms };
    match terms.cut {
        Cut::Epoch(length) => {
            simpler.extend(
                [1_000, length / 2].into_iter().filter(|it| 0 < *it && *it < length).map(Cut::Epoch).map(cut),
            );
        }
        Cut::Staggered(length) | Cut::FirstHit(length) => simpler.push(cut(Cut::Epoch(length))),
        Cut::Burst(length) if length > 1_000 => simpler.push(cut(Cut::Burst(1_000))),
        Cut::Sliding(length) if length > 1_000 => simpler.push(cut(Cut::Sliding(1_000))),
        Cut::SlidingStaggered(length) => simpler.push(cut(Cut::Sliding(length))),
        Cut::Log(length, step) if step > 1 => simpler.push(cut(Cut::Log(length, 1))),
        Cut::Block(length, of) if length > 1_000 => simpler.push(cut(Cut::Block(1_000, of))),
        Cut::Burst(_) | Cut::Sliding(_) | Cut::Log(..) | Cut::Block(..) => {}
        #[cfg(feature = "calendar")]
        Cut::Calendar(..) => simpler.push(cut(Cut::Epoch(86_400_000))),
    }
    simpler
}

fn simpler_ops(op: &Op) -> Vec<Op> {
    let mut simpler = Vec::new();
    let fewer = |asks: &Vec<Ask>| -> Vec<Vec<Ask>> {
        let without = |index: usize| {
            let mut asks = asks.clone();
            asks.remove(index);
            asks
        };
        if asks.len() > 1 { (0..asks.len()).map(without).collect() } else { Vec::new() }
    };
    match op {
        Op::Check(asks) => simpler.extend(fewer(asks).into_iter().map(Op::Check)),
        Op::CheckBefore(asks, by) => {
            simpler.push(Op::Check(asks.clone()));
            simpler.extend(fewer(asks).into_iter().map(|asks| Op::CheckBefore(asks, *by)));
            simpler.extend(simpler_moves(*by).into_iter().map(|by| Op::CheckBefore(asks.clone(), by)));
        }
        Op::Peek(asks) => simpler.extend(fewer(asks).into_iter().map(Op::Peek)),
        Op::Batch(requests) => {
            simpler.extend(requests.iter().cloned().map(Op::Check));
        }
        Op::Block(ask) => simpler.push(Op::Record(*ask)),
        Op::Refund(ask, ago) if *ago > 0 => simpler.push(Op::Refund(*ask, ago - 1)),
        Op::Set(ask, used) if *used > 1 => {
            simpler.extend([1, used / 2].map(|used| Op::Set(*ask, used)));
        }
        Op::Move(by) => simpler.extend(simpler_moves(*by).into_iter().map(Op::Move)),
        _ => {}
    }
    let asks = op.clone().asks_mut().len();
    for index in 0..asks {
        let mut change = |change: &dyn Fn(&mut Ask)| {
            let mut other = op.clone();
            change(other.asks_mut()[index]);
            if other != *op {
                simpler.push(other);
            }
        };
        change(&|ask| ask.cost = ask.cost.min(1));
        change(&|ask| ask.cost /= 2);
        change(&|ask| ask.key = ask.key.saturating_sub(1));
        change(&|ask| ask.quota = ask.quota.saturating_sub(1));
    }
    simpler
}

fn simpler_moves(by: Move) -> Vec<Move> {
    match by {
        Move::By(millis) if millis != 0 => [millis / 2, millis - millis.signum()].map(Move::By).into(),
        Move::NextEnd(more) if more != 0 => vec![Move::NextEnd(0)],
        Move::LastEnd(more) if more != 0 => vec![Move::LastEnd(0), Move::LastEnd(-1)],
        _ => Vec::new(),
    }
    .into_iter()
    .filter(|simpler| *simpler != by)
    .collect()
}
