//! Any sequence of steps gives the answers of a reference, in tables that are crowded all the time.
//!
//! The library's unit tests are built with shards of a few slots. So within one plan counters displace each other,
//! shards are rebuilt and grow row by row, and the slots of closed and reset counters go to others.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::slots::{ROW, ROWS};
use super::super::*;
use crate::{Anchor, CountDenied, Key, ManualClock, PolicyQuota, Quota, Window};

/// Counters for which one shard is planned.
const PLANNED: usize = ROW * ROWS * 5 / 8;

/// Sequences that are tried, and steps of each.
const CASES: u32 = 100;
const STEPS: usize = 250;

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..Default::default() })]

    #[test]
    fn one_shard_answers_as_the_reference_does(plan in plan(12), max_counters in 0..=PLANNED) {
        SideBySide::new(&plan.0, max_counters).replay(&plan.1);
    }

    #[test]
    fn several_shards_answer_as_the_reference_does(plan in plan(40), max_counters in PLANNED + 1..=4 * PLANNED) {
        SideBySide::new(&plan.0, max_counters).replay(&plan.1);
    }
}

/// A quota of the plan, a key, and a cost.
type Ask = (usize, u64, u32);

#[derive(Debug, Clone)]
enum Op {
    Charge(Vec<Ask>),
    Peek(Vec<Ask>),
    Record(Ask),
    /// In a window that was seen so many answers ago.
    Refund(Ask, usize),
    Reset(Ask),
    Set(Ask, u64),
    /// The clock moves by so many milliseconds.
    Pass(i64),
}

/// Quotas, and steps on so many keys.
fn plan(keys: u64) -> impl Strategy<Value = (Vec<PolicyQuota>, Vec<Op>)> {
    let cost = prop_oneof![1 => Just(0), 8 => 1..=4_u32, 2 => 5..=12_u32, 1 => Just(u32::MAX)];
    let ask = (0..3_usize, 0..keys, cost).boxed();
    let powers = prop::sample::select(vec![32, 40]);
    let used = prop_oneof![3 => 0..=9_u64, 1 => (powers, 0..4_u64).prop_map(|(power, more)| (1 << power) - 2 + more)];
    let moment = prop_oneof![
        6 => 0..=2_i64,
        6 => 0..=400_i64,
        6 => prop::sample::select(vec![300, 999, 1_000, 1_001, 3_000]),
        1 => 0..=200_000_i64,
    ]
    .boxed();
    let op = prop_oneof![
        6 => ask.clone().prop_map(|ask| Op::Charge(vec![ask])),
        6 => vec(ask.clone(), 0..8).prop_map(Op::Charge),
        2 => vec(ask.clone(), 0..8).prop_map(Op::Peek),
        1 => ask.clone().prop_map(Op::Record),
        2 => (ask.clone(), 0..4_usize).prop_map(|(ask, ago)| Op::Refund(ask, ago)),
        1 => ask.clone().prop_map(Op::Reset),
        1 => (ask, used).prop_map(|(ask, used)| Op::Set(ask, used)),
        4 => moment.clone().prop_map(Op::Pass),
        1 => moment.prop_map(|millis| Op::Pass(-millis)),
    ];
    (vec(quota(), 3), vec(op, STEPS / 2..=STEPS)).prop_map(|(quotas, ops)| {
        let named = |(at, (quota, counts)): (usize, (Quota, _))| {
            PolicyQuota::new(&at.to_string(), quota).with_count_denied(counts)
        };
        (quotas.into_iter().enumerate().map(named).collect(), ops)
    })
}

fn quota() -> impl Strategy<Value = (Quota, CountDenied)> {
    let anchor = prop::sample::select(vec![Anchor::Epoch, Anchor::Staggered, Anchor::FirstHit]);
    let limit = prop_oneof![8 => 0..=8_u64, 1 => Just((1 << 32) + 2), 1 => Just(Quota::MAX_LIMIT)];
    let length = prop::sample::select(vec![1, 300, 1_000, 1_000, 2_000, 60_000]);
    let counts = prop::sample::select(vec![
        CountDenied::No,
        CountDenied::No,
        CountDenied::Yes,
        CountDenied::Overdraft,
    ]);
    (anchor, limit, length, counts).prop_map(|(anchor, limit, length, counts)| {
        (Quota::new(limit, Duration::from_millis(length)).unwrap().with_anchor(anchor).unwrap(), counts)
    })
}

