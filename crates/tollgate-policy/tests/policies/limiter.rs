//! Policies over a store: which one decides, trials, trouble of the store, and replacing policies.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::{
    FallbackStore, LocalShare, ManualClock, MemoryStore, OnStoreFailure, Quota, QuotaState, Receipt, Source,
    StoreError, Timestamp, Verdict,
};
use tollgate_policy::{
    Attributes, ChargedWindow, CheckError, Config, Ground, HeaderFormat, Identity, KeyFault, Policies,
    Policy, PolicyDecision, PolicyError, PolicyLimiter, PolicySet, QuotaChanges, QuotaRefund, RefundError,
    Refusal, TrialKind, WhenFull,
};
use tollgate_testkit::{FaultyStore, StoreFault, Unreachable, block_on};

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

#[test]
fn the_policy_that_decides_gives_the_headers_and_the_status() {
    let limiter = limiter(
        "  - { name: wide, key: [user], quotas: [9/1m, 100/1h], headers: none, deny_status: 403 }
  - { name: narrow, match: { path: /search }, key: [user], quotas: [2/1m], headers: draft-06, deny_status: 401 }",
    );
    let decision = check(&limiter, ALICE);
    assert_eq!((policy(&decision), decision.version()), (Some("narrow"), 1));
    assert_eq!(used(&decision), [("wide", 1), ("wide", 1), ("narrow", 1)]);
    assert!(check(&limiter, ALICE).is_allowed());
    let denied = check(&limiter, ALICE);
    assert_eq!((denied.is_allowed(), policy(&denied)), (false, Some("narrow")));
    assert_eq!((denied.headers(), denied.deny_status()), (HeaderFormat::Draft06.into(), 401));
    assert_eq!(denied.quota().unwrap().quota.quota().to_string(), "2/1m");
    assert_eq!(used(&denied), [("wide", 2), ("wide", 2), ("narrow", 2)], "a denial takes nothing anywhere");

    let other = check(&limiter, &[("user", "alice"), ("path", "/")]);
    assert_eq!(
        (policy(&other), other.headers(), other.deny_status()),
        (Some("wide"), HeaderFormat::None.into(), 403)
    );
}

/// A user whose limit changes in the middle of a window keeps the usage: a counter does not depend on its limit.
#[test]
fn a_limit_from_an_attribute_counts_on_the_same_counter() {
    let limiter = limiter(
        "  - name: api
    key: [user]
    quotas: [100/1h, { limit: { attribute: quota }, max: 6, window: 1m@first_hit }]
    overrides: [{ when: { plan: gold }, quotas: [{ limit: { attribute: gold, on_missing: 2 }, max: 9, window: 1m@first_hit }] }]
  - name: tried
    key: [user]
    quotas: [50/1h]
    candidate: [{ limit: { attribute: other }, max: 3, window: 1m }]",
    );
    let with = |more: &[(&'static str, &'static str)]| {
        let pairs: Vec<(&str, &str)> = ALICE.iter().chain(more).copied().collect();
        try_check(&limiter, &pairs)
    };
    let limited = |quota| {
        let decision = with(&[("quota", quota)]).unwrap();
        let standing = decision.quotas().nth(1).unwrap();
        assert_eq!(
            standing.quota.quota().limit(),
            standing.state.limit(),
            "the quota is the one that was charged"
        );
        (decision.is_allowed(), standing.quota.quota().to_string(), standing.state.used())
    };
    assert_eq!(limited("2"), (true, "2/1m@first_hit".into(), 1));
    assert_eq!(limited("2"), (true, "2/1m@first_hit".into(), 2));
    assert_eq!(limited("2"), (false, "2/1m@first_hit".into(), 2));
    assert_eq!(limited("3"), (true, "3/1m@first_hit".into(), 3));
    assert_eq!(limited("1"), (false, "1/1m@first_hit".into(), 3), "lowered below what is used");
    assert_eq!(limited("0"), (false, "0/1m@first_hit".into(), 3));
    assert_eq!(
        limited("99999999999999999999999"),
        (true, "6/1m@first_hit".into(), 4),
        "cut down to the most"
    );
    let gold = with(&[("plan", "gold"), ("gold", "5")]).unwrap();
    assert_eq!((gold.is_allowed(), gold.quota().unwrap().state.used()), (true, 5));
    let unsaid = with(&[("plan", "gold")]).unwrap();
    assert_eq!((unsaid.is_allowed(), unsaid.quota().unwrap().state.limit()), (false, 2));

    let refused = |quota: Option<&'static str>| {
        let more: Vec<_> = quota.map(|quota| ("quota", quota)).into_iter().collect();
        with(&more).unwrap_err().to_string()
    };
    let error = "policy `api`: the attribute `quota`";
    assert_eq!(refused(None), format!("{error}, which sets the limit, is missing"));
    for odd in ["", "-1", "1.5", "many", " 7"] {
        assert_eq!(refused(Some(odd)), format!("{error} sets the limit and must be a whole number"), "{odd}");
    }
    // A trial never fails a request, and is left out if its limit is missing.
    assert_eq!(with(&[("quota", "6")]).unwrap().trials().count(), 0);
    let tried = with(&[("quota", "6"), ("other", "7"), ("plan", "none")]).unwrap();
    let limits: Vec<u64> = tried.trials().map(|trial| trial.answer.state().unwrap().limit()).collect();
    assert_eq!(limits, [3]);
}

