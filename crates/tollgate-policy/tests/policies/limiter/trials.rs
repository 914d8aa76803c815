//! Policies in shadow mode, and candidate limits.

use tollgate::MemoryStore;
use tollgate_policy::{Ground, PolicyLimiter, TrialKind, TrialTally};
use tollgate_testkit::{StoreFault, block_on};

use super::{ALICE, TRIALS, attributes, check, limiter, policies_of, trials};

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

/// What the answers of a check would be, before it.
#[test]
fn a_peek_with_trials_says_what_they_would_answer_and_charges_nothing() {
    let limiter = limiter(&format!(
        "{TRIALS}\n  - {{ name: held, match: {{ path: /hold }}, key: [user], quotas: [9/1m], candidate: [1~in_flight, 2/1m] }}"
    ));
    let peek = || {
        let decision = block_on(limiter.peek_with_trials_in(limiter.live(), &attributes(ALICE), 1)).unwrap();
        trials(&decision)
            .into_iter()
            .map(|(policy, kind, verdict)| (policy.to_owned(), kind, verdict))
            .collect::<Vec<_>>()
    };
    for _ in 0..5 {
        let expected = [peek(), peek()];
        let checked = check(&limiter, ALICE);
        let answers: Vec<_> = trials(&checked)
            .into_iter()
            .map(|(policy, kind, verdict)| (policy.to_owned(), kind, verdict))
            .collect();
        assert_eq!(expected, [answers.clone(), answers]);
    }
    let set = limiter.live();
    let candidate = set.tally().map(|(_, tally)| tally.candidate).next().unwrap();
    assert_eq!(candidate.allowed + candidate.denied, 5);

    let hold = [("user", "alice"), ("path", "/hold")];
    let peeked = block_on(limiter.peek_with_trials_in(limiter.live(), &attributes(&hold), 1)).unwrap();
    assert!(trials(&peeked).contains(&("held", TrialKind::Candidate, Some(true))));
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

/// Whether a limit may be enforced shows in the requests that it alone would deny.
#[test]
fn verdicts_on_trial_are_compared_with_those_of_now() {
    let limiter = limiter(
        "  - { name: live, match: { path: /search }, key: [user], quotas: [2/1m], candidate: [1/1m, 4/1h] }
  - { name: other, match: { path: /search }, key: [tenant], quotas: [5/1m], candidate: [9/1m] }
  - { name: dark, mode: shadow, key: [user], quotas: [3/1m] }",
    );
    let from = |user| [("user", user), ("tenant", "t"), ("path", "/search")];
    // Of the tenant, 5 fit: alice's 2, bob's 2, and carol's first.
    let users = ["alice", "alice", "alice", "bob", "bob", "bob", "carol", "carol", "dave"];
    users.iter().for_each(|user| drop(check(&limiter, &from(*user))));
    (0..4).for_each(|_| drop(check(&limiter, &[("user", "alice"), ("tenant", "t"), ("path", "/")])));
    let set = limiter.live();
    let tallies: Vec<_> =
        set.tally().map(|(_, tally)| (tally.denied, tally.candidate, tally.shadow)).collect();
    let figures = |tally: TrialTally| {
        let TrialTally { allowed, denied, denied_by_both, denied_only_now, .. } = tally;
        [allowed, denied, denied_by_both, denied_only_now]
    };
    // The seconds of alice and bob are denied by the candidate alone, their thirds by both; carol's second and dave's
    // are denied by the other policy, which is no concern of this candidate.
    assert_eq!((tallies[0].0, figures(tallies[0].1)), (2, [4, 5, 2, 0]));
    // Its candidate would admit both of those that it denies.
    assert_eq!((tallies[1].0, figures(tallies[1].1)), (2, [9, 0, 0, 2]));
    // Of all requests, 4 are denied now; one more of alice has no room, on a path that nothing else limits.
    assert_eq!((tallies[2].0, figures(tallies[2].2)), (0, [10, 3, 0, 4]));
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