/// The store and what it should say.
struct SideBySide<'a> {
    quotas: &'a [PolicyQuota],
    clock: ManualClock,
    store: MemoryStore<ManualClock>,
    max_counters: usize,
    counters: HashMap<(usize, u64), Held>,
    /// The latest time there was.
    latest: Timestamp,
    /// Starts of windows that were returned, the latest last.
    seen: Vec<Timestamp>,
}

/// A counter by the rules. One that is gone stays here with the window before which it may not be opened again.
#[derive(Debug, Clone, Copy)]
struct Held {
    used: u64,
    window: Window,
    is_gone: bool,
}

impl<'a> SideBySide<'a> {
    fn new(quotas: &'a [PolicyQuota], max_counters: usize) -> Self {
        let clock = ManualClock::default();
        let store = MemoryStore::builder().clock(clock.clone()).max_counters(max_counters).build();
        let latest = clock.now();
        Self { quotas, clock, store, max_counters, counters: HashMap::new(), latest, seen: Vec::new() }
    }

    fn replay(mut self, ops: &[Op]) {
        for (at, op) in ops.iter().enumerate() {
            let at = format!("step {at}, {op:?} at {:?}", self.clock.now());
            match op {
                Op::Charge(asks) => self.charge(asks, &at),
                Op::Peek(asks) => self.peek(asks, &at),
                Op::Record(ask) => {
                    let used = self.look(ask).used + u64::from(ask.2);
                    let answer = self.store.record(&charge(self.quotas, ask, &Key::from(ask.1)));
                    self.sets(ask, used, answer, &at);
                }
                Op::Set(ask, used) => {
                    let key = Key::from(ask.1);
                    let answer = self.store.set(&charge(self.quotas, ask, &key).counter(), *used);
                    self.sets(ask, *used, answer, &at);
                }
                Op::Refund(ask, ago) => self.refund(ask, *ago, &at),
                Op::Reset(ask) => self.reset(ask),
                Op::Pass(millis) => self.pass(*millis),
            }
        }
        for ask in self.all() {
            self.reset(&ask);
        }
        assert_eq!(self.store.counters(), 0, "what was reset is not held");
    }

    /// Every counter that there can be.
    fn all(&self) -> Vec<Ask> {
        let keys = self.counters.keys().copied();
        keys.map(|(quota, key)| (quota, key, 0)).collect()
    }

    /// The counter as it stands now, moved if the clock has stepped back by more than a second.
    fn look(&mut self, (quota, key, _): &Ask) -> Held {
        let now = self.clock.now();
        let window = self.quotas[*quota].quota().window_at(&Key::from(*key), now);
        let fresh = Held { used: 0, window, is_gone: true };
        let Some(held) = self.counters.get_mut(&(*quota, *key)) else { return fresh };
        if held.window.end() <= now {
            return fresh;
        }
        if held.window.start() > now + Duration::from_secs(1) {
            held.window = window;
        }
        if held.is_gone && held.window.start() <= now { fresh } else { *held }
    }

    /// A counter that holds nothing opens now; or, if the clock has stepped back by less than a second, where another
    /// one was dropped that may have been this one. Where that was is the store's affair.
    fn learn(&mut self, ask: &Ask, told: Window) {
        let (held, now) = (self.look(ask), self.clock.now());
        let latest = self.latest.min(now + Duration::from_secs(1));
        if held.is_gone && held.window.start() < told.start() && (now..=latest).contains(&told.start()) {
            self.counters.insert((ask.0, ask.1), Held { window: told, ..held });
        }
    }

