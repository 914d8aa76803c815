//! What an override can be for, what it can say, and what becomes of it under other policies.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Key, ManualClock, Timestamp};
use tollgate_policy::{
    Attributes, Config, Outcome, OverrideFit, OverrideKey, OverrideLimits, OverrideName, OverrideQuotas,
    OverrideRecord, OverrideSet, OverrideState, OverrideTarget, Policies, Policy, TargetValue,
};

const POLICIES: &str = "
policies:
  - { name: search, key: [user], quotas: [100/1m] }
  - { name: login, key: [user, ip], quotas: [5/1m, 2~in_flight] }
  - { name: who, key: { first_of: [user, device] }, quotas: [9/1m] }
  - { name: costly, key: global, overdraft: true, quotas: [9/1m] }
  - { name: health, match: { path: /healthz }, exempt: true }
";

fn policies(text: &str) -> Policies {
    Config::parse("tollgate.yaml", text).unwrap_or_else(|error| panic!("{error}")).into_policies()
}

fn policy<'a>(policies: &'a Policies, name: &str) -> &'a Policy {
    policies.as_slice().iter().find(|policy| policy.name() == name).unwrap()
}

/// The sum of the bytes, so that a test can see it in an id.
fn digest(key: &Key<'_>) -> u128 {
    key.canonical_bytes().iter().map(|byte| u128::from(*byte)).sum()
}

fn set() -> (OverrideSet, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(Timestamp::from_unix_millis(1_000_000)));
    let shared: Arc<dyn tollgate::Clock> = Arc::clone(&clock) as _;
    (OverrideSet::new(Arc::new(digest), shared), clock)
}

fn record(id: &str, limits: OverrideLimits) -> OverrideRecord {
    OverrideRecord {
        name: id.parse().unwrap(),
        key: "user".into(),
        limits,
        until: None,
        label: None,
        note: None,
        by: None,
        at: Timestamp::from_unix_millis(0),
        version: 1,
    }
}

fn state(set: &OverrideSet, id: &str) -> String {
    match set.get(&id.parse().unwrap()).map(|entry| entry.state()) {
        None => "none".to_owned(),
        Some(OverrideState::Active) => "active".to_owned(),
        Some(OverrideState::Ended) => "ended".to_owned(),
        Some(OverrideState::Inert(reason)) => reason.to_string(),
    }
}