#[test]
fn refunds_a_charge_under_a_limit_of_the_request() {
    let limiter = limiter(
        "  - { name: api, key: [user], quotas: [{ limit: { attribute: quota }, max: 10, window: 1m@first_hit }] }",
    );
    let alice = attributes(&[("user", "alice"), ("quota", "4")]);
    let decision = block_on(limiter.check(&alice, 4)).unwrap();
    assert!(decision.is_allowed());
    let window = ChargedWindow::from(decision.quota().unwrap());
    let _ = block_on(limiter.settle(&mut decision.receipt(), 3)).unwrap();
    let changed = block_on(limiter.refund(&alice, 1, 1, &[window])).unwrap();
    let refund: Vec<(String, u64)> =
        changed.iter().map(|(_, quota, refund)| (quota.quota().to_string(), refund.state.used())).collect();
    assert_eq!(refund, [("4/1m@first_hit".to_owned(), 2)]);
    let set =
        block_on(limiter.set(&attributes(&[("user", "alice"), ("quota", "7")]), 6, None, |_| true)).unwrap();
    assert_eq!(set.iter().map(|(_, _, state)| state.remaining()).collect::<Vec<_>>(), [1]);
}

/// To reset a user, an administrator had to invent the attribute with the limit, on which no counter depends. The same
/// went for the attribute with the cost, which a reset does not have.
/// Whoever resets a user's counter need not know the user's address.
#[test]
fn a_change_of_one_policy_needs_nothing_of_the_others() {
    let limiter = limiter(
        "  - { name: users, key: [user], quotas: [5/1m] }
  - { name: addresses, key: [ip], quotas: [5/1m] }
  - { name: costs, key: [user], cost: { attribute: tokens, max: 9 }, quotas: [5/1m] }",
    );
    let alice = attributes(ALICE);
    let used = |changed: QuotaChanges<QuotaState>| {
        let changed = changed.iter().map(|(policy, _, state)| (policy.name().to_owned(), state.used()));
        changed.collect::<Vec<_>>()
    };
    block_on(async {
        let counts_of_users = |used: u64| [("users".to_owned(), used)];
        assert_eq!(used(limiter.set(&alice, 4, Some("users"), |_| true).await.unwrap()), counts_of_users(4));
        assert_eq!(used(limiter.reset(&alice, Some("users"), |_| true).await.unwrap()), counts_of_users(0));
        assert_eq!(used(limiter.reset(&alice, Some("none"), |_| true).await.unwrap()), []);
        for policy in [None, Some("addresses")] {
            let error = limiter.reset(&alice, policy, |_| true).await.unwrap_err();
            assert!(error.to_string().contains("`addresses`"), "{error}");
        }
    });
}

#[test]
fn a_change_needs_no_limit_and_a_reset_no_cost() {
    let limiter = limiter(
        "  - name: api
    key: [user]
    cost: { attribute: tokens, max: 9 }
    quotas: [{ limit: { attribute: quota }, max: 10, window: 1m@first_hit }]",
    );
    let states = |changed: QuotaChanges<QuotaState>| {
        changed.iter().map(|(.., state)| (state.used(), state.limit())).collect::<Vec<_>>()
    };
    let (asked, alice) = (attributes(&[("user", "alice"), ("tokens", "3")]), attributes(ALICE));
    block_on(async {
        assert!(limiter.check(&asked, 1).await.is_err() && limiter.peek(&asked, 1).await.is_err());
        assert_eq!(states(limiter.record(&asked, 1).await.unwrap()), [(3, 10)]);
        assert!(limiter.record(&alice, 1).await.is_err(), "it charges the cost, which nothing says");
        let known = attributes(&[("user", "alice"), ("tokens", "3"), ("quota", "5")]);
        let window = ChargedWindow::from(limiter.peek(&known, 1).await.unwrap().quota().unwrap());
        let refunded = limiter.refund(&asked, 1, 1, &[window]).await.unwrap();
        assert_eq!(refunded.iter().map(|(.., refund)| refund.state.used()).collect::<Vec<_>>(), [0]);
        assert_eq!(states(limiter.set(&alice, 4, None, |_| true).await.unwrap()), [(4, 10)]);
        assert_eq!(states(limiter.set(&known, 4, None, |_| true).await.unwrap()), [(4, 5)]);
        assert_eq!(states(limiter.reset(&alice, None, |_| true).await.unwrap()), [(0, 10)]);
    });
}