    fn learn_all(&mut self, asks: &[Ask], counted: &Result<QuotaStates, Full>) {
        for (ask, state) in asks.iter().zip(counted.iter().flat_map(|counted| counted.iter())) {
            self.learn(ask, state.window().unwrap());
        }
    }

    /// What all asks of one counter take.
    fn cost(asks: &[Ask], (quota, key, _): &Ask) -> u64 {
        let same = asks.iter().filter(|other| (&other.0, &other.1) == (quota, key));
        same.map(|ask| u64::from(ask.2)).sum()
    }

    /// For each ask what is used, in which window, and whether it fits; or nothing if there is no room.
    fn weigh(&mut self, asks: &[Ask]) -> Option<Vec<(u64, Window, bool)>> {
        let weigh = |ask: &Ask| {
            let Held { used, window, .. } = self.look(ask);
            let (quota, cost) = (&self.quotas[ask.0], Self::cost(asks, ask).max(1));
            let cost = if quota.count_denied() == CountDenied::Overdraft { 1 } else { cost };
            (used, window, used + cost <= quota.quota().limit())
        };
        let weighed: Vec<_> = asks.iter().map(weigh).collect();
        (!weighed.iter().all(|(.., fits)| *fits) || self.has_room(asks)).then_some(weighed)
    }

    fn has_room(&self, asks: &[Ask]) -> bool {
        let now = self.clock.now();
        let is_live = |held: &Held| !held.is_gone && now < held.window.end();
        let live = self.counters.iter().filter(|(_, held)| is_live(held)).map(|(counter, _)| *counter);
        let mut counters: HashSet<_> = live.collect();
        let before = counters.len();
        counters.extend(asks.iter().map(|(quota, key, _)| (*quota, *key)));
        counters.len() == before || counters.len() <= self.max_counters
    }

    fn charge(&mut self, asks: &[Ask], at: &str) {
        let now = self.clock.now();
        let keys: Vec<Key<'_>> = asks.iter().map(|ask| Key::from(ask.1)).collect();
        let charges: Vec<_> =
            asks.iter().zip(&keys).map(|(ask, key)| charge(self.quotas, ask, key)).collect();
        let counted = self.store.charge(&charges);
        self.learn_all(asks, &counted);
        let Some(weighed) = self.weigh(asks) else {
            assert_eq!(counted, Err(Full), "{at}");
            return;
        };
        let admitted = weighed.iter().all(|(.., fits)| *fits);
        let is_overdraft = |ask: &Ask| self.quotas[ask.0].count_denied() == CountDenied::Overdraft;
        let overdrafts = asks.iter().filter(|ask| is_overdraft(ask) && Self::cost(asks, ask) > 0);
        let overdrafts: Vec<Ask> = overdrafts.copied().collect();
        let (has_room, before) = (self.has_room(&overdrafts), self.counters.clone());
        for (ask, (used, window, fits)) in asks.iter().zip(&weighed) {
            let (quota, cost) = (&self.quotas[ask.0], Self::cost(asks, ask));
            let is_live =
                before.get(&(ask.0, ask.1)).is_some_and(|held| !held.is_gone && now < held.window.end());
            let counts = match quota.count_denied() {
                CountDenied::No => false,
                CountDenied::Yes => !fits && cost <= quota.quota().limit(),
                CountDenied::Overdraft => has_room || is_live,
            };
            if (admitted || counts) && cost > 0 {
                let used = (used + cost).min(Quota::MAX_LIMIT);
                self.counters.insert((ask.0, ask.1), Held { used, window: *window, is_gone: false });
            }
        }
        let expected = asks.iter().zip(&weighed).map(|(ask, (.., fits))| {
            let Held { used, window, .. } = self.look(ask);
            (used, window, *fits)
        });
        assert_eq!(told(&counted), Ok(expected.collect()), "{at}");
        self.seen.extend(counted.iter().flatten().map(|state| state.window().unwrap().start()));
    }

