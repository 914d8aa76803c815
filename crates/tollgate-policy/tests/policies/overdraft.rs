//! Costs that are known only after the work, under policies with `overdraft`.

use tollgate::{CountDenied, ManualClock, MemoryStore, Receipt};
use tollgate_policy::{Attributes, Config, PolicyDecision, PolicyLimiter};
use tollgate_testkit::block_on;

type Limiter = PolicyLimiter<MemoryStore<ManualClock>, ManualClock>;

fn config(policies: &str) -> Config {
    Config::parse("t.yaml", policies).unwrap_or_else(|error| panic!("{error}"))
}

fn limiter(policies: &str) -> Limiter {
    let store = || MemoryStore::builder().clock(ManualClock::default()).build();
    PolicyLimiter::new(store(), config(policies).into_policies(), "t.yaml").memory(store())
}

fn attributes<'a>(pairs: &[(&'a str, &'a str)]) -> Attributes<'a> {
    pairs.iter().copied().collect()
}

fn check(limiter: &Limiter, attributes: &Attributes<'_>, cost: u32) -> PolicyDecision {
    block_on(limiter.check(attributes, cost)).unwrap()
}

/// What is used of each quota.
fn used(decision: &PolicyDecision) -> Vec<u64> {
    decision.quotas().map(|quota| quota.state.used()).collect()
}

/// A gateway reports the bytes of an answer when it has been sent. A budget that they did not fit was never used up,
/// with
/// `count_denied` neither if a single answer was larger than the whole budget.
#[test]
fn a_budget_is_used_up_by_costs_that_were_not_known_before() {
    let policy = |limit: u32, more: &str| {
        limiter(&format!("policies: [{{ name: bytes, key: [user], quotas: [{limit}/1d], {more} }}]"))
    };
    let alice = attributes(&[("user", "alice")]);
    let streams = |limiter: &Limiter| -> Vec<Option<u64>> {
        let stream = |_| {
            check(limiter, &alice, 0).is_allowed().then(|| {
                let _ = check(limiter, &alice, 400);
                check(limiter, &alice, 0).quota().unwrap().state.remaining()
            })
        };
        (0..4).map(stream).collect()
    };
    assert_eq!(streams(&policy(1_000, "overdraft: true")), [Some(600), Some(200), Some(0), None]);
    assert_eq!(streams(&policy(300, "overdraft: true")), [Some(0), None, None, None]);
    assert_eq!(streams(&policy(1_000, "overdraft: false")), [Some(600), Some(200), Some(200), Some(200)]);
    assert_eq!(streams(&policy(300, "count_denied: true")), [Some(300); 4]);
}

#[test]
fn an_overdraft_is_charged_although_another_policy_denies_and_denies_for_the_others() {
    let limiter = limiter(
        "
policies:
  - { name: requests, key: [user], cost: 1, quotas: [1/1d] }
  - { name: bytes, key: [user], quotas: [1000/1d], overdraft: true }
",
    );
    let (alice, bob) = (attributes(&[("user", "alice")]), attributes(&[("user", "bob")]));
    assert!(check(&limiter, &alice, 400).is_allowed());
    let denied = check(&limiter, &alice, 400);
    assert_eq!((denied.is_allowed(), denied.policy().unwrap().name()), (false, "requests"));
    assert_eq!(used(&denied), [1, 800]);
    block_on(limiter.set(&bob, 1_000, Some("bytes"), |_| true)).unwrap();
    let denied = check(&limiter, &bob, 1);
    assert_eq!((denied.policy().unwrap().name(), used(&denied)), ("bytes", vec![0, 1_001]));
}

