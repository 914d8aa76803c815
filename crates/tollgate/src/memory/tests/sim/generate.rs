//! Worlds made from seeds, biased towards trouble: few keys, full tables, ends of windows, and steps back exactly
//! there.

use super::random::SeededRandom;
use super::terms::{Cut, Denials, Terms};
#[cfg(feature = "calendar")]
use super::terms::{Unit, Zone};
use super::world::{Ask, Move, Naming, Op, Ticks, World};

const SECOND: i64 = 1_000;
const DAY: i64 = 86_400 * SECOND;
const YEAR: i64 = 365 * DAY;

/// The whole second in which the parts of a counter's end that are kept apart change: a multiple of 2^14.
const ERA: i64 = (1 << 14) * SECOND;

/// Whole calls, one after another.
pub(super) fn calm(seed: u64) -> World {
    let mut random = SeededRandom::new(seed);
    let length = 4 + random.below(40);
    with_ends(with_blocks(make(&mut random, &[length], None), seed), seed)
}

/// Many calls for many keys, so that counters displace each other, shards are rebuilt and grow row by row, and the
/// slots of closed and reset counters go to others.
#[cfg(not(any(tollgate_shuttle, miri)))]
pub(super) fn busy(seed: u64) -> World {
    let mut random = SeededRandom::new(seed);
    let (length, keys) = (125 + random.below(126), random.one_of(&[12, 40]));
    with_ends(with_blocks(make(&mut random, &[length], Some(keys)), seed), seed)
}

/// Some threads with few calls each, so that all orders of a history can be searched.
#[cfg(tollgate_shuttle)]
pub(super) fn crowded(seed: u64) -> World {
    let mut random = SeededRandom::new(!seed);
    let threads = 2 + random.below(3);
    let lengths: Vec<usize> =
        (0..threads).map(|_| 1 + random.below(if threads > 3 { 3 } else { 5 })).collect();
    with_ends(with_blocks(make(&mut random, &lengths, None), seed), seed)
}

fn make(random: &mut SeededRandom, lengths: &[usize], keys: Option<usize>) -> World {
    let is_calm = lengths.len() == 1;
    let most_asks = if keys.is_some() { 8 } else { 3 };
    let is_duel = !is_calm && random.once_in(2);
    let is_turnover = !is_calm && !is_duel && random.once_in(2);
    let ticks = ticks(random);
    let mut quotas = quotas(random, ticks);
    let mut keys = keys.unwrap_or_else(|| random.one_of(&[1, 2, 2, 3, 4, 6, 10]));
    if is_duel {
        // All want the same few counters, and there is enough for most of them.
        quotas.truncate(2);
        for quota in &mut quotas {
            quota.limit = quota.limit.max(random.one_of(&[2, 4, 20]));
            quota.burst = quota.burst.max(2);
        }
        keys = random.one_of(&[1, 2, 2]);
    }
    if is_turnover {
        // A window ends, and some counters go on while others take their slots.
        let cut = random.one_of(&[Cut::Epoch(SECOND), Cut::Epoch(SECOND), Cut::FirstHit(SECOND)]);
        quotas = vec![Terms { policy: "p", limit: 4, burst: 0, cut, denials: Denials::Free }];
        keys = 4;
    }
    let counters = keys * quotas.len();
    let cap = match random.below(8) {
        // Nearly always full.
        0..4 => 1 + random.below(counters.min(6)),
        4 => counters,
        5 => random.below(3),
        // Several shards.
        6 => 21 + random.below(60),
        _ => 20,
    };
    let naming = match random.below(6) {
        0 => Naming::Remembered,
        1 | 2 => Naming::Told(random.one_of(&[1, 1_000, 1_000])),
        _ => Naming::Off,
    };
    let steps_back = !random.once_in(3);
    let operations = lengths.iter().sum::<usize>();
    let some_drifts = if random.once_in(2) { random.below(6) } else { 0 };
    let drift = |random: &mut SeededRandom| {
        (random.below(operations * 3 + 1), a_move(random, &quotas, ticks, steps_back))
    };
    let drifts = (0..some_drifts).map(|_| drift(random)).collect();
    let start = match random.below(8) {
        0 => random.one_of(&[0, -1, 1, -SECOND, -YEAR + 7]),
        1 => ERA * (97_000 + random.below(12_000) as i64) + random.below(3_000) as i64 - 1_500,
        2 => ERA * 108_544 - quotas[0].cut.length().unwrap_or(DAY) + random.below(3) as i64 - 1,
        3 => 1_700_000_040_000 + random.below(86_400_000) as i64,
        4 => 1_711_839_600_000 + random.one_of(&[-SECOND, 0, 3_599 * SECOND, 7_200 * SECOND, DAY - SECOND]),
        _ => 1_700_000_040_000 + random.one_of(&[0, 1, -1, 500, 999, 4, 3_960]),
    };
    let mut maker =
        Maker { random, quotas: &quotas, keys, ticks, steps_back, naming, most_asks, is_calm, is_duel };
    let mut threads: Vec<Vec<Op>> = lengths.iter().map(|length| maker.operations(*length)).collect();
    if is_duel {
        // The counters are there from the first step on.
        threads[0]
            .insert(0, Op::Check((0..quotas.len()).map(|quota| Ask { quota, key: 0, cost: 1 }).collect()));
        if maker.random.once_in(2) {
            // One counter leaves, and another one takes its slot with the same count.
            let last = threads.len() - 1;
            let quota = maker.random.below(quotas.len());
            let ask = |key| Ask { quota, key, cost: 1 };
            threads[last].splice(0..0, [Op::Reset(ask(0)), Op::Check(vec![ask(1)])]);
        }
    }
    if is_turnover {
        let check = |key| Op::Check(vec![Ask { quota: 0, key, cost: 1 }]);
        threads[0].splice(0..0, [check(0), check(1), Op::Move(Move::NextEnd(0)), check(0), check(1)]);
        for thread in &mut threads[1..] {
            let keys = maker.random.one_of(&[[2, 3], [3, 2], [2, 0], [3, 1]]);
            thread.splice(0..0, keys.map(check));
        }
    } else if !is_calm && maker.random.once_in(if is_duel { 4 } else { 2 }) {
        // A thread that does nothing but move the clock and drop what has closed.
        let last = threads.len() - 1;
        let sweeps = naming != Naming::Off;
        threads[last] = (0..2 + maker.random.below(4))
            .map(|_| if sweeps && maker.random.once_in(3) { Op::Sweep } else { maker.moves() })
            .collect();
    }
    let (hash, order) = (random.next() % 64, random.next());
    World { start, ticks, cap, naming, hash, quotas, drifts, threads, order }
}

