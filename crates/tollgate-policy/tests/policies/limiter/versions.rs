//! Replaced policies, and policies made in code.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tollgate::{LocalShare, MemoryStore, OnStoreFailure, Quota};
use tollgate_policy::{Attributes, HeaderFormat, Identity, Policies, Policy, PolicyError, PolicyLimiter};
use tollgate_testkit::block_on;

use super::{ALICE, check, limiter, policies_of, policy, used};

#[test]
fn replaced_policies_keep_counters_and_figures() {
    let limiter = limiter("  - { name: a, key: [user], quotas: [2/1m] }");
    assert!(check(&limiter, ALICE).is_allowed() && check(&limiter, ALICE).is_allowed());
    let before = check(&limiter, ALICE);
    let set = limiter.replace(
        policies_of(
            "  - { name: b, key: [user], quotas: [9/1m] }\n  - { name: a, key: [user], quotas: [3/1m] }",
        ),
        "other",
    );
    assert_eq!((set.version(), set.source(), limiter.live().version()), (2, "other", 2));
    let after = check(&limiter, ALICE);
    assert_eq!((after.version(), used(&after)), (2, vec![("b", 1), ("a", 3)]));
    assert_eq!(policy(&check(&limiter, ALICE)), Some("a"));
    // A decision that was made earlier still reads the same.
    assert_eq!((before.version(), before.quota().unwrap().state.limit()), (1, 2));
    let tally = set.tally().find(|(policy, _)| policy.name() == "a").unwrap().1;
    assert_eq!((tally.allowed, tally.denied), (3, 2));
}

/// G10: both limits and both names belong to one version, whenever the policies were replaced.
#[test]
fn no_decision_mixes_two_versions() {
    let version = |limit: u64| {
        let named = |name: &str| {
            let quota = Quota::per_day(u32::try_from(limit).unwrap());
            Policy::builder(&format!("{name}-{limit}")).quota(quota).build().unwrap()
        };
        Policies::of([named("one"), named("other")]).unwrap()
    };
    const VERSIONS: u64 = 500;
    let limiter = PolicyLimiter::new(MemoryStore::new(), version(1_000_001), "code");
    let over = AtomicBool::new(false);
    let checks: u64 = thread::scope(|scope| {
        let asking = || {
            let (mut checks, mut last) = (0, 0);
            let nobody = Attributes::default();
            while !over.load(Ordering::Relaxed) || checks == 0 {
                let batch = block_on(limiter.check_each([(&nobody, 1), (&nobody, 1)]));
                let alone = block_on(limiter.check(&nobody, 1));
                for decision in batch.into_iter().chain([alone]) {
                    let decision = decision.unwrap();
                    let expected = 1_000_000 + decision.version();
                    let names: Vec<&str> = decision.quotas().map(|quota| quota.policy.name()).collect();
                    assert_eq!(names, [format!("one-{expected}"), format!("other-{expected}")]);
                    assert!(decision.quotas().all(|quota| quota.state.limit() == expected));
                    assert!(decision.version() >= last, "versions only go forward");
                    last = decision.version();
                    checks += 1;
                }
            }
            checks
        };
        let asking: Vec<_> = (0..3).map(|_| scope.spawn(asking)).collect();
        for number in 2..=VERSIONS {
            assert_eq!(limiter.replace(version(1_000_000 + number), "code").version(), number);
        }
        over.store(true, Ordering::Relaxed);
        asking.into_iter().map(|asking| asking.join().unwrap()).sum()
    });
    assert!(checks >= 3);
}

#[test]
fn policies_made_in_code_are_checked() {
    let quota = || Quota::per_minute(5);
    let error = |error: Result<Policy, PolicyError>| error.unwrap_err().to_string();
    assert_eq!(error(Policy::builder("a").build()), "policy `a` has no quota");
    assert!(error(Policy::builder("a:b").quota(quota()).build()).starts_with("a policy's name must have"));
    assert_eq!(
        error(Policy::builder("a").quota(quota()).quota("7/60s".parse().unwrap()).build()),
        "5/1m and 7/1m have the same window; keep one of them"
    );
    // If a cost was more than any request can ask for, every request was charged its own cost.
    let cost = |name: &str| tollgate_policy::CostAttribute::new(name, 5).into();
    let priced = |name: &str| Policy::builder("a").quota(quota()).cost(cost(name)).build();
    let keyed =
        |name: &str| Policy::builder("a").quota(quota()).key(Identity::Attribute(name.into())).build();
    let matching = |name: &str| Policy::builder("a").quota(quota()).matching(name, ["/"]).build();
    for name in [String::new(), "x".repeat(129)] {
        for policy in [priced(&name), keyed(&name), matching(&name)] {
            assert_eq!(error(policy), "policy `a`: an attribute's name has 1 to 128 characters");
        }
    }
    assert!(priced(&"ä".repeat(128)).is_ok());
    let above = tollgate_policy::CostAttribute::new("tokens", 5).with_min(6).into();
    let above = Policy::builder("a").quota(quota()).cost(above).build();
    assert_eq!(error(above), "policy `a`: the minimum cost is above the maximum");
    // An empty list counted everybody together, and a status that is not an error became 429.
    let empty = Policy::builder("a").quota(quota()).matching("path", []).build();
    assert_eq!(error(empty), "policy `a`: a list in a condition or a key is empty");
    let none = || Identity::FirstOf([].into());
    for nobody in [none(), Identity::All([].into()), Identity::All([Identity::Global, none()].into())] {
        let empty = Policy::builder("a").quota(quota()).key(nobody).build();
        assert_eq!(error(empty), "policy `a`: a list in a condition or a key is empty");
    }
    for status in [0, 200, 399, 600, 9999] {
        let denied = Policy::builder("a").quota(quota()).deny_status(status).build();
        let expected = format!("policy `a`: a denial must have a status from 400 to 599, not {status}");
        assert_eq!(error(denied), expected);
    }
    let policy = || Policy::builder("a").quota(quota()).build().unwrap();
    assert_eq!(Policies::of([policy(), policy()]).unwrap_err().to_string(), "two policies are named `a`");
}

#[test]
fn a_policy_made_in_code_is_that_of_a_file() {
    let file = policies_of(
        "  - { name: a, match: { path: [/a, /b/*] }, key: [user], quotas: [5/1m], candidate: [6/1m], cost: 2,
      on_store_failure: local, local_share: 1/3, headers: none, deny_status: 403, count_denied: true }",
    );
    let code = Policy::builder("a")
        .matching("path", ["/a", "/b/*"])
        .key(Identity::Attribute("user".into()))
        .quota(Quota::per_minute(5))
        .candidate(Quota::per_minute(6))
        .cost(tollgate_policy::Cost::Fixed(2))
        .on_store_failure(OnStoreFailure::Local(LocalShare::new(1, 3).unwrap()))
        .headers(HeaderFormat::None)
        .deny_status(403)
        .count_denied(tollgate::CountDenied::Yes)
        .build()
        .unwrap();
    let debug = |policy: &Policy| format!("{policy:?}");
    let place = |text: String| {
        let (before, after) = text.split_once("at: ").unwrap();
        format!("{before}{}", after.split_once("}").unwrap().1)
    };
    assert_eq!(place(debug(&file.as_slice()[0])), place(debug(&code)));
}
