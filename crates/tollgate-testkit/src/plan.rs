//! Plans: quotas, keys, and what is done to them one after another.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::{Anchor, CalendarUnit, CountDenied, PolicyQuota, Quota};

/// Quotas, and steps on their counters. Indices wrap around, so that a plan stays whole as it shrinks.
#[derive(Debug, Clone)]
pub struct Plan {
    /// At least one; some share counters under different limits.
    pub quotas: Vec<PolicyQuota>,
    /// What is done, in this order.
    pub ops: Vec<Op>,
}

/// One step of a plan.
#[derive(Debug, Clone)]
pub enum Op {
    /// All of these or none.
    Charge(Vec<Ask>),
    /// Each of these by itself.
    ChargeEach(Vec<Vec<Ask>>),
    /// Looks at all of these.
    Peek(Vec<Ask>),
    /// Takes without asking.
    Record(Ask),
    /// Gives back in a window that was seen so many answers ago.
    Refund(Ask, usize),
    /// Forgets the counter; the cost says nothing.
    Reset(Ask),
    /// Sets what is used; the cost says nothing.
    Set(Ask, u64),
    /// Time goes on.
    Forward(Duration),
    /// The clock is set back.
    Back(Duration),
}

/// A quota of the plan, one of a few keys, and a cost.
#[derive(Debug, Clone, Copy)]
pub struct Ask {
    /// Which quota.
    pub quota: usize,
    /// Which key.
    pub key: u64,
    /// How many units.
    pub cost: u32,
}

/// What a plan may do to the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moves {
    /// Nothing: for a store whose time can't be steered. Windows are long, and none starts at its first unit, so
    /// that the answers do not depend on when exactly a step is taken.
    None,
    /// Forward and back.
    Both,
}

/// Any plan of at most so many steps.
pub fn plan(moves: Moves, steps: usize) -> impl Strategy<Value = Plan> {
    let quotas = vec(policy_quota(moves), 1..=4);
    (quotas, vec(op(moves), 1..=steps)).prop_map(|(quotas, ops)| Plan { quotas, ops })
}

/// Any quota that can be: every anchor and unit, limits and lengths from the smallest to the largest.
pub fn quota() -> impl Strategy<Value = Quota> {
    let length =
        prop_oneof![1..=5000_u64, (1..=3653_u64).prop_map(|days| days * 86_400_000), 1..=315_619_200_000_u64];
    let anchor = prop_oneof![Just(Anchor::Epoch), Just(Anchor::Staggered), Just(Anchor::FirstHit)];
    let fixed = (length, anchor).prop_map(|(millis, anchor)| fixed(millis, anchor));
    (0..=Quota::MAX_LIMIT, prop_oneof![4 => fixed, 1 => calendar()])
        .prop_map(|(limit, quota)| quota.with_limit(limit).unwrap())
}

fn policy_quota(moves: Moves) -> impl Strategy<Value = PolicyQuota> {
    let windows = match moves {
        Moves::None => prop_oneof![
            prop::sample::select(vec!["1/1h", "1/2h", "1/1d"]).prop_map(|text| text.parse().unwrap()),
            calendar(),
        ]
        .boxed(),
        Moves::Both => {
            let anchor = prop::sample::select(vec![Anchor::Epoch, Anchor::Staggered, Anchor::FirstHit]);
            let lengths = vec![1, 1_000, 60_000, 86_400_000];
            let fixed =
                (prop::sample::select(lengths), anchor).prop_map(|(millis, anchor)| fixed(millis, anchor));
            prop_oneof![3 => fixed, 1 => calendar()].boxed()
        }
    };
    let limit = prop_oneof![8 => 0..=8_u64, 1 => Just(1_000), 1 => Just(Quota::MAX_LIMIT)];
    let count_denied = prop_oneof![3 => Just(CountDenied::No), 1 => Just(CountDenied::Yes)];
    let policy = prop::sample::select(vec!["a", "b"]);
    (policy, windows, limit, count_denied).prop_map(|(policy, windows, limit, count_denied)| {
        PolicyQuota::new(policy, windows.with_limit(limit).unwrap()).with_count_denied(count_denied)
    })
}

fn fixed(millis: u64, anchor: Anchor) -> Quota {
    Quota::new(1, Duration::from_millis(millis)).unwrap().with_anchor(anchor).unwrap()
}

fn calendar() -> impl Strategy<Value = Quota> {
    let unit = prop::sample::select(vec![
        CalendarUnit::Day,
        CalendarUnit::Week,
        CalendarUnit::Month,
        CalendarUnit::Year,
    ]);
    let zone =
        prop::sample::select(vec!["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/Argentina/Ushuaia"]);
    (unit, zone).prop_map(|(unit, zone)| Quota::calendar(1, unit, zone).unwrap())
}

fn op(moves: Moves) -> BoxedStrategy<Op> {
    let asks = || vec(ask(), 0..=4);
    let step = prop_oneof![
        6 => ask().prop_map(|ask| Op::Charge(vec![ask])),
        6 => asks().prop_map(Op::Charge),
        1 => vec(asks(), 0..=4).prop_map(Op::ChargeEach),
        2 => asks().prop_map(Op::Peek),
        1 => ask().prop_map(Op::Record),
        2 => (ask(), 0..4_usize).prop_map(|(ask, ago)| Op::Refund(ask, ago)),
        1 => ask().prop_map(Op::Reset),
        1 => (ask(), used()).prop_map(|(ask, used)| Op::Set(ask, used)),
    ];
    match moves {
        Moves::None => step.boxed(),
        Moves::Both => prop_oneof![
            12 => step,
            4 => stretch().prop_map(Op::Forward),
            1 => stretch().prop_map(Op::Back),
        ]
        .boxed(),
    }
}

/// Few quotas and keys, so that a step often names one counter twice.
fn ask() -> impl Strategy<Value = Ask> {
    let cost = prop_oneof![1 => Just(0), 8 => 1..=4_u32, 2 => 5..=12_u32, 1 => Just(u32::MAX)];
    (0..4_usize, 0..3_u64, cost).prop_map(|(quota, key, cost)| Ask { quota, key, cost })
}

fn used() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..=9_u64, 1 => Just(Quota::MAX_LIMIT - 1), 1 => Just(u64::MAX)]
}

/// From nothing to some windows of every length, often right to the edge of one.
fn stretch() -> impl Strategy<Value = Duration> {
    prop_oneof![
        0..=3_u64,
        0..=2_000_u64,
        (1..=3_u64, prop::sample::select(vec![1_000, 60_000, 3_600_000, 86_400_000]))
            .prop_map(|(n, unit)| n * unit),
        0..=200_000_u64,
        0..=40 * 86_400_000_u64,
    ]
    .prop_map(Duration::from_millis)
}