/// Gives some worlds blocks. They have a seed of their own, so that all else stays as it was.
fn with_blocks(mut world: World, seed: u64) -> World {
    let mut random = SeededRandom::new(seed.rotate_left(32));
    let blocked = |quota: &usize| world.quotas[*quota].cut.blocked();
    let quotas: Vec<usize> = (0..world.quotas.len()).filter(|quota| blocked(quota).is_some()).collect();
    if quotas.is_empty() || !random.once_in(3) {
        return world;
    }
    let quota = random.one_of(&quotas);
    let Some(of) = blocked(&quota) else { return world };
    let length = random.one_of(&[1, 7, 300, 999, SECOND, SECOND, 2 * SECOND, 61 * SECOND]);
    let policy = world.quotas[quota].policy;
    let cut = Cut::Block(length, of);
    world.quotas.push(Terms { policy, limit: 0, burst: 0, cut, denials: Denials::Free });
    let asks = world.threads.iter().flatten().cloned();
    let keys = asks.flat_map(|mut op| op.asks_mut().iter().map(|ask| ask.key).collect::<Vec<_>>());
    let keys = keys.max().unwrap_or_default() + 1;
    for thread in &mut world.threads {
        for place in (0..=thread.len()).rev() {
            if random.once_in(4) {
                let ask = Ask { quota, key: random.below(keys), cost: random.one_of(&[0, 1, 1, 1, 2, 5]) };
                thread.insert(place, Op::Block(ask));
            }
        }
    }
    world
}

/// Gives some worlds charges that come before an end. They have a seed of their own as well.
fn with_ends(mut world: World, seed: u64) -> World {
    let mut random = SeededRandom::new(seed.rotate_left(16));
    if !random.once_in(3) {
        return world;
    }
    let ticks = world.ticks;
    for op in world.threads.iter_mut().flatten() {
        if let Op::Check(asks) = op
            && !random.once_in(3)
        {
            let asks = std::mem::take(asks);
            *op = Op::CheckBefore(asks, an_end(&mut random, ticks));
        }
    }
    world
}

/// About now, as far as the coarse reading may lag, at the end of a window, and far away.
fn an_end(random: &mut SeededRandom, ticks: Ticks) -> Move {
    match random.below(10) {
        0..4 => {
            Move::By(random.one_of(&[-1, 0, 1, 1, 2, 3, ticks.length, ticks.length * (ticks.missed + 1)]))
        }
        4 | 5 => Move::NextEnd(random.one_of(&[-1, 0, 0, 1])),
        6 => Move::LastEnd(random.one_of(&[0, 1, 2])),
        7 => Move::By(random.below(1_500) as i64),
        _ => Move::By(DAY),
    }
}

