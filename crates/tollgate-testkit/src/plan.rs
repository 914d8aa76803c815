//! Plans: quotas, keys, and a sequence of operations on them.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::{Anchor, CalendarUnit, CountDenied, PolicyQuota, Quota};

/// Quotas, and steps on their counters. Indices wrap around, so that a plan stays valid as it shrinks.
#[derive(Debug, Clone)]
pub struct StepPlan {
    /// At least one; some share counters under different limits.
    pub quotas: Vec<PolicyQuota>,
    /// The number of keys, at least one.
    pub keys: u64,
    /// The operations, in their order.
    pub ops: Vec<PlannedStep>,
}

/// One step of a plan.
#[derive(Debug, Clone)]
pub enum PlannedStep {
    /// Charges all of these or none.
    Charge(Vec<PlannedCharge>),
    /// Charges all of these or none, before an end this many milliseconds from now.
    ChargeBefore(Vec<PlannedCharge>, i64),
    /// Charges each of these independently.
    ChargeEach(Vec<Vec<PlannedCharge>>),
    /// Peeks at all of these.
    Peek(Vec<PlannedCharge>),
    /// Records units, room or not.
    Record(PlannedCharge),
    /// Records units, and blocks the key for this long if the limit is exceeded.
    Block(PlannedCharge, Duration),
    /// Refunds units in the window of this many answers ago.
    Refund(PlannedCharge, usize),
    /// Resets the counter; the cost is ignored.
    Reset(PlannedCharge),
    /// Sets the usage; the cost is ignored.
    Set(PlannedCharge, u64),
    /// Advances the clock.
    Forward(Duration),
    /// Sets the clock back.
    Back(Duration),
}

/// A quota of the plan, one of a few keys, and a cost.
#[derive(Debug, Clone, Copy)]
pub struct PlannedCharge {
    /// The index of a quota, modulo their number.
    pub quota: usize,
    /// The index of a key, modulo their number.
    pub key: u64,
    /// The cost.
    pub cost: u32,
}

/// What a plan may do to the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockMoves {
    /// Nothing: for a store whose time cannot be set. Windows are long, and none starts at its first unit, so that the
    /// answers do not depend on the exact time of a step.
    None,
    /// Forward and back.
    Both,
}

/// Generates plans of at most this many steps on three keys.
pub fn plan(moves: ClockMoves, steps: usize) -> impl Strategy<Value = StepPlan> {
    let ops = || vec(op(moves, asks(4), used(), stretch()), 1..=steps);
    (vec(policy_quota(moves), 1..=4), ops()).prop_map(|(quotas, ops)| StepPlan { quotas, keys: 3, ops })
}

/// Generates plans of this many steps on up to this many keys, for stores whose counters collide. Counters appear, are
/// reset and close all the time, many at once, some of them with odd window lengths or counts.
pub fn crowd(keys: u64, steps: usize) -> impl Strategy<Value = StepPlan> {
    let ops = vec(op(ClockMoves::Both, asks(8), odd_used(), moment()), steps / 2..=steps);
    (vec(short_quota(), 1..=4), 1..=keys, ops).prop_map(|(quotas, keys, ops)| StepPlan { quotas, keys, ops })
}

/// Generates any valid quota: every anchor and unit, limits and lengths from the smallest to the largest.
pub fn quota() -> impl Strategy<Value = Quota> {
    let length =
        prop_oneof![1..=5000_u64, (1..=3653_u64).prop_map(|days| days * 86_400_000), 1..=315_619_200_000_u64];
    let anchor = prop_oneof![Just(Anchor::Epoch), Just(Anchor::Staggered), Just(Anchor::FirstHit)];
    let fixed = (length, anchor).prop_map(|(millis, anchor)| fixed(millis, anchor));
    (0..=Quota::MAX_LIMIT, prop_oneof![4 => fixed, 1 => calendar()])
        .prop_map(|(limit, quota)| quota.with_limit(limit).unwrap())
}

fn policy_quota(moves: ClockMoves) -> impl Strategy<Value = PolicyQuota> {
    let windows = match moves {
        ClockMoves::None => prop_oneof![
            prop::sample::select(vec!["1/1h", "1/2h", "1/1d"]).prop_map(|text| text.parse().unwrap()),
            calendar(),
        ]
        .boxed(),
        ClockMoves::Both => {
            let anchor = prop::sample::select(vec![Anchor::Epoch, Anchor::Staggered, Anchor::FirstHit]);
            let lengths = vec![1, 1_000, 60_000, 86_400_000];
            let fixed =
                (prop::sample::select(lengths), anchor).prop_map(|(millis, anchor)| fixed(millis, anchor));
            prop_oneof![3 => fixed, 1 => calendar()].boxed()
        }
    };
    let limit = prop_oneof![8 => 0..=8_u64, 1 => Just(1_000), 1 => Just(Quota::MAX_LIMIT)];
    of_a_policy(windows, limit)
}

/// Windows short enough that several pass in a plan. Lengths that are not whole seconds, and the larger limits, need
/// more room in a counter.
fn short_quota() -> impl Strategy<Value = PolicyQuota> {
    let anchor =
        prop::sample::select(vec![Anchor::Epoch, Anchor::Epoch, Anchor::Staggered, Anchor::FirstHit]);
    let windows = (prop::sample::select(vec![300, 1_000, 1_000, 2_000, 5_000, 60_000]), anchor)
        .prop_map(|(millis, anchor)| fixed(millis, anchor));
    let limit = prop_oneof![
        8 => 0..=8_u64,
        1 => Just((1 << 32) + 2),
        1 => Just((1 << 37) + 2),
        1 => Just(Quota::MAX_LIMIT),
    ];
    of_a_policy(windows, limit)
}