    fn peek(&mut self, asks: &[Ask], at: &str) {
        let keys: Vec<Key<'_>> = asks.iter().map(|ask| Key::from(ask.1)).collect();
        let charges: Vec<_> =
            asks.iter().zip(&keys).map(|(ask, key)| charge(self.quotas, ask, key)).collect();
        let counted = self.store.peek(&charges);
        self.learn_all(asks, &counted);
        assert_eq!(told(&counted), self.weigh(asks).ok_or(Full), "{at}");
    }

    fn sets(&mut self, ask: &Ask, used: u64, answer: Result<QuotaState, Full>, at: &str) {
        if let Ok(state) = &answer {
            self.learn(ask, state.window().unwrap());
        }
        let (before, used) = (self.look(ask), used.min(Quota::MAX_LIMIT));
        if used != before.used && !self.has_room(&[*ask]) {
            assert_eq!(answer, Err(Full), "{at}");
            return;
        }
        let state = answer.unwrap();
        assert_eq!((state.used(), state.window().unwrap()), (used, before.window), "{at}");
        if used != before.used {
            self.counters.insert((ask.0, ask.1), Held { used, is_gone: false, ..before });
        }
    }

    fn refund(&mut self, ask: &Ask, ago: usize, at: &str) {
        if self.look(ask).is_gone {
            self.reset(ask);
        }
        let start = self.seen.iter().rev().nth(ago).copied().unwrap_or(Timestamp::EPOCH);
        let refunded = self.store.refund(&charge(self.quotas, ask, &Key::from(ask.1)), Mark::at(start));
        self.learn(ask, refunded.window().unwrap());
        let held = self.look(ask);
        let is_open = held.window.start() == start;
        let given = if is_open { held.used.min(ask.2.into()) } else { 0 };
        let used = held.used - given;
        let told = (u64::from(refunded.units()), refunded.used(), refunded.window().unwrap());
        assert_eq!(told, (given, used, held.window), "{at}");
        if given > 0 {
            self.counters.insert((ask.0, ask.1), Held { used, ..held });
        }
    }

    fn reset(&mut self, ask: &Ask) {
        let state = self.store.reset(&charge(self.quotas, ask, &Key::from(ask.1)).counter());
        assert_eq!((state.used(), state.has_room()), (0, true));
        self.counters.remove(&(ask.0, ask.1));
        self.learn(ask, state.window().unwrap());
        assert_eq!(state.window().unwrap(), self.look(ask).window, "{ask:?} after a reset");
    }

    /// A store may still hold a counter whose window has closed, which shows once the clock is back in that window. So
    /// the store is asked: it has kept the counter unchanged, or not at all.
    fn pass(&mut self, millis: i64) {
        let before = self.clock.now();
        self.latest = self.latest.max(before);
        let now = Timestamp::from_unix_millis(before.as_unix_millis() + millis);
        self.clock.set(now);
        if millis >= 0 {
            return;
        }
        for ask in (0..self.quotas.len()).flat_map(|quota| (0..40).map(move |key| (quota, key, 0))) {
            let held = self.counters.get(&(ask.0, ask.1));
            if held.is_some_and(|held| !held.is_gone && before < held.window.end()) {
                continue;
            }
            let key = Key::from(ask.1);
            let look = [charge(self.quotas, &ask, &key)];
            let kept = held.filter(|held| !held.is_gone && now < held.window.end());
            match (kept, self.store.peek(&look)) {
                (Some(_), Ok(told)) if told[0].used() > 0 => {
                    let kept = self.look(&ask);
                    assert_eq!((told[0].used(), told[0].window().unwrap()), (kept.used, kept.window));
                }
                // One with nothing used may be kept as well, and nobody could tell.
                _ => self.reset(&ask),
            }
        }
    }
}

fn charge<'a>(quotas: &'a [PolicyQuota], ask: &Ask, key: &'a Key<'a>) -> Charge<'a> {
    Charge::new(&quotas[ask.0], key, ask.2)
}

fn told(counted: &Result<QuotaStates, Full>) -> Result<Vec<(u64, Window, bool)>, Full> {
    let state = |state: &QuotaState| (state.used(), state.window().unwrap(), state.has_room());
    counted.as_ref().map(|counted| counted.iter().map(state).collect()).map_err(Clone::clone)
}