fn ticks(random: &mut SeededRandom) -> Ticks {
    let length = random.one_of(&[0, 0, 1, 4, 4, 10]);
    // With the tick that is shown, eleven at most: with twelve no unit is counted in a window that is over.
    let missed = if length > 0 { random.one_of(&[0, 0, 1, 3, 10]) } else { 0 };
    Ticks { length, missed }
}

fn quotas(random: &mut SeededRandom, ticks: Ticks) -> Vec<Terms> {
    let mut quotas: Vec<Terms> = Vec::new();
    let count = 1 + random.below(3);
    while quotas.len() < count {
        let length = match random.below(10) {
            0 => random.one_of(&[1, 2, 3, 10]),
            1 => random.one_of(&[60 * SECOND, 61 * SECOND, 3_600 * SECOND]),
            2 => random.one_of(&[DAY, YEAR, 3_653 * DAY]),
            3 => 250 * ticks.length.max(1) + random.one_of(&[-1, 0, 1]),
            4 | 5 => random.one_of(&[300, 999, 1_001, 1_500]),
            _ => random.one_of(&[SECOND, SECOND, 2 * SECOND, 3 * SECOND]),
        };
        let denials = match random.below(6) {
            0 => Denials::Counted,
            1 => Denials::Overdraft,
            _ => Denials::Free,
        };
        let policy = random.one_of(&["p", "p", "q"]);
        if random.once_in(2) {
            let terms = Terms { policy, denials, ..of_another_kind(random, length) };
            quotas.push(terms);
            match random.below(4) {
                // The same counters under another limit and burst.
                0 => {
                    let limit = 1 + random.below(6) as u64;
                    quotas.push(Terms { limit, burst: 1 + random.below(6) as u64, ..terms });
                }
                1 => quotas.push(Terms { policy: "other", ..terms }),
                _ => {}
            }
            continue;
        }
        let cut = match random.below(8) {
            0..4 => Cut::Epoch(length),
            4 => Cut::Staggered(length),
            #[cfg(feature = "calendar")]
            5 => Cut::Calendar(
                random.one_of(&[Unit::Day, Unit::Week, Unit::Month, Unit::Year]),
                random.one_of(&[Zone::Kolkata, Zone::Berlin]),
            ),
            _ => Cut::FirstHit(length),
        };
        let limit = match random.below(12) {
            0 => 0,
            1 => random.one_of(&[1 << 32, (1 << 32) + 2, (1 << 40) - 1]),
            2 => 20,
            _ => 1 + random.below(4) as u64,
        };
        let terms = Terms { policy, limit, burst: 0, cut, denials };
        quotas.push(terms);
        match random.below(5) {
            // The same counters under another limit, for when an operator changes it.
            0 => quotas.push(Terms { limit: 1 + random.below(6) as u64, ..terms }),
            1 => quotas.push(Terms { policy: "other", ..terms }),
            2 => quotas.push(Terms { cut: same_length(random, cut), ..terms }),
            _ => {}
        }
    }
    quotas
}

/// A bucket, a sliding window or a log, of about this length.
fn of_another_kind(random: &mut SeededRandom, length: i64) -> Terms {
    let length = if random.once_in(4) { random.one_of(&[7, 50, 99, 250]) } else { length };
    let few = match random.below(12) {
        0 => 0,
        1 => 20,
        2 => 7,
        _ => 1 + random.below(4) as u64,
    };
    let (limit, burst, cut) = match random.below(5) {
        0 | 1 => {
            // A full bucket drains in ten years at most.
            let length = length.min(YEAR / 40);
            // Many a millisecond, and as fine as a rate can be.
            let limit = if random.once_in(6) { random.one_of(&[3_000, 4_194_301]) } else { few };
            (limit, random.one_of(&[1, 2, 3, 3, 5, 20]), Cut::Burst(length))
        }
        2 => (few, 0, Cut::Sliding(length)),
        3 => (few, 0, Cut::SlidingStaggered(length)),
        _ => {
            // A log of four entries takes more places than one of three.
            let few = if random.once_in(2) { random.one_of(&[4, 5, 7]) } else { few };
            let step = if random.once_in(2) { 1 } else { 1 + random.below(length.min(400) as usize) as i64 };
            (few, 0, Cut::Log(length, step))
        }
    };
    Terms { policy: "", limit, burst, cut, denials: Denials::Free }
}

/// Another way to cut time at the same length.
fn same_length(random: &mut SeededRandom, cut: Cut) -> Cut {
    let Some(length) = cut.length() else { return Cut::Epoch(DAY) };
    let cuts: [fn(i64) -> Cut; 3] = [Cut::Epoch, Cut::Staggered, Cut::FirstHit];
    cuts[random.below(3)](length)
}

