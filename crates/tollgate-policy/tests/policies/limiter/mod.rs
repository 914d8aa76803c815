//! Policies over a store: which one decides, trials, trouble of the store, and replacing policies.

mod changes;
mod counts;
mod deciding;
mod hold_outages;
mod holds;
mod kinds;
mod outages;
mod overrides;
mod trials;
mod versions;

use tollgate::{ManualClock, MemoryStore, Receipt, Verdict};
use tollgate_policy::{
    Attributes, CheckError, Config, Policies, Policy, PolicyDecision, PolicyLimiter, TrialKind,
};
use tollgate_testkit::{FaultyStore, block_on};

type Store = FaultyStore<MemoryStore<ManualClock>>;

type Limiter = PolicyLimiter<Store, ManualClock>;

/// A limiter with a manual clock, over a store that can be made to fail.
fn limiter(policies: &str) -> Limiter {
    limiter_at(&ManualClock::default(), policies)
}

/// The same with this clock.
fn limiter_at(clock: &ManualClock, policies: &str) -> Limiter {
    let memory = || MemoryStore::builder().clock(clock.clone()).max_counters(100).build();
    PolicyLimiter::new(FaultyStore::new(memory()), policies_of(policies), "test").memory(memory())
}

fn policies_of(policies: &str) -> Policies {
    let config = Config::parse("tollgate.yaml", &format!("policies:\n{policies}"));
    config.unwrap_or_else(|error| panic!("{error}")).into_policies()
}

fn attributes<'a>(pairs: &[(&'a str, &'a str)]) -> Attributes<'a> {
    pairs.iter().copied().collect()
}

const ALICE: &[(&str, &str)] = &[("user", "alice"), ("path", "/search")];

fn try_check(limiter: &Limiter, pairs: &[(&str, &str)]) -> Result<PolicyDecision, CheckError> {
    block_on(limiter.check(&attributes(pairs), 1))
}

fn check(limiter: &Limiter, pairs: &[(&str, &str)]) -> PolicyDecision {
    try_check(limiter, pairs).unwrap()
}

/// A check, and its receipt.
fn reserve(limiter: &Limiter, request: &Attributes<'_>, cost: u32) -> (PolicyDecision, Receipt) {
    let decision = block_on(limiter.check(request, cost)).unwrap();
    let receipt = decision.receipt();
    (decision, receipt)
}

fn policy(decision: &PolicyDecision) -> Option<&str> {
    decision.policy().map(Policy::name)
}

fn used(decision: &PolicyDecision) -> Vec<(&str, u64)> {
    decision.quotas().map(|quota| (quota.policy.name(), quota.state.used())).collect()
}

const TRIALS: &str = "
  - { name: live, key: [user], quotas: [3/1m], candidate: [1/1m] }
  - { name: dark, mode: shadow, key: [user], quotas: [2/1m] }";

fn trials(decision: &PolicyDecision) -> Vec<(&str, TrialKind, Option<bool>)> {
    let trials = decision.trials();
    trials
        .map(|trial| {
            let verdict = trial.answer.verdict();
            (trial.policy.name(), trial.kind, verdict.map(|verdict| verdict == Verdict::Allowed))
        })
        .collect()
}
