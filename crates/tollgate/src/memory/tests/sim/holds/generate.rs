//! Worlds of holds from seeds.

use super::super::random::SeededRandom;
use super::world::{HoldAsk, HoldOp, HoldWorld, KEYS, LimitTerms, Settlement, WindowTerms};

const HOUR: i64 = 3_600_000;

/// One thread, and clocks that may step.
pub(super) fn calm(seed: u64) -> HoldWorld {
    let mut random = SeededRandom::new(seed);
    let quotas = quotas(&mut random, &[1_000, 60_000, HOUR]);
    let mut world = world(seed, &mut random, quotas);
    let usual = usual(&mut random, &world);
    let count = 5 + random.below(40);
    let mut maker = HoldMaker { random: &mut random, world: &world, usual: &usual, clocks_step: true };
    let ops = (0..count).map(|_| maker.operation()).collect();
    world.threads = vec![ops];
    with_ends(world, seed)
}

/// Two or three threads, in one window.
#[cfg(tollgate_shuttle)]
pub(super) fn crowded(seed: u64) -> HoldWorld {
    let mut random = SeededRandom::new(seed);
    let quotas = quotas(&mut random, &[HOUR]);
    let mut world = world(seed, &mut random, quotas);
    let usual = usual(&mut random, &world);
    let threads = 2 + random.below(2);
    let mut maker = HoldMaker { random: &mut random, world: &world, usual: &usual, clocks_step: false };
    let mut ops = || {
        let count = 2 + maker.random.below(5);
        (0..count).map(|_| maker.operation()).collect()
    };
    let threads = (0..threads).map(|_| ops()).collect();
    world.threads = threads;
    with_ends(world, seed)
}

/// Gives some worlds reservations that come before an end. They have a seed of their own, so that all else stays as it
/// was.
fn with_ends(mut world: HoldWorld, seed: u64) -> HoldWorld {
    let mut random = SeededRandom::new(seed.rotate_left(16));
    if !random.once_in(3) {
        return world;
    }
    for op in world.threads.iter_mut().flatten() {
        if let HoldOp::Reserve(ask) = op
            && !random.once_in(3)
        {
            let ask = ask.clone();
            *op = HoldOp::ReserveBefore(ask, random.one_of(&[-1, 0, 1, 1, 50, 1_000, 2 * HOUR, 2 * HOUR]));
        }
    }
    world
}

fn world(seed: u64, random: &mut SeededRandom, quotas: Vec<WindowTerms>) -> HoldWorld {
    let limit = |random: &mut SeededRandom| LimitTerms {
        policy: random.below(2),
        limit: random.one_of(&[0, 1, 1, 2, 3, 5, 1_001]),
        length: random.once_in(3).then(|| random.one_of(&[50, 1_000, 20_000])),
    };
    let limits = (0..1 + random.below(3)).map(|_| limit(random)).collect();
    let cap = match random.below(4) {
        0 | 1 => 1_000,
        // As many as a few holds and counters take.
        2 => random.one_of(&[12, 13, 17, 18, 22, 23, 24, 34, 35]),
        _ => 12 + random.below(70),
    };
    let (hash, order) = (random.next(), seed);
    HoldWorld { hash, order, cap, limits, quotas, threads: Vec::new() }
}

fn quotas(random: &mut SeededRandom, windows: &[i64]) -> Vec<WindowTerms> {
    let quota = |random: &mut SeededRandom| WindowTerms {
        policy: random.below(2),
        limit: random.one_of(&[0, 1, 3, 10, 100]),
        window: random.one_of(windows),
    };
    (0..1 + random.below(2)).map(|_| quota(random)).collect()
}

/// What each id is used for as a rule.
fn usual(random: &mut SeededRandom, world: &HoldWorld) -> Vec<HoldAsk> {
    (0..1 + random.below(4)).map(|id| an_ask(random, world, id)).collect()
}