#[test]
fn a_decision_tells_that_nothing_limits_the_request() {
    let limiter = limiter(
        "  - { name: health, match: { path: /healthz }, exempt: true }
  - name: api
    match: { path: /api/* }
    key: [user]
    on_missing_key: deny
    deny_status: 401
    quotas: [1/1m]
    overrides: [{ when: { tier: internal }, quotas: unlimited }]",
    );
    let free = check(&limiter, &[("path", "/")]);
    assert!(matches!(free.ground(), Ground::Unlimited) && free.is_allowed() && free.policy().is_none());
    assert!(matches!(
        check(&limiter, &[("path", "/api/"), ("user", "a"), ("tier", "internal")]).ground(),
        Ground::Unlimited
    ));

    let exempt = check(&limiter, &[("path", "/healthz")]);
    assert!(matches!(exempt.ground(), Ground::Exempt(policy) if policy.name() == "health"));
    assert!(exempt.is_allowed() && exempt.counted().is_none());

    let unknown = check(&limiter, &[("path", "/api/")]);
    assert!(matches!(unknown.ground(), Ground::MissingKey { no_key, .. } if no_key.attribute == "user"));
    assert_eq!((unknown.is_allowed(), policy(&unknown), unknown.deny_status()), (false, Some("api"), 401));

    let set = limiter.live();
    let tallies: Vec<(&str, u64, u64)> =
        set.tally().map(|(policy, tally)| (policy.name(), tally.allowed, tally.denied)).collect();
    assert_eq!((tallies, set.unlimited()), (vec![("health", 1, 0), ("api", 0, 1)], 2));
}

#[test]
fn on_store_failure_is_that_of_the_strictest_policy_that_applies() {
    let limiter = limiter(
        "  - { name: open, key: [user], quotas: [9/1m] }
  - { name: local, match: { path: [/local, /both] }, key: [user], quotas: [4/1m], on_store_failure: local,
      local_share: 1/2 }
  - { name: closed, match: { path: [/closed, /both] }, key: [user], quotas: [9/1m], on_store_failure: closed }
  - { name: dark, mode: shadow, key: [user], quotas: [1/1m], on_store_failure: closed }",
    );
    limiter.store().begin(StoreFault::unreachable());
    let at = |path| try_check(&limiter, &[("user", "alice"), ("path", path)]);

    let open = at("/").unwrap();
    assert_eq!((open.is_allowed(), open.source(), used(&open)), (true, Source::Fallback, vec![("open", 0)]));
    for counted in 1..=2 {
        assert_eq!(used(&at("/local").unwrap()), [("open", 0), ("local", counted)]);
    }
    let denied = at("/local").unwrap();
    assert_eq!((denied.is_allowed(), policy(&denied)), (false, Some("local")));
    for path in ["/closed", "/both"] {
        let CheckError::Store(error) = at(path).unwrap_err() else { panic!("{path}") };
        assert_eq!(error.trouble_of(), Some(&Unreachable));
    }

    let set = limiter.live();
    let tally = |name: &str| set.tally().find(|(policy, _)| policy.name() == name).unwrap().1;
    assert_eq!((tally("closed").failed, tally("open").failed, tally("local").failed), (2, 0, 0));
    assert_eq!((tally("open").allowed_by_fallback, tally("local").denied_by_fallback), (1, 1));
    assert_eq!(tally("dark").shadow, Default::default(), "nothing is tried out meanwhile");
}

/// The error did not name the policies to change, only that the store can never count the request.
#[test]
fn a_request_that_can_never_be_counted_names_the_policies_that_decide() {
    let limiter = limiter(
        "  - { name: users, key: [user], quotas: [9/1m] }
  - { name: tenants, key: [tenant], quotas: [9/1m] }
  - { name: free, match: { path: /healthz }, exempt: true }
  - { name: elsewhere, match: { path: /other }, key: [path], quotas: [9/1m] }
  - { name: dark, mode: shadow, key: global, quotas: [1/1m] }",
    );
    let request = &[("user", "alice"), ("tenant", "t"), ("path", "/")];
    limiter.store().begin(StoreFault::Fails(StoreError::Uncountable("they lie apart")));
    let asked = attributes(request);
    let each = block_on(limiter.check_each([(&asked, 1)])).pop().unwrap();
    for answer in [try_check(&limiter, request), block_on(limiter.peek(&asked, 1)), each] {
        let error = answer.unwrap_err();
        assert_eq!(
            error.to_string(),
            "policies users, tenants: the store can never count this request: they lie apart"
        );
        let CheckError::Uncountable { policies, .. } = error else { panic!("{error}") };
        assert_eq!(*policies, ["users", "tenants"].map(Box::<str>::from));
    }
}

/// A path of 60 KB that is short without its dot segments passed the bound, and was then tested as it was sent: the
/// work grows with the product of its length and that of each glob.
#[test]
fn long_spellings_of_short_paths_are_refused() {
    let policies = "  - { name: paths, match: { path: '*a*b*' }, key: [path], quotas: [5/1d] }\n";
    let limiter = limiter(policies).max_value_bytes(10);
    let path = |dots: usize| format!("/ab{}", "/.".repeat(dots));
    let check = |path: &str| try_check(&limiter, &[("path", path)]);
    assert!(check(&path(13)).is_ok(), "29 bytes");
    assert!(check("/%61%62%63%64%65%66%67%68%69").is_ok(), "ten characters, escaped");
    let expected = Refusal::LongValue { attribute: "path".into(), max: 30 };
    for dots in [14, 30_000] {
        let refused = check(&path(dots)).unwrap_err();
        assert!(matches!(refused, CheckError::Refused(refusal) if refusal == expected), "{dots}");
    }
    let long = path(30_000);
    let asked = attributes(&[("path", long.as_str())]).of_any_length();
    assert!(block_on(limiter.check(&asked, 1)).unwrap().is_allowed());
}

/// A value that is too long for a key is counted by what stands for it, and policies still see all of it.
#[test]
fn long_values_are_refused_unless_something_stands_for_them() {
    let policies = "
  - { name: paths, match: { path: '*.png' }, key: [path], quotas: [1/1d] }
  - { name: both, match: { path: '*.gif' }, key: [user, path], quotas: [1/1d] }
";
    let limiter = limiter(policies).max_value_bytes(10);
    let (png, gif) = ("/a long one.png", "/a long one.gif");
    let refused = try_check(&limiter, &[("path", png)]).unwrap_err();
    let expected = Refusal::LongValue { attribute: "path".into(), max: 10 };
    assert!(matches!(refused, CheckError::Refused(refusal) if refusal == expected));
    let is_allowed = |path, stand_in: &str| {
        let mut asked = attributes(&[("user", "alice"), ("path", path)]);
        asked.count_as("path", stand_in);
        block_on(limiter.check(&asked, 1)).unwrap().is_allowed()
    };
    assert_eq!([is_allowed(png, "one"), is_allowed(png, "one"), is_allowed(png, "two")], [true, false, true]);
    assert_eq!([is_allowed(gif, "one"), is_allowed(gif, "one"), is_allowed(gif, "two")], [true, false, true]);
    // What stands for a value is no value.
    assert!(check(&limiter, &[("path", "/.png")]).is_allowed());
    assert!(is_allowed(png, "/.png"));
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

#[test]
fn trials_are_reported_and_change_no_decision() {
    let (with, without) = (limiter(TRIALS), limiter("  - { name: live, key: [user], quotas: [3/1m] }"));
    let (candidate, shadow) = (TrialKind::Candidate, TrialKind::Shadow);
    for number in 1..=5 {
        let (tried, plain) = (check(&with, ALICE), check(&without, ALICE));
        assert_eq!(tried.counted(), plain.counted());
        let expected = [("live", candidate, Some(number <= 1)), ("dark", shadow, Some(number <= 2))];
        assert_eq!(trials(&tried), expected, "request {number}");
    }
    let set = with.live();
    let tallies: Vec<_> =
        set.tally().map(|(_, tally)| (tally.allowed, tally.candidate, tally.shadow)).collect();
    assert_eq!(tallies[0].0, 3);
    assert_eq!((tallies[0].1.allowed, tallies[0].1.denied), (1, 4));
    assert_eq!((tallies[1].2.allowed, tallies[1].2.denied), (2, 3));
    assert!(
        check(&with, ALICE)
            .policies()
            .tally()
            .all(|(policy, tally)| policy.name() != "dark" || tally.denied == 0)
    );
    assert!(trials(&block_on(with.peek(&attributes(ALICE), 1)).unwrap()).is_empty());
}

#[test]
fn a_trial_takes_nothing_of_what_another_policy_denied() {
    let limiter = limiter(
        "  - { name: live, match: { path: /search }, key: [user], quotas: [1/1m], candidate: [3/1m] }
  - { name: dark, mode: shadow, key: [user], quotas: [2/1m] }",
    );
    let (candidate, shadow) = (TrialKind::Candidate, TrialKind::Shadow);
    // The candidate decides in place of the quota that denies, and the shadow policy independently.
    for allowed in [[true, true], [true, true], [true, true], [false, true]] {
        let expected = [("live", candidate, Some(allowed[0])), ("dark", shadow, Some(allowed[1]))];
        assert_eq!(trials(&check(&limiter, ALICE)), expected);
    }
    let elsewhere = [("user", "alice"), ("path", "/")];
    assert_eq!(trials(&check(&limiter, &elsewhere)), [("dark", shadow, Some(true))]);
    assert_eq!(trials(&check(&limiter, &elsewhere)), [("dark", shadow, Some(false))]);
}

/// A list of the denied in shadow mode left no trace: nobody saw whom it would deny, and the request counted as
/// unmatched. The same went for a policy that denies requests without a key.
#[test]
fn a_denial_in_shadow_mode_is_reported_and_counted() {
    const DENIALS: &str = "
  - { name: signed-in, key: [account], on_missing_key: deny, quotas: [9/1m] }
mode: shadow
deny: { user: [mallory] }";
    let limiter = limiter(DENIALS);
    let shadow = TrialKind::Shadow;
    let mallory = [("user", "mallory"), ("account", "7")];
    let memory = PolicyLimiter::new(MemoryStore::new(), policies_of(DENIALS), "test");
    for pairs in [ALICE, &mallory, &[("account", "7")]] {
        let at_once = memory.check_at_once(&attributes(pairs), 1).unwrap().unwrap();
        for decision in [check(&limiter, pairs), at_once] {
            assert!(decision.is_allowed() && !decision.is_unmatched());
            let expected: &[(&str, TrialKind, Option<bool>)] = match pairs {
                [("user", "alice"), ..] => &[("signed-in", shadow, Some(false))],
                [("user", "mallory"), ..] => {
                    &[("deny", shadow, Some(false)), ("signed-in", shadow, Some(true))]
                }
                _ => &[("signed-in", shadow, Some(true))],
            };
            assert_eq!(trials(&decision), expected);
        }
    }
    assert!(trials(&block_on(limiter.peek(&attributes(&mallory), 1)).unwrap()).is_empty());
    // A failing store is not asked for it.
    limiter.store().begin(StoreFault::unreachable());
    assert_eq!(trials(&check(&limiter, &mallory))[0], ("deny", shadow, Some(false)));
    let tally: Vec<_> =
        limiter.live().tally().map(|(_, tally)| (tally.denied, tally.shadow.denied)).collect();
    assert_eq!(tally, [(0, 2), (0, 1)]);
}

/// The request counted as unmatched, so the log asked the operator to configure such requests.
#[test]
fn a_request_that_a_shadow_matches_is_not_unmatched() {
    let limiter = limiter(
        "  - { name: free, match: { path: /free }, mode: shadow, key: [user], quotas: unlimited }
  - { name: tenants, match: { path: /tenant }, mode: shadow, key: [tenant], quotas: [9/1m] }",
    );
    for (path, is_unmatched) in [("/free", false), ("/tenant", false), ("/", true)] {
        let decision = check(&limiter, &[("user", "alice"), ("path", path)]);
        assert!(decision.is_allowed() && decision.trials().next().is_none());
        assert_eq!(decision.is_unmatched(), is_unmatched, "{path}");
    }
}

/// The only steps here are trials, so only trials fail.
#[test]
fn a_trial_that_fails_is_noted_and_nothing_else() {
    let limiter =
        limiter("  - { name: dark, mode: shadow, key: [user], quotas: [2/1m], on_store_failure: closed }");
    limiter.store().begin(StoreFault::unreachable());
    let decision = check(&limiter, ALICE);
    assert!(decision.is_allowed() && matches!(decision.ground(), Ground::Unlimited));
    assert_eq!(trials(&decision), [("dark", TrialKind::Shadow, None)]);
    assert_eq!(limiter.live().tally().next().unwrap().1.shadow.failed, 1);
}

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
fn a_full_store_refuses_unseen_keys_or_admits_them_uncounted() {
    let clock = ManualClock::default();
    let store = || MemoryStore::builder().clock(clock.clone()).max_counters(1).build();
    let policies = || policies_of("  - { name: a, key: [user], quotas: [2/1m] }");
    let full = |limiter: &PolicyLimiter<MemoryStore<ManualClock>>| {
        assert!(block_on(limiter.check(&attributes(ALICE), 1)).unwrap().is_allowed());
        block_on(limiter.check(&attributes(&[("user", "bob")]), 1))
    };
    let deny = PolicyLimiter::new(store(), policies(), "test");
    assert!(matches!(full(&deny).unwrap_err(), CheckError::Store(StoreError::Full)));
    let allow = PolicyLimiter::new(store(), policies(), "test").when_full(WhenFull::Allow);
    let decision = full(&allow).unwrap();
    assert_eq!(
        (decision.is_allowed(), decision.source(), used(&decision)),
        (true, Source::Fallback, vec![("a", 0)])
    );
    let never = block_on(allow.check(&attributes(&[("user", "bob")]), 3)).unwrap();
    assert!(!never.is_allowed());
}

#[test]
fn a_batch_is_decided_one_by_one() {
    let limiter = limiter(
        "  - { name: health, match: { path: /healthz }, exempt: true }
  - { name: a, match: { path: /a }, key: [user], quotas: [2/1m], candidate: [1/1m] }",
    );
    let requests = [
        attributes(&[("path", "/a"), ("user", "alice")]),
        attributes(&[("path", "/healthz")]),
        attributes(&[("path", "/a")]),
        attributes(&[("path", "/")]),
        attributes(&[("path", "/a"), ("user", "alice")]),
        attributes(&[("path", "/a"), ("user", "alice")]),
    ];
    let answers = block_on(limiter.check_each(requests.iter().map(|request| (request, 1))));
    let verdicts: Vec<Option<bool>> =
        answers.iter().map(|answer| answer.as_ref().ok().map(PolicyDecision::is_allowed)).collect();
    assert_eq!(verdicts, [Some(true), Some(true), None, Some(true), Some(true), Some(false)]);
    let missing = |refusal: &Refusal| {
        let Refusal::MissingKey { policy, attribute, fault, .. } = refusal else { return false };
        (&**policy, &**attribute, *fault) == ("a", "user", KeyFault::Missing)
    };
    assert!(matches!(&answers[2], Err(CheckError::Refused(refusal)) if missing(refusal)));
    let tried: Vec<usize> = answers.iter().flatten().map(|answer| answer.trials().count()).collect();
    assert_eq!(tried, [1, 0, 0, 1, 1]);
    assert_eq!(trials(answers[0].as_ref().unwrap())[0].2, Some(true));
    assert_eq!(trials(answers[4].as_ref().unwrap())[0].2, Some(false));
}

/// Windows were named only by their place. With as many other quotas in the policies, refunds went to other counters.
#[test]
fn a_refund_finds_its_counters_by_policy_and_windows_or_not_at_all() {
    let limiter = limiter("  - { name: a, key: [user], quotas: [9/1m, 20/1h] }");
    let alice = attributes(ALICE);
    let windows: Vec<ChargedWindow> = check(&limiter, ALICE).quotas().map(Into::into).collect();
    let refund = |windows: &[ChargedWindow]| {
        let changed = block_on(limiter.refund(&alice, 1, 1, windows)).map_err(|error| error.to_string())?;
        Ok::<Vec<(String, u32)>, String>(
            changed.iter().map(|(_, quota, one)| (quota.windows().to_owned(), one.state.units())).collect(),
        )
    };
    let replace = |policies: &str| {
        limiter.replace(policies_of(policies), "test");
    };

    // In another order, with other limits, and next to a new policy.
    replace("  - { name: a, key: [user], quotas: [30/1h, 3/1s, 2/1m] }");
    assert_eq!(refund(&windows[..1]), Ok(vec![("1m".to_owned(), 1)]));
    let given = refund(&windows).unwrap();
    assert_eq!(given, [("1h".to_owned(), 1), ("1m".to_owned(), 0)]);

    let _ = check(&limiter, ALICE);
    for (policies, there) in [
        ("  - { name: a, key: [user], quotas: [9/1h, 9/2h] }", "there are 9/1h of a, 9/2h of a"),
        ("  - { name: b, key: [user], quotas: [9/1m, 20/1h] }", "there are 9/1m of b, 20/1h of b"),
        ("  - { name: a, key: [user], match: { path: /b }, quotas: [9/1m, 20/1h] }", "none does"),
    ] {
        replace(policies);
        let error = refund(&windows).unwrap_err();
        let expected = "nothing was given back: this quota does not apply to the request; ";
        assert_eq!(error, format!("{expected}{there}"));
    }
    replace("  - { name: a, key: [user], quotas: [9/1m, 20/1h] }");
    let twice = [windows[0].clone(), windows[1].clone(), windows[0].clone()];
    assert_eq!(refund(&twice), Err("this quota is named twice".to_owned()));
    assert_eq!(refund(&[]), Ok(Vec::new()));
    assert_eq!(check(&limiter, ALICE).quotas().map(|quota| quota.state.used()).collect::<Vec<_>>(), [2, 2]);
}

fn window(policy: &str, quota: &str, start: Timestamp) -> ChargedWindow {
    ChargedWindow::new(policy, quota.parse().unwrap(), start)
}

/// The store's clock had stepped back a little, so the window of the check began in the future, and the refund was
/// refused.
#[test]
fn a_refund_is_none_of_the_future_after_a_step_back_of_a_second() {
    let clock = ManualClock::default();
    let limiter = limiter_at(&clock, "  - { name: a, key: [user], quotas: [9/1m@first_hit] }");
    let (alice, start) = (attributes(ALICE), Timestamp::from_unix_millis(1_700_000_000_000));
    clock.set(start);
    let windows: Vec<ChargedWindow> = check(&limiter, ALICE).quotas().map(Into::into).collect();
    let refund_before = |millis: u64| {
        clock.set(start - Duration::from_millis(millis));
        block_on(limiter.refund(&alice, 1, 1, &windows)).map(drop)
    };
    assert!(refund_before(1_000).is_ok());
    assert!(matches!(refund_before(1_001), Err(RefundError::FutureStart { index: 0 })));
}

#[test]
fn administrators_change_every_quota_that_applies() {
    let limiter = limiter(
        "  - { name: a, key: [user], quotas: [9/1m] }\n  - { name: b, key: global, quotas: [20/1h], cost: 5 }",
    );
    let alice = attributes(ALICE);
    let decision = check(&limiter, ALICE);
    let windows: Vec<ChargedWindow> = decision.quotas().map(Into::into).collect();
    let given = block_on(limiter.refund(&alice, 1, 1, &windows)).unwrap();
    let given: Vec<(&str, u32)> = given
        .iter()
        .map(|(policy, _, refund): (_, _, &QuotaRefund)| (policy.name(), refund.state.units()))
        .collect();
    assert_eq!(given, [("a", 1), ("b", 5)]);

    let starts: Vec<Timestamp> = decision.quotas().map(|quota| quota.state.mark().time()).collect();
    let late = [windows[0].clone(), window("b", "20/1h", starts[1] + Duration::from_secs(1))];
    assert!(matches!(
        block_on(limiter.refund(&alice, 1, 1, &late)).unwrap_err(),
        RefundError::NoWindowStart { index: 1, .. }
    ));

    let states = |changed: tollgate_policy::QuotaChanges<QuotaState>| -> Vec<u64> {
        changed.iter().map(|(_, _, state)| state.used()).collect()
    };
    assert_eq!(states(block_on(limiter.set(&alice, 7, None, |_| true)).unwrap()), [7, 7]);
    assert_eq!(used(&check(&limiter, ALICE)), [("a", 8), ("b", 12)]);
    assert_eq!(states(block_on(limiter.reset(&alice, None, |_| true)).unwrap()), [0, 0]);
    let nobody = block_on(limiter.reset(&Attributes::default(), None, |_| true)).unwrap_err();
    assert!(matches!(nobody, CheckError::Refused(Refusal::MissingKey { .. })));
}

/// Every operation: the refused request leaves all counters as they were, even those of policies that the caller may
/// use.
#[test]
fn a_request_that_matches_a_policy_of_others_changes_nothing() {
    let limiter = limiter(
        "
  - { name: mine, key: [user], quotas: [5/1m] }
  - { name: theirs, match: { path: /search }, key: [user], quotas: [5/1m] }
  - { name: shadow, match: { path: /shadow }, mode: shadow, key: [user], quotas: [5/1m] }
",
    );
    let mine = BTreeSet::from(["mine".into()]);
    let as_me = |path: &'static str| attributes(&[("user", "alice"), ("path", path)]).within(&mine);
    assert!(block_on(limiter.check(&as_me("/"), 1)).unwrap().is_allowed());
    let is_refused = |error: CheckError, policy: &str| matches!(error, CheckError::Refused(Refusal::OtherPolicy { policy: other }) if *other == *policy);
    for (path, policy) in [("/search", "theirs"), ("/shadow", "shadow")] {
        let request = as_me(path);
        assert!(is_refused(block_on(limiter.check(&request, 1)).unwrap_err(), policy));
        assert!(is_refused(limiter.check_at_once(&request, 1).unwrap().unwrap_err(), policy));
        assert!(is_refused(block_on(limiter.peek(&request, 1)).unwrap_err(), policy));
        assert!(is_refused(block_on(limiter.reset(&request, None, |_| true)).unwrap_err(), policy));
        assert!(is_refused(block_on(limiter.set(&request, 4, None, |_| true)).unwrap_err(), policy));
        let refund = block_on(limiter.refund(&request, 1, 1, &[])).unwrap_err();
        assert!(matches!(refund, RefundError::Check(ref error) if is_refused(error.clone(), policy)));
        let both = [(&request, 1), (&as_me("/"), 0)];
        let mut answers = block_on(limiter.check_each(both)).into_iter();
        assert!(is_refused(answers.next().unwrap().unwrap_err(), policy));
        assert_eq!(used(&answers.next().unwrap().unwrap()), [("mine", 1)], "each is decided by itself");
    }
    let all = block_on(limiter.peek(&attributes(ALICE), 1)).unwrap();
    assert_eq!(used(&all), [("mine", 1), ("theirs", 0)]);
}

/// A policy without counters decides for everybody. A caller on a list of the denied was told that the policy belongs
/// to others, and a client that continues after a refusal let the caller pass.
#[test]
fn a_policy_that_counts_nothing_applies_to_every_caller() {
    let text = "
deny: { user: mallory }
allow: { user: probe }
policies:
  - { name: mine, key: [user], quotas: [5/1m] }
  - { name: health, match: { path: /healthz }, exempt: true }
";
    let policies = Config::parse("tollgate.yaml", text).unwrap().into_policies();
    let limiter = PolicyLimiter::new(MemoryStore::new(), policies, "test");
    let mine = BTreeSet::from(["mine".into()]);
    for (pairs, is_allowed, by) in [
        ([("user", "mallory"), ("path", "/")], false, "deny"),
        ([("user", "probe"), ("path", "/")], true, "allow"),
        ([("user", "alice"), ("path", "/healthz")], true, "health"),
    ] {
        let decision = block_on(limiter.check(&attributes(&pairs).within(&mine), 1)).unwrap();
        assert_eq!((decision.is_allowed(), decision.policy().map(Policy::name)), (is_allowed, Some(by)));
    }
}

#[test]
fn a_reservation_is_given_back_to_its_own_windows() {
    let limiter = limiter(
        "  - { name: asked, key: [user], quotas: [9/1m, 90/1h] }\n  - { name: fixed, key: [user], quotas: [9/1m], cost: 2 }",
    );
    let alice = attributes(ALICE);
    let reserve = |cost| reserve(&limiter, &alice, cost);
    let now = || {
        used(&block_on(limiter.peek(&alice, 1)).unwrap())
            .into_iter()
            .map(|(_, used)| used)
            .collect::<Vec<_>>()
    };

    let (decision, mut receipt) = reserve(6);
    assert!(decision.is_allowed() && !receipt.is_empty());
    block_on(limiter.settle(&mut receipt, 2)).unwrap();
    assert_eq!(now(), [2, 2, 2], "the policy said its cost itself");
    let (_, mut receipt) = reserve(1);
    // A receipt knows nothing of later versions of the policies.
    let _ = limiter.replace(policies_of("  - { name: other, key: global, quotas: [1/1s] }"), "test");
    block_on(limiter.settle(&mut receipt, 4)).unwrap();
    let _ = limiter.replace(
        policies_of("  - { name: asked, key: [user], quotas: [9/1m, 90/1h] }\n  - { name: fixed, key: [user], quotas: [9/1m], cost: 2 }"),
        "test",
    );
    assert_eq!(now(), [6, 6, 4]);
    let (_, mut receipt) = reserve(3);
    block_on(receipt.refund(limiter.fallback())).unwrap();
    assert_eq!(now(), [6, 6, 4]);
    let (denied, receipt) = reserve(4);
    assert!(!denied.is_allowed() && receipt.is_empty());
}

/// Without a receipt nothing was charged at all, however much the work cost. A reservation of 0 only peeks, and during
/// an outage the local memory counts instead of the store.
#[test]
fn units_beyond_an_empty_reservation_are_charged() {
    let policies = "  - { name: a, key: [user], quotas: [9/1d], on_store_failure: local, local_share: 1/1 }
  - { name: fixed, key: [user], quotas: [9/1d], cost: 2, on_store_failure: local, local_share: 1/1 }";
    for (cost, is_away, actual, expected) in
        [(0, false, 0, 0), (0, false, 7, 7), (4, true, 7, 7), (4, true, 3, 4), (4, false, 7, 7)]
    {
        let (limiter, alice) = (limiter(policies), attributes(ALICE));
        if is_away {
            limiter.store().begin(StoreFault::unreachable());
        }
        let (decision, mut receipt) = reserve(&limiter, &alice, cost);
        assert!(decision.is_allowed());
        block_on(limiter.settle(&mut receipt, actual)).unwrap();
        let decision = block_on(limiter.peek(&alice, 1)).unwrap();
        let fixed = if cost == 0 { 0 } else { 2 };
        assert_eq!(
            used(&decision),
            [("a", expected), ("fixed", fixed)],
            "{actual} of {cost}, away: {is_away}"
        );
    }
    let limiter = limiter("  - { name: a, key: [user], quotas: [1/1d] }");
    let (denied, mut receipt) = reserve(&limiter, &attributes(ALICE), 2);
    assert!(!denied.is_allowed());
    block_on(limiter.settle(&mut receipt, 9)).unwrap();
    assert_eq!(used(&block_on(limiter.peek(&attributes(ALICE), 1)).unwrap()), [("a", 0)]);
}

/// A store in memory answers at once. One that has to wait returns without taking anything.
#[test]
fn an_answer_at_once_equals_that_of_a_check() {
    let (waiting, alice) = (limiter(TRIALS), attributes(ALICE));
    assert!(waiting.check_at_once(&alice, 1).is_none());
    let memory = || MemoryStore::builder().clock(ManualClock::default()).build();
    let at_once = PolicyLimiter::new(memory(), policies_of(TRIALS), "test");
    for number in 1..=5 {
        let answer = at_once.check_at_once(&alice, 1).unwrap().unwrap();
        let expected = check(&waiting, ALICE);
        assert_eq!((answer.counted(), trials(&answer)), (expected.counted(), trials(&expected)), "{number}");
    }
    let tally = |set: &PolicySet| set.tally().map(|(_, tally)| tally).collect::<Vec<_>>();
    assert_eq!(tally(&at_once.live()), tally(&waiting.live()));

    let nobody = at_once.check_at_once(&Attributes::default(), 1).unwrap();
    assert!(matches!(nobody, Err(CheckError::Refused(_))));
}

/// Only the kind of answer told a refund of a closed window from one of an open window.
#[test]
fn a_refund_says_whether_its_window_is_open() {
    let clock = ManualClock::default();
    let limiter = limiter_at(&clock, "  - { name: a, key: [user], quotas: [9/1m, 20/1h] }");
    let (alice, windows) = (attributes(ALICE), check(&limiter, ALICE));
    let windows: Vec<ChargedWindow> = windows.quotas().map(Into::into).collect();
    clock.advance(Duration::from_secs(60));
    let changed = block_on(limiter.refund(&alice, 1, 1, &windows)).unwrap();
    let refunds: Vec<_> = changed
        .iter()
        .map(|(.., refund)| (refund.is_open, refund.state.units(), refund.state.used()))
        .collect();
    assert_eq!(refunds, [(false, 0, 0), (true, 1, 0)]);
}

/// If an error claims that nothing was changed, callers retry, and a refund would give back twice. Errors of resets, of
/// sets and of settling a receipt claimed so even after a change.
#[test]
fn an_error_after_a_part_may_have_charged() {
    let limiter = limiter("  - { name: a, key: [user], quotas: [99/1m, 99/1h], on_store_failure: closed }");
    let store = limiter.store();
    let alice = attributes(ALICE);
    let windows: Vec<ChargedWindow> = check(&limiter, ALICE).quotas().map(Into::into).collect();
    let reserved = || reserve(&limiter, &alice, 5).1;
    let begin = |spared| store.begin_after(spared, StoreFault::unreachable());
    let told = |error: CheckError| match error {
        CheckError::Store(error) => (error, Vec::new()),
        CheckError::Partly { changed, error } => {
            (error, changed.iter().map(|quota| quota.quota().to_string()).collect())
        }
        other => panic!("{other}"),
    };
    for (spared, may_have) in [(0, false), (1, true)] {
        let refund = || match block_on(limiter.refund(&alice, 1, 1, &windows)).unwrap_err() {
            RefundError::Check(error) => told(error),
            other => panic!("{other}"),
        };
        /// The error, and the quotas that it names.
        type Change<'a> = Box<dyn Fn() -> (StoreError, Vec<String>) + 'a>;
        let changes: [(&str, Change<'_>); 5] = [
            (
                "refund",
                Box::new(|| {
                    // The call peeks at both counters first, for the time.
                    begin(spared + 2);
                    refund()
                }),
            ),
            (
                "reset",
                Box::new(|| {
                    begin(spared);
                    told(block_on(limiter.reset(&alice, None, |_| true)).unwrap_err())
                }),
            ),
            (
                "set",
                Box::new(|| {
                    begin(spared);
                    told(block_on(limiter.set(&alice, 3, None, |_| true)).unwrap_err())
                }),
            ),
            (
                "settle",
                Box::new(|| {
                    let mut receipt = reserved();
                    begin(spared);
                    told(block_on(limiter.settle(&mut receipt, 3)).unwrap_err().into())
                }),
            ),
            (
                "give back",
                Box::new(|| {
                    let mut receipt = reserved();
                    begin(spared);
                    told(block_on(limiter.refund_receipt(&mut receipt, None)).unwrap_err().into())
                }),
            ),
        ];
        for (name, change) in changes {
            let (error, changed) = change();
            assert_eq!(error.may_have_charged(), may_have, "{name} after {spared}");
            assert_eq!(error.trouble_of(), Some(&Unreachable), "{name} after {spared}");
            assert_eq!(changed, if may_have { vec!["99/1m"] } else { vec![] }, "{name} after {spared}");
            store.end();
        }
    }
}

/// Each quota of a refund, a reset or a set by attributes had its own deadline, and so did each trial that only peeks
/// (G6).
#[test]
fn a_call_over_several_quotas_has_one_deadline() {
    let clock = ManualClock::default();
    let memory = || MemoryStore::builder().clock(clock.clone()).max_counters(100).build();
    let hanging = FaultyStore::new(memory());
    let deadlines = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&deadlines);
    let store = FallbackStore::new(hanging.clone(), OnStoreFailure::Closed).deadline(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        std::future::ready(())
    });
    let policies = policies_of(
        "
  - { name: a, key: [user], quotas: [1/1m, 99/1h, 99/1d] }
  - { name: b, key: [user], quotas: [99/1m], mode: shadow }
  - { name: c, key: [user], quotas: [99/1m], mode: shadow }
  - { name: d, key: [user], quotas: [99/1m], mode: shadow }",
    );
    let limiter = PolicyLimiter::new(store, policies, "test").memory(memory());
    let alice = attributes(ALICE);
    let made = || deadlines.swap(0, Ordering::Relaxed);
    block_on(async {
        let decision = limiter.check(&alice, 1).await.unwrap();
        let mut receipt = decision.receipt();

        hanging.begin_after(1, StoreFault::Hangs);
        assert!(!limiter.check(&alice, 1).await.unwrap().is_allowed());
        assert_eq!(made(), 1, "trials of a denied request");

        let windows: Vec<ChargedWindow> = decision.quotas().map(Into::into).collect();
        // The call peeks at the three counters first, for the time.
        hanging.begin_after(3, StoreFault::Hangs);
        limiter.refund(&alice, 1, 1, &windows).await.unwrap_err();
        assert_eq!(made(), 1, "a refund");
        hanging.begin(StoreFault::Hangs);
        limiter.refund_receipt(&mut receipt, Some(1)).await.unwrap_err();
        assert_eq!(made(), 1, "a refund by receipt");
        limiter.reset(&alice, None, |_| true).await.unwrap_err();
        assert_eq!(made(), 1, "a reset");
        limiter.set(&alice, 3, None, |_| true).await.unwrap_err();
        assert_eq!(made(), 1, "a set");
    });
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

/// A client on a list of those who are denied passed during an outage: the call that also asked about a counter failed,
/// and Envoy admits what fails.
#[test]
fn a_denial_without_a_count_holds_while_the_store_fails() {
    let limiter = limiter(
        "
  - { name: paths, match: { path: '*' }, key: [path], quotas: [5/1m], on_store_failure: closed }
deny:
  user: alice",
    );
    let (alice, path) = (attributes(&ALICE[..1]), attributes(&ALICE[1..]));
    let both = || block_on(limiter.check_together([(&path, 1), (&alice, 1)])).unwrap();
    let allowed = |decisions: &[PolicyDecision]| -> Vec<bool> {
        decisions.iter().map(PolicyDecision::is_allowed).collect()
    };
    let decisions = both();
    assert_eq!(allowed(&decisions), [true, false]);
    assert!(decisions[0].state().is_some());

    limiter.store().begin(StoreFault::unreachable());
    let decisions = both();
    assert_eq!(allowed(&decisions), [true, false]);
    assert!(decisions[0].state().is_none() && decisions[0].policy().is_none(), "nobody looked");
    let failed = block_on(limiter.check_together([(&path, 1), (&path, 1)]));
    assert!(failed.is_err(), "the store decides");
}
