//! Which policy decides, and what a decision says.

use tollgate::{ManualClock, MemoryStore, StoreError};
use tollgate_policy::{
    Attributes, CheckError, Ground, HeaderFormat, KeyFault, PolicyDecision, PolicyLimiter, PolicySet, Refusal,
};
use tollgate_testkit::{StoreFault, block_on};

use super::{ALICE, TRIALS, attributes, check, limiter, policies_of, policy, trials, try_check, used};

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

/// What other limits would have done to a request does not depend on where its own are written.
#[test]
fn a_charged_key_says_whether_an_override_of_the_file_gives_its_limits() {
    let limiter = limiter(
        "
  - name: search
    key: [user]
    quotas: [1/1d]
    overrides:
      - when: { plan: gold }
        quotas: [9/1d]
      - when: { plan: internal }
        quotas: unlimited",
    );
    for (plan, expected) in [("free", false), ("gold", true), ("internal", true)] {
        let decision = check(&limiter, &[("user", "alice"), ("plan", plan)]);
        let overridden: Vec<bool> = decision.charged_keys().map(|charged| charged.is_overridden).collect();
        assert_eq!(overridden, [expected], "{plan}");
    }
}
