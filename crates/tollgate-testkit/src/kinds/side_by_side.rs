//! Random steps on quotas of all kinds, taken on two stores: all answers have to be the same.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::{
    Charge, CountDenied, Counter, Key, Mark, PolicyQuota, Quota, QuotaState, Step, Store, Timestamp,
};

use super::small_quota;
use crate::SettableClock;

/// How far a clock may step back before stores differ in what they remember of counters that are over.
const STEP_BACK: Duration = Duration::from_secs(1);

/// Steps on one key under some quotas.
#[derive(Debug, Clone)]
pub struct MixedSteps {
    quotas: Vec<PolicyQuota>,
    steps: Vec<MixedStep>,
}

/// One step; quotas by their numbers.
#[derive(Debug, Clone)]
enum MixedStep {
    Pass(u64),
    StepBack(u64),
    Charge(Vec<(usize, u32)>),
    Peek(Vec<(usize, u32)>),
    Record(usize, u32),
    /// Of the mark that was seen so many answers ago.
    Refund(usize, u32, usize),
    Set(usize, u64),
    Reset(usize),
}

/// Generates up to this many steps.
pub fn mixed_steps(most: usize) -> impl Strategy<Value = MixedSteps> {
    let kind = prop_oneof![
        4 => small_quota(),
        1 => (1..20_u64, prop_oneof![Just(1_000_u64), Just(60_000)])
            .prop_map(|(limit, window)| Quota::new(limit, Duration::from_millis(window)).unwrap()),
    ];
    let counts = prop_oneof![4 => Just(CountDenied::No), 1 => Just(CountDenied::Yes), 1 => Just(CountDenied::Overdraft)];
    vec((kind, counts, 1..60_u64), 1..=3).prop_flat_map(move |quotas| {
        let quotas: Vec<PolicyQuota> = quotas.into_iter().enumerate().flat_map(variants).collect();
        let cost = prop_oneof![Just(0_u32), 1..5_u32, 1..30_u32];
        // One charge of each counter at most: how several add up is the business of other tests.
        let charges = prop::sample::subsequence((0..quotas.len() / 2).collect::<Vec<_>>(), 1..=quotas.len() / 2);
        let charges = (charges, any::<bool>(), vec(cost.clone(), 3)).prop_map(|(counters, other, costs)| {
            counters.into_iter().zip(costs).map(|(counter, cost)| (2 * counter + usize::from(other), cost)).collect()
        });
        let any = 0..quotas.len();
        let step = prop_oneof![
            3 => prop_oneof![0..3_u64, 0..1_500_u64, 0..70_000_u64].prop_map(MixedStep::Pass),
            1 => (1..=1_000_u64).prop_map(MixedStep::StepBack),
            6 => charges.clone().prop_map(MixedStep::Charge),
            1 => charges.prop_map(MixedStep::Peek),
            1 => (any.clone(), cost.clone()).prop_map(|(quota, cost)| MixedStep::Record(quota, cost)),
            2 => (any.clone(), cost, 0..3_usize).prop_map(|(quota, cost, ago)| MixedStep::Refund(quota, cost, ago)),
            1 => (any.clone(), 0..70_u64).prop_map(|(quota, used)| MixedStep::Set(quota, used)),
            1 => any.prop_map(MixedStep::Reset),
        ];
        vec(step, 1..most).prop_map(move |steps| MixedSteps { quotas: quotas.clone(), steps })
    })
}

/// A quota, and another one with the same counters: of a bucket with another burst, of the others with another limit.
fn variants((number, (quota, counts, other)): (usize, (Quota, CountDenied, u64))) -> [PolicyQuota; 2] {
    let policy = ["one", "two", "three"][number];
    let changed = match quota.bucket() {
        Some(_) => quota.clone().with_burst(Some(other)),
        None => quota.clone().with_limit(other.min(39)),
    };
    let changed = changed.unwrap_or_else(|_| quota.clone());
    [quota, changed].map(|quota| PolicyQuota::new(policy, quota).with_count_denied(counts))
}

/// Takes the steps on both stores, at the same times, and demands equal answers.
///
/// # Panics
///
/// If an answer differs.
pub async fn take_side_by_side(one: &impl SettableClock, other: &impl SettableClock, plan: &MixedSteps) {
    let key = Key::from("alice");
    let mut now = Timestamp::from_unix_millis(1_700_000_040_000);
    // The clock steps back no further than this.
    let mut earliest = now - STEP_BACK;
    let mut marks: Vec<Mark> = vec![Mark::at(now)];
    let charge = |(quota, cost): &(usize, u32)| Charge::new(&plan.quotas[*quota], &key, *cost);
    let counter = |quota: &usize| Counter::new(&plan.quotas[*quota], &key);
    for (number, step) in plan.steps.iter().enumerate() {
        let charges: Vec<Charge<'_>> = match step {
            MixedStep::Charge(charges) | MixedStep::Peek(charges) => charges.iter().map(charge).collect(),
            _ => Vec::new(),
        };
        let taken = match step {
            MixedStep::Pass(millis) => {
                now = now + Duration::from_millis(*millis);
                earliest = earliest.max(now - STEP_BACK);
                continue;
            }
            MixedStep::StepBack(millis) => {
                now = (now - Duration::from_millis(*millis)).max(earliest);
                continue;
            }
            MixedStep::Charge(_) => Step::Charge(&charges),
            MixedStep::Peek(_) => Step::Peek(&charges),
            MixedStep::Record(quota, cost) => Step::Record(charge(&(*quota, *cost))),
            MixedStep::Refund(quota, cost, ago) => {
                let mark = marks[marks.len().saturating_sub(1 + ago)];
                Step::Refund { charge: charge(&(*quota, *cost)), mark }
            }
            MixedStep::Set(quota, used) => Step::Set { counter: counter(quota), used: *used },
            MixedStep::Reset(quota) => Step::Reset(counter(quota)),
        };
        one.set_time(now);
        other.set_time(now);
        let expected = one.store().step(taken).await.unwrap();
        let answer = other.store().step(taken).await.unwrap();
        let expected: Vec<QuotaState> = expected.iter().copied().collect();
        let answer: Vec<QuotaState> = answer.iter().copied().collect();
        let is_assigned = matches!(step, MixedStep::Set(..) | MixedStep::Refund(..) | MixedStep::Reset(_));
        if is_assigned && expected[0].used() == 0 {
            // A store may keep a counter that was emptied, or forget it. Before that time, these differ.
            earliest = now;
        }
        let place = format!("step {number}, {step:?}, at {now:?}");
        if let MixedStep::Reset(_) = step {
            // After a small step back, the window of a counter that is gone is the store's choice.
            let used = |states: &[QuotaState]| (states[0].used(), states[0].now());
            assert_eq!(used(&answer), used(&expected), "{place}");
            continue;
        }
        assert_eq!(answer, expected, "{place}");
        marks.extend(expected.iter().map(QuotaState::mark));
    }
}