fn of_a_policy(
    windows: impl Strategy<Value = Quota>,
    limit: impl Strategy<Value = u64>,
) -> impl Strategy<Value = PolicyQuota> {
    let count_denied = prop_oneof![
        3 => Just(CountDenied::No),
        1 => Just(CountDenied::Yes),
        1 => Just(CountDenied::Overdraft),
    ];
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

/// Generates steps with these asks, `set`s of this usage, and clock moves.
fn op(
    moves: ClockMoves,
    asks: BoxedStrategy<Vec<PlannedCharge>>,
    used: BoxedStrategy<u64>,
    stretch: BoxedStrategy<Duration>,
) -> BoxedStrategy<PlannedStep> {
    let step = prop_oneof![
        6 => ask().prop_map(|ask| PlannedStep::Charge(vec![ask])),
        6 => asks.clone().prop_map(PlannedStep::Charge),
        1 => vec(asks.clone(), 0..=4).prop_map(PlannedStep::ChargeEach),
        2 => asks.clone().prop_map(PlannedStep::Peek),
        1 => ask().prop_map(PlannedStep::Record),
        2 => (ask(), 0..4_usize).prop_map(|(ask, ago)| PlannedStep::Refund(ask, ago)),
        1 => ask().prop_map(PlannedStep::Reset),
        1 => (ask(), used).prop_map(|(ask, used)| PlannedStep::Set(ask, used)),
    ];
    match moves {
        ClockMoves::None => step.boxed(),
        // A block begins with its first unit, so it depends on the exact time. So does what comes before an end.
        ClockMoves::Both => prop_oneof![
            12 => step,
            2 => (ask(), block_length()).prop_map(|(ask, length)| PlannedStep::Block(ask, length)),
            3 => (asks, end()).prop_map(|(asks, end)| PlannedStep::ChargeBefore(asks, end)),
            4 => stretch.clone().prop_map(PlannedStep::Forward),
            2 => step_back(stretch).prop_map(PlannedStep::Back),
        ]
        .boxed(),
    }
}

/// The lengths of blocks.
pub(crate) const BLOCKS: [Duration; 3] =
    [Duration::from_millis(1), Duration::from_millis(700), Duration::from_secs(60)];

fn block_length() -> impl Strategy<Value = Duration> {
    prop::sample::select(BLOCKS.to_vec())
}

/// In the past, just now, or later.
fn end() -> impl Strategy<Value = i64> {
    prop_oneof![2 => -1..=1_i64, 1 => 2..=2_000_i64, 1 => -2_000..=-2_i64]
}

/// Often exactly the second within which nothing is reopened.
fn step_back(stretch: BoxedStrategy<Duration>) -> BoxedStrategy<Duration> {
    let about_a_second = prop_oneof![1..=3_u64, 997..=1_003_u64, 1..=1_100_u64];
    prop_oneof![3 => about_a_second.prop_map(Duration::from_millis), 2 => stretch].boxed()
}

fn asks(most: usize) -> BoxedStrategy<Vec<PlannedCharge>> {
    vec(ask(), 0..=most).boxed()
}

/// Few quotas and keys, so that a step often names one counter twice.
fn ask() -> impl Strategy<Value = PlannedCharge> {
    let cost = prop_oneof![1 => Just(0), 8 => 1..=4_u32, 2 => 5..=12_u32, 1 => Just(u32::MAX)];
    (0..4_usize, 0..u64::MAX, cost).prop_map(|(quota, key, cost)| PlannedCharge { quota, key, cost })
}

fn used() -> BoxedStrategy<u64> {
    prop_oneof![4 => 0..=9_u64, 1 => Just(Quota::MAX_LIMIT - 1), 1 => Just(u64::MAX)].boxed()
}

/// Includes the values at which a store's words may end.
fn odd_used() -> BoxedStrategy<u64> {
    let powers = prop::sample::select(vec![16, 31, 32, 37, 38, 40]);
    prop_oneof![3 => used(), 1 => (powers, 0..4_u64).prop_map(|(power, more)| (1 << power) - 2 + more)]
        .boxed()
}

/// From nothing to several windows of every length, often exactly to the edge of one.
fn stretch() -> BoxedStrategy<Duration> {
    prop_oneof![
        0..=3_u64,
        0..=2_000_u64,
        (1..=3_u64, prop::sample::select(vec![1_000, 60_000, 3_600_000, 86_400_000]))
            .prop_map(|(n, unit)| n * unit),
        0..=200_000_u64,
        0..=40 * 86_400_000_u64,
    ]
    .prop_map(Duration::from_millis)
    .boxed()
}

/// From nothing to a few short windows, often exactly to the edge of one.
fn moment() -> BoxedStrategy<Duration> {
    prop_oneof![
        6 => 0..=2_u64,
        6 => 0..=400_u64,
        4 => (1..=3_u64, prop::sample::select(vec![300, 1_000])).prop_map(|(n, unit)| n * unit),
        2 => 0..=5_000_u64,
        1 => 0..=200_000_u64,
    ]
    .prop_map(Duration::from_millis)
    .boxed()
}