/// A receipt holds what was charged, so that a denied call whose answer was never sent can be given back.
#[test]
fn a_receipt_of_a_denied_overdraft_holds_its_units() {
    let limiter = limiter("policies: [{ name: bytes, key: [user], quotas: [1000/1d], overdraft: true }]");
    let alice = attributes(&[("user", "alice")]);
    assert!(check(&limiter, &alice, 1_000).is_allowed());
    let denied = check(&limiter, &alice, 400);
    let mut receipt: Receipt = denied.receipt();
    assert_eq!((denied.is_allowed(), receipt.items()[0].units()), (false, 400));
    block_on(limiter.settle(&mut receipt, 100)).unwrap();
    assert_eq!(used(&check(&limiter, &alice, 0)), [1_100]);
    // Before the work, with nothing charged; settled at what it cost, room or not.
    block_on(limiter.reset(&alice, None, |_| true)).unwrap();
    let mut receipt = check(&limiter, &alice, 0).receipt();
    block_on(limiter.settle(&mut receipt, 2_500)).unwrap();
    let denied = check(&limiter, &alice, 0);
    assert_eq!((denied.is_allowed(), used(&denied)), (false, vec![2_500]));
}

/// As when it is enforced. Otherwise, the trial would say that a budget lasts longer than it does.
#[test]
fn an_overdraft_on_trial_is_charged_for_requests_that_another_policy_denies() {
    let limiter = limiter(
        "
policies:
  - { name: requests, key: [user], cost: 1, quotas: [1/1d] }
  - { name: bytes, key: [user], quotas: [1000/1d], overdraft: true, mode: shadow }
  - { name: strict, key: [user], quotas: [1000/1d], mode: shadow }
  - { name: candidate, key: [user], quotas: [5000/1d], candidate: [1000/1d], overdraft: true }
",
    );
    let alice = attributes(&[("user", "alice")]);
    let trials = |decision: &PolicyDecision| -> Vec<_> {
        let verdict = |trial: tollgate_policy::TrialDecision<'_>| {
            (trial.policy.name().to_owned(), trial.answer.verdict() == Some(tollgate::Verdict::Allowed))
        };
        decision.trials().map(verdict).collect()
    };
    let told = |bytes, strict, candidate| {
        let told = [("bytes", bytes), ("strict", strict), ("candidate", candidate)];
        told.map(|(name, allowed)| (name.to_owned(), allowed)).to_vec()
    };
    for (is_allowed, trial) in [(true, true), (false, true), (false, true), (false, false)] {
        let decision = check(&limiter, &alice, 400);
        assert_eq!((decision.is_allowed(), trials(&decision)), (is_allowed, told(trial, true, trial)));
    }
}

/// `count_denied` says nothing more, and the default of a file is meant for policies that do not say anything.
#[test]
fn overdraft_and_count_denied_contradict_each_other_only_in_one_policy() {
    for written in ["count_denied: true", "count_denied: false"] {
        let text =
            format!("policies: [{{ name: a, key: global, quotas: [5/1m], overdraft: true, {written} }}]");
        let error = Config::parse("t.yaml", &text).unwrap_err().to_string();
        let message = "remove `count_denied`: a policy with `overdraft` charges every request";
        assert!(error.contains(message), "{error}");
    }
    let error =
        Config::parse("t.yaml", "defaults: { overdraft: true }\npolicies: []\n").unwrap_err().to_string();
    assert!(error.contains("unknown key `overdraft` in defaults: set it on each policy"), "{error}");
    let config = config(
        "
defaults: { count_denied: true }
policies:
  - name: a
    key: global
    quotas: [5/1m]
    overdraft: true
    overrides: [{ when: { tier: gold }, quotas: [9/1m] }]
  - { name: b, key: global, quotas: [5/1m], overdraft: false }
  - { name: c, exempt: true }
",
    );
    let policy = |name| config.policies().as_slice().iter().find(|policy| policy.name() == name).unwrap();
    let (a, b) = (policy("a"), policy("b"));
    let quotas = a.quotas().iter().chain(a.overrides().iter().flat_map(|over| over.quotas()).flatten());
    let settings: Vec<_> = quotas.map(tollgate::PolicyQuota::count_denied).collect();
    assert!(settings.len() > 1 && settings.iter().all(|it| *it == CountDenied::Overdraft), "{settings:?}");
    assert_eq!(b.quotas()[0].count_denied(), CountDenied::Yes);
    let exempt =
        Config::parse("t.yaml", "policies: [{ name: c, exempt: true, overdraft: true }]").unwrap_err();
    assert!(exempt.to_string().contains("an exempt policy has no `overdraft`"), "{exempt}");
}