fn a_move(random: &mut SeededRandom, quotas: &[Terms], ticks: Ticks, steps_back: bool) -> Move {
    let near = random.one_of(&[-1, 0, 0, 1, ticks.length, -ticks.length, 12 * ticks.length]);
    match random.below(if steps_back { 14 } else { 9 }) {
        0..3 => Move::NextEnd(near.max(if steps_back { i64::MIN } else { -1 })),
        3 | 4 => Move::By(random.below(5) as i64),
        5 => Move::By(random.below(400) as i64),
        6 => Move::By(random.one_of(&[999, 1_000, 1_001, 2_000])),
        7 => {
            let length = quotas[random.below(quotas.len())].cut.length().unwrap_or(DAY);
            Move::By(length + random.one_of(&[-1, 0, 1]))
        }
        8 if random.once_in(8) => Move::By(random.one_of(&[DAY, 31 * DAY, YEAR, 11 * YEAR])),
        8 => Move::By(random.below(1_500) as i64),
        9 | 10 => Move::LastEnd(random.one_of(&[-1, -1, 0, -2, -500, -999, -1_000, -1_001])),
        11 => Move::By(-random.one_of(&[1, 2, 10, 300, 999, 1_000])),
        12 => Move::By(-random.one_of(&[1_001, 1_002, 2_000, 5_000])),
        _ if random.once_in(4) => Move::By(-random.one_of(&[60 * SECOND, DAY, YEAR])),
        _ => Move::By(-(random.below(3_000) as i64)),
    }
}

struct Maker<'a> {
    random: &'a mut SeededRandom,
    quotas: &'a [Terms],
    keys: usize,
    ticks: Ticks,
    steps_back: bool,
    naming: Naming,
    /// Charges of one step, at most.
    most_asks: usize,
    is_calm: bool,
    is_duel: bool,
}

impl Maker<'_> {
    fn operations(&mut self, count: usize) -> Vec<Op> {
        (0..count).map(|_| self.operation()).collect()
    }

    fn operation(&mut self) -> Op {
        if self.is_duel && !self.random.once_in(4) {
            return Op::Check(if self.random.once_in(2) { vec![self.ask()] } else { self.of_all_quotas() });
        }
        match self.random.below(40) {
            0..14 => Op::Check(vec![self.ask()]),
            14..19 => Op::Check(self.asks()),
            19 => Op::Batch((0..1 + self.random.below(3)).map(|_| self.asks()).collect()),
            20 | 21 => Op::Peek(self.asks()),
            22 => Op::Record(self.ask()),
            23..26 => Op::Refund(self.ask(), self.random.one_of(&[0, 0, 1, 2])),
            26 => Op::Reset(self.ask()),
            27 => Op::Set(self.ask(), self.used()),
            28 | 29 if self.naming != Naming::Off => Op::Sweep,
            30 if self.naming != Naming::Off && self.is_calm => Op::List,
            _ => self.moves(),
        }
    }

    fn moves(&mut self) -> Op {
        Op::Move(a_move(self.random, self.quotas, self.ticks, self.steps_back))
    }

    /// Several charges, of unlike counters as a rule.
    fn asks(&mut self) -> Vec<Ask> {
        let count = 1 + self.random.below(self.most_asks);
        let one_key = self.random.once_in(2).then(|| self.random.below(self.keys));
        (0..count)
            .map(|_| Ask { key: one_key.unwrap_or_else(|| self.random.below(self.keys)), ..self.ask() })
            .collect()
    }

    /// One key under every quota, from either end.
    fn of_all_quotas(&mut self) -> Vec<Ask> {
        let key = self.random.below(self.keys);
        let mut asks: Vec<Ask> = (0..self.quotas.len()).map(|quota| Ask { quota, key, cost: 1 }).collect();
        if self.random.once_in(2) {
            asks.reverse();
        }
        asks
    }

    fn ask(&mut self) -> Ask {
        let quota = self.random.below(self.quotas.len());
        let limit = self.quotas[quota].capacity();
        let cost = match self.random.below(16) {
            0 => 0,
            1 => u32::try_from(limit).unwrap_or(u32::MAX),
            2 => u32::try_from(limit + 1).unwrap_or(u32::MAX),
            3 => self.random.one_of(&[u32::MAX, u32::MAX - 1, 5]),
            4..7 => 2,
            _ => 1,
        };
        Ask { quota, key: self.random.below(self.keys), cost }
    }

    fn used(&mut self) -> u64 {
        match self.random.below(4) {
            // Where counters stop to fit one word, and where counts end.
            0 => (1 << 32) - 2 + self.random.below(4) as u64,
            1 => (1 << 40) - 2 + self.random.below(3) as u64,
            _ => self.random.below(6) as u64,
        }
    }
}