fn an_ask(random: &mut SeededRandom, world: &HoldWorld, id: usize) -> HoldAsk {
    let (mut limits, mut quotas) = (Vec::<usize>::new(), Vec::<usize>::new());
    // No two parts are on one counter.
    for (number, terms) in world.limits.iter().enumerate() {
        let is_new = limits.iter().all(|other| world.limits[*other].policy != terms.policy);
        if is_new && !random.once_in(3) {
            limits.push(number);
        }
    }
    for (number, terms) in world.quotas.iter().enumerate() {
        let series = |terms: &WindowTerms| (terms.policy, terms.window);
        let is_new = quotas.iter().all(|other| series(&world.quotas[*other]) != series(terms));
        if is_new && (random.once_in(2) || limits.is_empty()) {
            quotas.push(number);
        }
    }
    HoldAsk {
        id,
        limits,
        quotas,
        key: random.below(KEYS),
        units: random.one_of(&[0, 1, 1, 1, 1, 2, 3, 1_000, 1_001]),
        cost: random.one_of(&[0, 1, 1, 2, 5, 50]),
        length: random.one_of(&[1, 50, 1_000, 5_000, 20_000, HOUR]),
    }
}

struct HoldMaker<'a> {
    random: &'a mut SeededRandom,
    world: &'a HoldWorld,
    usual: &'a [HoldAsk],
    /// Whether the two clocks may move apart.
    clocks_step: bool,
}

impl HoldMaker<'_> {
    fn operation(&mut self) -> HoldOp {
        match self.random.below(22) {
            0..5 => HoldOp::Reserve(self.ask()),
            5 => HoldOp::Look(self.ask()),
            6 | 7 => HoldOp::Renew(self.ask()),
            8..11 => {
                let ask = self.ask();
                let settlement = self.settlement(&ask);
                HoldOp::Settle(ask, settlement)
            }
            11 => HoldOp::Reset(self.random.below(self.world.limits.len()), self.random.below(KEYS)),
            12..15 => {
                let ask = an_ask(self.random, self.world, 0);
                let limits = vec![self.random.below(self.world.limits.len())];
                HoldOp::Guard(HoldAsk { limits, length: 0, ..ask })
            }
            15 | 16 => HoldOp::Drop,
            17 if self.random.once_in(3) => HoldOp::Forget,
            17 | 18 => {
                let quota = self.random.below(self.world.quotas.len());
                HoldOp::Check(quota, self.random.below(KEYS), self.random.one_of(&[0, 1, 1, 2, 5]))
            }
            19 if self.clocks_step => match self.random.below(3) {
                0 => HoldOp::StepWall(self.random.one_of(&[1_000, 60_000, HOUR])),
                1 => HoldOp::StepBack(self.random.one_of(&[1, 49, 1_000, 30_000, HOUR])),
                _ => HoldOp::Pass(HOUR),
            },
            _ => HoldOp::Pass(self.random.one_of(&[1, 49, 50, 500, 999, 1_000, 5_000, 10_000])),
        }
    }

    /// What an id is usually used for, or something else.
    fn ask(&mut self) -> HoldAsk {
        let usual = self.usual[self.random.below(self.usual.len())].clone();
        match self.random.below(20) {
            0 => HoldAsk { cost: usual.cost + 1, ..usual },
            1 => HoldAsk { units: usual.units + 1, ..usual },
            2 => HoldAsk { key: 1 - usual.key, ..usual },
            3 => HoldAsk { length: self.random.one_of(&[50, 1_000]), ..usual },
            4 => an_ask(self.random, self.world, usual.id),
            _ => usual,
        }
    }

    fn settlement(&mut self, ask: &HoldAsk) -> Settlement {
        match self.random.below(4) {
            0 => Settlement::Keep,
            1 => Settlement::GiveBack(self.random.below(ask.cost as usize + 1) as u32),
            2 => Settlement::Charge(self.random.below(6) as u32),
            _ => Settlement::ChargeUpTo(self.random.below(60) as u32),
        }
    }
}