#[test]
fn an_override_is_for_a_whole_key_or_for_one_attribute() {
    use TargetValue::{Key, Prefix, Whole};

    let policies = policies(POLICIES);
    let known = BTreeSet::from(["user", "ip", "tenant", "path"]);
    let name = |name: &str, given: &[(&str, TargetValue<'_>)]| {
        let found = OverrideName::of_attributes(policy(&policies, name), given, &known, &digest);
        found.map_or_else(|error| error.to_string(), |name| name.to_string())
    };
    let key = |id: &str| id.starts_with("search:=") || id.starts_with("login:=") || id.starts_with("who:=");
    assert!(key(&name("search", &[("user", Key("alice"))])));
    assert!(key(&name("login", &[("ip", Key("::ffff:192.0.2.7")), ("user", Key("alice"))])));
    assert_eq!(
        name("login", &[("ip", Key("::ffff:192.0.2.7")), ("user", Key("alice"))]),
        name("login", &[("user", Key("alice")), ("ip", Key("192.0.2.7"))])
    );
    assert!(key(&name("who", &[("device", Key("d1"))])));
    assert_ne!(name("who", &[("device", Key("d1"))]), name("who", &[("user", Key("d1"))]));
    assert_eq!(name("search", &[("tenant", Prefix("acme-"))]), "search:tenant^acme-");
    // As policies read it.
    assert_eq!(name("search", &[("ip", Whole("::ffff:192.0.2.7"))]), "search:ip=192.0.2.7");

    for (policy, given, message) in [
        ("health", &[][..], "policy `health` counts nothing"),
        ("search", &[], "policy `search` counts by `user`: the request has no key: `user` is missing"),
        (
            "login",
            &[("user", Key("alice")), ("ip", Key("nowhere"))],
            "policy `login` counts by `[user, ip]`: the request has no key: `ip` is not an address",
        ),
        (
            "search",
            &[("user", Key("alice")), ("tenant", Key("acme"))],
            "policy `search` counts by `user`, so `tenant` has no effect: leave it out",
        ),
        (
            "who",
            &[("user", Key("alice")), ("device", Key("d1"))],
            "policy `who` counts by `{ first_of: [user, device] }`, so `device` has no effect: leave it out",
        ),
        (
            "costly",
            &[("user", Key("a"))],
            "policy `costly` counts by `global`, so `user` has no effect: leave it out",
        ),
        ("search", &[("user", Key("a")), ("user", Key("b"))], "`user` is given twice"),
        (
            "search",
            &[("user", Key("a")), ("tenant", Whole("b"))],
            "an override for a text or a prefix of `tenant` cannot name other attributes",
        ),
        (
            "search",
            &[("path", Prefix("/a"))],
            "`path` cannot be compared with a text, because a path may have two readings",
        ),
        (
            "login",
            &[("ip", Prefix("10."))],
            "`ip` cannot be compared with a text, because the policy's key reads it as an address",
        ),
        ("search", &[("tennant", Whole("a"))], "no policy uses the attribute `tennant`"),
        ("search", &[("tenant", Prefix(""))], "a text of `tenant` has 1 to 256 bytes"),
    ] {
        assert_eq!(name(policy, given), message);
    }
}

#[test]
fn limits_are_those_of_a_file_with_the_settings_of_the_policy() {
    let policies = policies(POLICIES);
    let (set, _) = set();
    let fault = |name: &str, limits: &[&str]| {
        let id = format!("{name}:tenant=acme");
        let key = policy(&policies, name).identity().to_string().into();
        let record = OverrideRecord { key, ..record(&id, OverrideLimits::of(limits.iter().copied())) };
        let fits = set.expect_fit(&record, &policies);
        let set = set.with(record, &policies);
        let told = fits.map_or_else(|reason| reason.to_string(), |()| "active".to_owned());
        assert_eq!(state(&set, &id), told);
        told
    };
    for (name, limits, told) in [
        ("search", &["500/1m"][..], "active"),
        ("search", &["500/minute; 9 per hour", "20~in_flight:30s", "100/day@Europe/Berlin"], "active"),
        ("login", &["3~in_flight"], "active"),
        (
            "search",
            &[],
            "its limits do not fit: a list of limits has at least one; without limits, it is `unlimited` or `denied`",
        ),
        (
            "search",
            &["5/1m", "9/60s"],
            "its limits do not fit: 9/1m has the same window as 5/1m: keep one of them",
        ),
        (
            "search",
            &["2~in_flight", "3~in_flight"],
            "its limits do not fit: 3~in_flight is a second limit in flight, and 2~in_flight the first: keep one of them",
        ),
        (
            "costly",
            &["5/1m", "3~in_flight"],
            "its limits do not fit: 3~in_flight does not fit: the policy has `overdraft`, and a denial cannot charge \
             units in flight",
        ),
    ] {
        assert_eq!(fault(name, limits), told);
    }
    assert!(fault("search", &["5 per fortnight"]).contains("5 per fortnight"), "the error names the text");
    assert!(fault("search", &["unlimited"]).contains("unlimited"));

    let costly = record("costly:tenant=acme", OverrideLimits::of(["5/1m"]));
    let set = set.with(OverrideRecord { key: "global".into(), ..costly }, &policies);
    let entry = set.get(&"costly:tenant=acme".parse().unwrap()).unwrap();
    let [quota] = entry.quotas().unwrap().quotas() else { panic!("{entry:?}") };
    let [own] = policy(&policies, "costly").quotas() else { panic!("{policies:?}") };
    assert!(quota.shares_counters_with(own));
    assert_eq!(
        (quota.count_denied(), quota.on_store_failure()),
        (own.count_denied(), own.on_store_failure())
    );
}

#[test]
fn an_override_is_inert_while_its_policy_is_another() {
    let before = policies(POLICIES);
    let (set, clock) = set();
    let record = OverrideRecord {
        until: Some(Timestamp::from_unix_millis(1_005_000)),
        ..record("search:tenant=acme", OverrideLimits::Denied)
    };
    let set = set.with(record, &before);
    let under = |text: &str| state(&set.for_policies(&policies(text)), "search:tenant=acme");
    let other = |policy: &str| under(&format!("policies:\n  - {policy}\n"));
    assert_eq!(state(&set, "search:tenant=acme"), "active");
    assert_eq!(other("{ name: search, key: [user], quotas: [1/1s] }"), "active");
    assert_eq!(other("{ name: find, key: [user], quotas: [1/1s] }"), "there is no policy `search`");
    assert_eq!(
        other("{ name: search, key: [customer], quotas: [1/1s] }"),
        "policy `search` has another key: `customer`, was `user`"
    );
    assert_eq!(
        other("{ name: search, match: { path: /s }, exempt: true }"),
        "policy `search` counts nothing"
    );
    let gone = set.for_policies(&policies("policies: [{ name: a, key: global, quotas: [1/1s] }]"));
    assert_eq!(state(&gone.for_policies(&before), "search:tenant=acme"), "active", "it applies again");
    clock.advance(Duration::from_millis(4_999));
    assert_eq!(state(&set, "search:tenant=acme"), "active");
    clock.advance(Duration::from_millis(1));
    assert_eq!(state(&set, "search:tenant=acme"), "ended");
}

/// A store that counts no more than two quotas together.
struct NoMoreThanTwo;

impl OverrideFit for NoMoreThanTwo {
    fn misfit(&self, policies: &Policies, policy: &Policy, limits: &OverrideQuotas) -> Option<Box<str>> {
        assert!(policies.as_slice().iter().any(|other| other.name() == policy.name()));
        (limits.quotas().len() > 2).then(|| format!("{} quotas", limits.quotas().len()).into())
    }
}

#[test]
fn what_the_store_cannot_count_is_inert() {
    let policies = policies(POLICIES);
    let set = set().0.with_fit(Arc::new(NoMoreThanTwo));
    let two = record("search:tenant=two", OverrideLimits::of(["1/1s", "1/1m"]));
    let three = record("search:tenant=three", OverrideLimits::of(["1/1s", "1/1m", "1/1h"]));
    let set = set.with(two, &policies).with(three, &policies);
    let reason = "the store cannot count its limits: 3 quotas";
    for set in [&set, &set.for_policies(&policies)] {
        assert_eq!(state(set, "search:tenant=two"), "active");
        assert_eq!(state(set, "search:tenant=three"), reason);
    }
}

/// An override with limits is found a little longer, because the step that charges compares its end.
#[test]
fn only_overrides_with_limits_are_found_after_their_end() {
    let policies = policies("policies: [{ name: search, key: [user], quotas: [100/1m] }]");
    let (set, clock) = set();
    let end = Timestamp::from_unix_millis(1_000_001);
    let of = |id: &str, limits| OverrideRecord { until: Some(end), ..record(id, limits) };
    let set = set
        .with(of("search:tenant=limits", OverrideLimits::of(["5/1m"])), &policies)
        .with(of("search:tenant=denied", OverrideLimits::Denied), &policies)
        .with(of("search:tenant=unlimited", OverrideLimits::Unlimited), &policies);
    let found = |tenant: &str, at| {
        let request: Attributes<'_> = [("user", "alice"), ("tenant", tenant)].into_iter().collect();
        match policies.charges_under(&set, at, &request, 1).unwrap() {
            Outcome::DenyOverride { until, .. } => until == Some(end),
            Outcome::Charge(matched) => {
                matched.overridden().next().is_some_and(|(_, until)| until == Some(end))
            }
            other => panic!("{other:?}"),
        }
    };
    let all = |at| ["limits", "denied", "unlimited"].map(|tenant| found(tenant, at));
    assert_eq!(all(None), [true; 3]);
    clock.advance(Duration::from_millis(1));
    assert_eq!(all(None), [true, false, false]);
    clock.advance(Duration::from_millis(1_999));
    assert_eq!(all(None), [true, false, false]);
    clock.advance(Duration::from_millis(1));
    assert_eq!(all(None), [false; 3]);
    // At a known time, the estimate does not matter.
    assert_eq!(all(Some(Timestamp::from_unix_millis(1_000_000))), [true; 3]);
    assert_eq!(all(Some(end)), [false; 3]);
}

/// An operator's change of one policy must not take as long as there are overrides of others.
#[test]
fn policies_that_stay_keep_their_overrides_and_changes_leave_old_sets_as_they_are() {
    let policies = policies(POLICIES);
    let all = (0..3_000_u32).map(|number| {
        let version = u64::from(number);
        let id = format!("search:tenant=t-{number}");
        OverrideRecord { version, ..record(&id, OverrideLimits::of(["5/1m"])) }
    });
    let set = set().0.of_all(all, &policies);
    let without = (0..3_000_u32)
        .step_by(2)
        .fold(set.clone(), |set, number| set.without(&format!("search:tenant=t-{number}").parse().unwrap()));
    let texts =
        |set: &OverrideSet| set.after(None, Some("search")).map(|it| it.version()).collect::<Vec<_>>();
    assert_eq!((set.len(), texts(&set).len()), (3_000, 3_000));
    assert_eq!((without.len(), texts(&without).len()), (1_500, 1_500));
    assert!(texts(&without).iter().all(|version| version % 2 == 1));
    let again = without.for_policies(&self::policies(&POLICIES.replace("[9/1m]", "[8/1m]")));
    assert_eq!(texts(&again), texts(&without));
    let is_first = |set: &OverrideSet| {
        let entry = set.after(None, None).next().unwrap();
        std::ptr::from_ref(entry.quotas().unwrap())
    };
    assert_eq!(is_first(&again), is_first(&without), "what means the same is shared");
}

/// Two overrides with the same words share what they say, and are still told apart.
#[test]
fn the_override_that_applies_to_a_request_has_its_name() {
    let policies = policies(POLICIES);
    let (set, _) = set();
    let alice: Attributes<'_> = [("user", "alice")].into_iter().collect();
    let key = policy(&policies, "search").identity().key(&alice).unwrap();
    let key = format!("search:={}", set.key(&key));
    let limits = || OverrideLimits::of(["5/1m"]);
    let ended = Timestamp::from_unix_millis(1_000_000);
    let set = [&*key, "search:tenant=acme", "search:tenant^ac", "search:tenant^a"]
        .into_iter()
        .fold(set, |set, id| set.with(record(id, limits()), &policies))
        .with(OverrideRecord { until: Some(ended), ..record("search:plan=gold", limits()) }, &policies)
        .with(OverrideRecord { key: "ip".into(), ..record("search:plan=old", limits()) }, &policies)
        .with(record("login:tenant=acme", OverrideLimits::Denied), &policies);
    let applied = |pairs: &[(&str, &str)], at: i64| {
        let request: Attributes<'_> = pairs.iter().copied().collect();
        let entry = set.applied(policy(&policies, "search"), &request, Timestamp::from_unix_millis(at));
        entry.map_or_else(|| "none".to_owned(), |entry| entry.name().to_string())
    };
    for (pairs, id) in [
        (&[("user", "alice"), ("tenant", "acme")][..], &*key),
        (&[("user", "bob"), ("tenant", "acme")], "search:tenant=acme"),
        (&[("user", "bob"), ("tenant", "acorn")], "search:tenant^ac"),
        (&[("user", "bob"), ("tenant", "apple")], "search:tenant^a"),
        (&[("user", "bob"), ("plan", "gold")], "none"),
        (&[("user", "bob"), ("plan", "old")], "none"),
        (&[("tenant", "acme")], "none"),
    ] {
        assert_eq!(applied(pairs, 1_000_000), id, "{pairs:?}");
    }
    assert_eq!(applied(&[("user", "bob"), ("plan", "gold")], 999_999), "search:plan=gold");
}

#[test]
fn a_load_ends_with_what_its_changes_one_after_another_end_with() {
    let policies = policies(POLICIES);
    let mut random = fastrand::Rng::with_seed(52);
    for changes in [0, 1, 10, 300, 20_000] {
        let empty = set().0;
        let (mut loading, mut set) = (empty.loading(&policies), empty);
        for version in 1..=changes {
            let policy = ["search", "login", "who"][random.usize(..3)];
            let number = random.u128(..changes as u128 / 4 + 2);
            let target = match random.u8(..4) {
                0 => OverrideTarget::Attribute {
                    attribute: "tenant".into(),
                    text: format!("t{number}").into(),
                    is_whole: random.bool(),
                },
                // In all lists of a load, which are by the first bits.
                _ => OverrideTarget::Key(OverrideKey(number.reverse_bits())),
            };
            let name = OverrideName { policy: policy.into(), target };
            if random.u8(..4) > 0 {
                let limits = OverrideLimits::of([format!("{}/1m", version % 7 + 1)]);
                // Whatever the version is, the last one counts.
                let record = OverrideRecord {
                    version: random.u64(1..100),
                    key: "[user]".into(),
                    name,
                    ..record("a:b=c", limits)
                };
                loading.set(record.clone());
                set = set.with(record, &policies);
            } else {
                loading.delete(&name);
                set = set.without(&name);
            }
        }
        let records = |set: &OverrideSet| set.after(None, None).map(|it| it.record()).collect::<Vec<_>>();
        let loaded = loading.finish();
        assert_eq!((loaded.len(), loaded.version()), (set.len(), None));
        assert_eq!(records(&loaded), records(&set), "{changes}");
    }
}
