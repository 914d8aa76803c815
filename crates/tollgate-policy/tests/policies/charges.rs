//! From attributes to charges.

use std::time::Duration;

use tollgate::{Charge, CountDenied, ManualClock, MemoryStore, OnStoreFailure, Step};
use tollgate_policy::{
    Attributes, Config, HeaderFormat, Identity, KeyFault, MatchedPolicies, Mode, OnMissingKey, Outcome,
    Policies, Policy, PolicyBuilder, TrialKind,
};

fn config(policies: &str) -> Config {
    Config::parse("tollgate.yaml", policies).unwrap_or_else(|error| panic!("{error}"))
}

fn attributes<'a>(pairs: &[(&'a str, &'a str)]) -> Attributes<'a> {
    pairs.iter().copied().collect()
}

fn matched<'a>(config: &'a Config, attributes: &'a Attributes<'_>, cost: u32) -> MatchedPolicies<'a> {
    match config.policies().charges(attributes, cost) {
        Ok(Outcome::Charge(matched)) => matched,
        other => panic!("no charges: {other:?}"),
    }
}

/// `policy limit/windows cost`.
fn written<'a>(charges: impl Iterator<Item = Charge<'a>>) -> Vec<String> {
    charges.map(|charge| format!("{:?} {}", charge.counter().quota(), charge.cost())).collect()
}

const SHOP: &str = "
policies:
  - name: search
    match: { path: /search, method: [GET, POST] }
    key: { first_of: [user, ip] }
    quotas: [10/1s, 100/1m]
    overrides:
      - when: { tier: gold }
        quotas: [1000/1m, 5000/1h]
      - when: { tier: internal }
        quotas: unlimited
  - name: all
    key: global
    quotas: [1000/1s]
  - name: health
    match: { path: [/healthz, /internal/*] }
    exempt: true
";

/// A mistake after the last policy was taken for one in that policy. So the checks of the file's user skipped the
/// policy until the mistake was fixed.
#[test]
fn only_policies_that_are_wrong_in_themselves_are_not_looked_at_further() {
    let seen = |text: &str| {
        let mut names = Vec::new();
        let config = Config::parse_sources(&tollgate_policy::Sources::of("t.yaml", text), |config| {
            names.extend(config.policies().as_slice().iter().map(|policy| policy.name().to_owned()));
            Vec::new()
        });
        assert!(config.is_err(), "{text}");
        names
    };
    let first = "policies:\n- { name: first, key: global, quotas: [5/1m] }\n";
    let right = "- name: last\n  key: global\n  quotas: [5/1m]\n";
    for after in ["colour: red", "store:\n  colour: red", "mode: shade", "mode: ${TOLLGATE_NO_SUCH}"] {
        assert_eq!(seen(&format!("{first}{right}{after}\n")), ["first", "last"], "{after}");
        assert_eq!(seen(&format!("{after}\n{first}{right}")), ["first", "last"], "{after}");
    }
    for wrong in ["headers: all", "colour: red", "quotas: [5/1m]", "description: ${TOLLGATE_NO_SUCH}"] {
        assert_eq!(seen(&format!("{first}{right}  {wrong}\n")), ["first"], "{wrong}");
        assert_eq!(seen(&format!("{first}{right}  {wrong}\nmode: shadow\n")), ["first"], "{wrong}");
    }
    assert_eq!(seen(&format!("{first}{right}  candidate: [9/1h, 9/1h]\n")), ["first"]);
}

#[test]
fn every_policy_that_matches_charges_all_its_quotas() {
    let config = config(SHOP);
    let attributes = attributes(&[("path", "/search"), ("method", "POST"), ("user", "alice")]);
    let charges = written(matched(&config, &attributes, 3).enforced());
    assert_eq!(charges, ["search: 10/1s 3", "search: 100/1m 3", "all: 1000/1s 3"]);
}

#[test]
fn every_line_of_a_match_must_hold() {
    let config = config(SHOP);
    let attributes = attributes(&[("path", "/search"), ("method", "PUT"), ("user", "alice")]);
    assert_eq!(written(matched(&config, &attributes, 1).enforced()), ["all: 1000/1s 1"]);
}

#[test]
fn a_request_that_meets_several_alternatives_is_counted_once() {
    let config = config(
        "
policies:
  - name: logins
    match:
      method: POST
      any:
        - { path: /login }
        - { path: /log*, client: { present: true } }
        - { path: /token, grant: password }
    key: [ip]
    quotas: [5/1m]
",
    );
    let charges = |pairs: &[(&str, &str)]| {
        let all: Vec<(&str, &str)> =
            [("method", "POST"), ("ip", "192.0.2.7")].iter().chain(pairs).copied().collect();
        written(matched(&config, &attributes(&all), 2).enforced())
    };
    let once = ["logins: 5/1m 2"];
    assert_eq!(charges(&[("path", "/login")]), once);
    assert_eq!(charges(&[("path", "/login"), ("client", "app"), ("grant", "password")]), once);
    assert_eq!(charges(&[("path", "/token"), ("grant", "password")]), once);
    for other in
        [&[("path", "/token")][..], &[("path", "/token"), ("grant", "refresh")], &[("grant", "password")]]
    {
        assert_eq!(charges(other), [""; 0], "{other:?}");
    }
    let get = attributes(&[("method", "GET"), ("path", "/login"), ("ip", "192.0.2.7")]);
    assert_eq!(matched(&config, &get, 1).enforced().count(), 0, "every line has to hold besides");
}

#[test]
fn an_exempt_policy_ends_the_matter_wherever_it_stands() {
    let config = config(SHOP);
    let attributes = attributes(&[("path", "/internal/search")]);
    let Ok(Outcome::Exempt(policy)) = config.policies().charges(&attributes, 1) else { panic!("counted") };
    assert_eq!(policy.name(), "health");
}

#[test]
fn the_first_override_that_holds_replaces_the_list() {
    let config = config(SHOP);
    let with = |tier| {
        let attributes = attributes(&[("path", "/search"), ("method", "GET"), ("user", "a"), ("tier", tier)]);
        written(matched(&config, &attributes, 1).enforced())
    };
    assert_eq!(with("gold"), ["search: 1000/1m 1", "search: 5000/1h 1", "all: 1000/1s 1"]);
    assert_eq!(with("internal"), ["all: 1000/1s 1"]);
    assert_eq!(with("silver"), ["search: 10/1s 1", "search: 100/1m 1", "all: 1000/1s 1"]);
}

#[test]
fn expressions_fit_as_a_whole_and_case_may_be_ignored() {
    let holds = |test: &str, value: &str| {
        let config = config(&format!("policies: [{{ name: a, match: {{ x: {test} }}, exempt: true }}]"));
        let attributes = attributes(&[("x", value)]);
        let count = config.policies().matching(&attributes).count();
        count == 1
    };
    let version = "{ regex: '/v[0-9]+/.*' }";
    assert!(holds(version, "/v2/users") && !holds(version, "/api/v2/users") && !holds(version, "/V2/users"));
    assert!(holds("{ regex: 'a|bc' }", "bc") && !holds("{ regex: 'a|bc' }", "abc"));
    assert!(holds("{ regex: '/v[0-9]+/.*', ignore_case: true }", "/V2/users"));
    for test in
        ["{ equal: Gold }", "{ one_of: [x, GOLD] }", "{ prefix: gO }", "{ glob: '*OLD' }", "{ regex: g.LD }"]
    {
        let ignoring = test.replace(" }", ", ignore_case: true }");
        for value in ["gold", "Gold", "GOLD"] {
            assert!(holds(&ignoring, value), "{ignoring} {value}");
            assert!(!holds(&ignoring.replace("{ ", "{ not: { ").replace(" }", " } }"), value));
        }
        assert!(!holds(test, "gold") && !holds(&ignoring, "silver"), "{test}");
    }
    assert!(holds("{ equal: Ärger, ignore_case: true }", "ÄRGER"));
    assert!(!holds("{ equal: a, ignore_case: true, prefix: b }", "a"), "both have to hold");
}

#[test]
fn files_have_a_thousand_expressions_at_most() {
    let file = |count: usize| {
        let policy =
            |number| format!("{{ name: p{number}, match: {{ x: {{ regex: 'a{number}' }} }}, exempt: true }}");
        let all: Vec<String> = (0..count).map(policy).collect();
        Config::parse("t", &format!("policies: [{}]", all.join(", ")))
    };
    assert!(file(1_000).is_ok());
    assert!(
        file(1_001).unwrap_err().to_string().ends_with("the files have more than 1000 regular expressions")
    );
}

const TABLES: &str = "
tiers:
  free: [5/1m]
  gold: 50/minute;500/hour
  staff: unlimited
policies:
  - name: api
    key: [tenant]
    quotas: { tier: plan, default: free }
    candidate: [4/1m]
    overrides:
      - { by: tenant, values: { acme: [7/1m], \"a, b\": 8/1m, big: unlimited }, values_from: tenants.csv }
      - { when: { tenant: \"test-*\" }, quotas: [1/1m] }
";

#[test]
fn quotas_come_from_a_table_or_a_tier() {
    let table = "# tenant,quotas\r\nfoo,10/1s,1000/1h\r\n\"x, \"\"y\"\"\",9/1m\n\n bar , unlimited\n";
    let sources = tollgate_policy::Sources::of("tollgate.yaml", TABLES).with_table(
        "tollgate.yaml",
        "tenants.csv",
        table,
    );
    let config = Config::parse_sources(&sources, |_| Vec::new()).unwrap_or_else(|error| panic!("{error}"));
    let of = |pairs: &[(&str, &str)]| {
        let attributes = attributes(pairs);
        let matched = matched(&config, &attributes, 1);
        let trials = matched.trials().flat_map(|trial| trial.charges().collect::<Vec<_>>());
        written(matched.enforced()).into_iter().chain(written(trials)).collect::<Vec<_>>()
    };
    let tenant = |name| of(&[("tenant", name), ("plan", "gold")]);
    for (name, quotas) in [
        ("acme", &["api: 7/1m 1"][..]),
        ("a, b", &["api: 8/1m 1"]),
        ("big", &[]),
        ("foo", &["api: 10/1s 1", "api: 1000/1h 1"]),
        ("x, \"y\"", &["api: 9/1m 1"]),
        ("bar", &[]),
        ("test-7", &["api: 1/1m 1"]),
    ] {
        assert_eq!(tenant(name), quotas, "{name}");
    }
    // A user without a line in the table has a tier, and the trials are the same for all of them.
    for (plan, quotas) in [
        ("free", &["api: 5/1m 1", "api:candidate: 4/1m 1"][..]),
        ("gold", &["api: 50/1m 1", "api: 500/1h 1", "api:candidate: 4/1m 1"]),
        ("staff", &["api:candidate: 4/1m 1"]),
        ("platinum", &["api: 5/1m 1", "api:candidate: 4/1m 1"]),
        ("", &["api: 5/1m 1", "api:candidate: 4/1m 1"]),
    ] {
        assert_eq!(of(&[("tenant", "other"), ("plan", plan)]), quotas, "{plan}");
    }
    assert_eq!(of(&[("tenant", "other")]), ["api: 5/1m 1", "api:candidate: 4/1m 1"]);
    assert!(config.policies().attributes().into_iter().eq(["plan", "tenant"]));
}

const LISTS: &str = "
policies:
  - name: banned
    match: { ip: { cidr_from: banned.txt, not: { cidr_from: office.txt } } }
    key: [ip]
    quotas: [0/1m]
  - name: thieves
    match: { path: /search, key: { one_of_from: thieves.txt } }
    key: [key]
    quotas: [1/1m]
";

#[test]
fn lists_of_networks_and_values_come_from_files() {
    let sources = tollgate_policy::Sources::of("t/a.yaml", LISTS)
        .with_table("t/a.yaml", "banned.txt", "# networks\n10.0.0.0/8\n2001:db8::/32 # all of it\n\n")
        .with_table("t/a.yaml", "office.txt", "10.1.2.0/24")
        .with_table("t/a.yaml", "thieves.txt", "k1\nk*\n k 2 \n");
    let config = Config::parse_sources(&sources, |_| Vec::new()).unwrap_or_else(|error| panic!("{error}"));
    let of = |pairs: &[(&str, &str)]| {
        let attributes = attributes(pairs);
        config.policies().matching(&attributes).map(|policy| policy.name().to_owned()).collect::<Vec<_>>()
    };
    for (ip, is_banned) in [
        ("10.0.0.1", true),
        ("10.1.2.3", false),
        ("::ffff:10.0.0.1", true),
        ("11.0.0.1", false),
        ("2001:db8::7", true),
    ] {
        assert_eq!(of(&[("ip", ip)]), if is_banned { vec!["banned"] } else { vec![] }, "{ip}");
    }
    for (key, is_known) in [("k1", true), ("k*", true), ("k 2", true), ("k", false), ("", false)] {
        assert_eq!(
            of(&[("path", "/search"), ("key", key)]),
            if is_known { vec!["thieves"] } else { vec![] },
            "{key}"
        );
        assert_eq!(of(&[("path", "/"), ("key", key)]), [""; 0]);
    }
    let condition = &config.policies().as_slice()[0].conditions().all()[0];
    assert_eq!(condition.to_string(), "ip: { cidr_from: banned.txt }");

    // Another list makes another policy; the same list in another order does not.
    let with = |banned: &str| {
        let sources = tollgate_policy::Sources::of(
            "t/a.yaml",
            "policies: [{ name: a, match: { ip: { cidr_from: b } }, exempt: true }]",
        );
        Config::parse_sources(&sources.with_table("t/a.yaml", "b", banned), |_| Vec::new())
    };
    let before = with("10.0.0.0/8\n192.0.2.1\n").unwrap();
    assert!(with("192.0.2.1\n10.0.0.0/8\n10.1.0.0/16\n").unwrap().changes_since(&before).is_empty());
    assert_eq!(with("10.0.0.0/8\n").unwrap().changes_since(&before).to_string(), "changed `a`: match");
    assert!(with("").is_ok(), "nobody is banned today");
    let error = with("10.0.0.0/8\n\n10.0.0.1/8\nhere\n").unwrap_err().to_string();
    assert_eq!(
        error,
        "t/b:3:1: network `10.0.0.1/8`: bits are set after the prefix: did you mean 10.0.0.0/8?
t/b:4:1: network `here`: expected an address, with or without a prefix length, such as 10.0.0.0/8"
    );
}

const LISTED: &str = "
allow: { ip: 10.0.0.0/8, plan: staff }
deny:
  ip_from: banned.txt
  user_from: thieves.txt
  agent: [curl, \"bot-*\"]
unmatched: deny
policies:
  - { name: api, match: { path: /api/*, valid_from: { absent: true } }, key: [tenant], quotas: [5/1m] }
";

#[test]
fn listed_callers_are_admitted_or_denied_before_anything_is_counted() {
    let parse = |text: &str| {
        let sources = tollgate_policy::Sources::of("t/a.yaml", text)
            .with_table("t/a.yaml", "banned.txt", "192.0.2.0/24\n10.1.0.0/16\n# more\n")
            .with_table("t/a.yaml", "thieves.txt", "mallory\nbot-*\n");
        Config::parse_sources(&sources, |_| Vec::new()).unwrap_or_else(|error| panic!("{error}"))
    };
    let outcome = |config: &Config, pairs: &[(&str, &str)]| {
        let attributes = attributes(pairs);
        match config.policies().charges(&attributes, 1) {
            Ok(Outcome::Exempt(policy)) => format!("exempt by {}", policy.name()),
            Ok(Outcome::Deny(policy)) => format!("denied by {} with {}", policy.name(), policy.deny_status()),
            Ok(Outcome::Charge(matched)) => format!("{:?}", written(matched.enforced())),
            Ok(other) => format!("{other:?}"),
            Err(refusal) => refusal.to_string(),
        }
    };
    let config = parse(LISTED);
    let (allowed, denied) = ("exempt by allow", "denied by deny with 403");
    for (pairs, expected) in [
        (&[("ip", "10.0.0.1"), ("agent", "curl")][..], allowed),
        (&[("plan", "staff"), ("ip", "192.0.2.1")], allowed),
        (&[("ip", "10.1.0.1")], allowed),
        (&[("ip", "::ffff:192.0.2.1")], denied),
        (&[("user", "mallory")], denied),
        (&[("user", "bot-*")], denied),
        (&[("agent", "bot-7")], denied),
        // The missing tenant does not matter.
        (&[("agent", "curl"), ("path", "/api/x")], denied),
        (&[("user", "bot-7"), ("path", "/api/x"), ("tenant", "t")], "[\"api: 5/1m 1\"]"),
        (&[("user", "bot-7")], "DenyUnmatched"),
    ] {
        assert_eq!(outcome(&config, pairs), expected, "{pairs:?}");
    }
    let shadow = parse(&format!("mode: shadow{LISTED}"));
    assert_eq!(outcome(&shadow, &[("user", "mallory")]), "[]", "what is only tried out denies nobody");
    assert_eq!(outcome(&shadow, &[("plan", "staff")]), allowed);
    let named = config.policies().attributes();
    assert!(["agent", "ip", "plan", "user"].iter().all(|name| named.contains(name)), "{named:?}");

    let both = Config::parse("t", "deny: { user: a }\npolicies: [{ name: deny, key: [u], quotas: [5/1m] }]");
    assert!(
        both.unwrap_err()
            .to_string()
            .starts_with("t:2:12: duplicate policy name `deny`, already used in line 1")
    );
    let other = parse(&LISTED.replace("curl, ", ""));
    assert_eq!(other.changes_since(&config).to_string(), "changed `deny`: match");
}

/// A user who is added to a table in the middle of a window keeps the usage. The order of a table has no meaning.
#[test]
fn a_table_is_replaced_by_one_that_means_something_else_only() {
    let config = |values: &str| {
        config(&format!(
            "policies: [{{ name: a, key: [user], quotas: [2/1m], overrides: {{ by: user, values: {values} }} }}]"
        ))
    };
    let before = config("{ x: [3/1m], y: [4/1m], z: [3/1m] }");
    let changes = |values: &str| config(values).changes_since(&before).to_string();
    assert_eq!(changes("{ z: [3/1m], y: 4/60s, x: [3/1m] }"), "no changes");
    for other in [
        "{ x: [3/1m], y: [4/1m] }",
        "{ x: [3/1m], y: [4/1m], z: [4/1m] }",
        "{ x: [3/1m], y: [5/1m], z: [3/1m] }",
    ] {
        assert_eq!(changes(other), "changed `a`: overrides", "{other}");
    }
    let store = MemoryStore::builder().clock(ManualClock::default()).build();
    let admitted = |config: &Config| {
        let attributes = attributes(&[("user", "x")]);
        let matched = matched(config, &attributes, 1);
        let charges: Vec<Charge<'_>> = matched.enforced().collect();
        store.take(Step::Charge(&charges)).unwrap().is_admitted()
    };
    let without = config("{ y: [4/1m] }");
    assert!(admitted(&without) && admitted(&without) && !admitted(&without));
    assert!(admitted(&before) && !admitted(&before));
}

/// A user who used 100 of 100 and becomes gold has 900 of 1000 left, not 1000.
#[test]
fn an_override_keeps_the_counters_of_the_same_windows() {
    let config = config(
        "policies: [{ name: a, key: [user], quotas: [2/1m], overrides: [{ when: { tier: gold }, quotas: [3/1m] }] }]",
    );
    let store = MemoryStore::builder().clock(ManualClock::default()).build();
    let admitted = |pairs: &[(&str, &str)]| {
        let attributes = pairs.iter().copied().collect();
        let matched = matched(&config, &attributes, 1);
        let charges: Vec<Charge<'_>> = matched.enforced().collect();
        store.take(Step::Charge(&charges)).unwrap().is_admitted()
    };
    assert!(admitted(&[("user", "a")]) && admitted(&[("user", "a")]) && !admitted(&[("user", "a")]));
    assert!(admitted(&[("user", "a"), ("tier", "gold")]));
    assert!(!admitted(&[("user", "a"), ("tier", "gold")]));
}

#[test]
fn a_missing_key_is_an_error_a_denial_or_nothing_and_never_a_shared_counter() {
    let config = |on_missing_key| {
        config(&format!(
            "defaults: {{ on_missing_key: {on_missing_key} }}\n\
             policies: [{{ name: a, key: [tenant, user], quotas: [5/1m] }}]"
        ))
    };
    let attributes = attributes(&[("tenant", "t"), ("user", "")]);
    let (error, deny, skip) = (config("error"), config("deny"), config("skip"));
    let refusal = error.policies().charges(&attributes, 1).unwrap_err();
    assert_eq!(refusal.to_string(), "policy `a`: the request has no key: `user` is empty");
    let Ok(Outcome::DenyUnknown { policy, no_key }) = deny.policies().charges(&attributes, 1) else {
        panic!("not denied")
    };
    assert_eq!((policy.name(), no_key.attribute, no_key.fault), ("a", "user", KeyFault::Empty));
    assert_eq!(matched(&skip, &attributes, 1).enforced().count(), 0);
}

/// The key attribute of a client was `unknown`. The policy for its address skipped it, the one for requests without an
/// address did not match, and nothing limited it.
#[test]
fn a_value_that_is_not_an_address_is_denied_and_not_skipped() {
    let config = config(
        "policies:
  - { name: keyed, key: [tenant, { address: client }], quotas: [5/1m], on_missing_key: skip }
  - { name: anonymous, match: { client: { absent: true } }, key: global, quotas: [5/1m] }",
    );
    let ask = |pairs: &[(&str, &str)]| {
        let attributes = attributes(pairs);
        match config.policies().charges(&attributes, 1).unwrap() {
            Outcome::Charge(matched) => matched.policies().map(|policy| policy.name().to_owned()).collect(),
            Outcome::DenyUnknown { no_key, .. } => vec![format!("{} {}", no_key.attribute, no_key.fault)],
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ask(&[("tenant", "t"), ("client", "192.0.2.7")]), ["keyed"]);
    assert_eq!(ask(&[("tenant", "t"), ("client", "unknown")]), ["client is not an address"]);
    assert_eq!(ask(&[("tenant", "t"), ("client", "")]), ["anonymous"]);
    assert_eq!(ask(&[("tenant", "t")]), ["anonymous"]);
    assert_eq!(ask(&[("client", "unknown")]), [""; 0], "no tenant: as for any other value of `client`");
}

/// A gateway that admits what is an error counts an empty value by a digest. So a key has it, and it is not absent.
#[test]
fn values_that_are_counted_by_a_digest_are_present() {
    let config = config(
        "policies:
  - { name: keyed, key: [user], quotas: [5/1m], on_missing_key: skip }
  - { name: present, match: { user: { present: true } }, key: global, quotas: [5/1m] }
  - { name: anonymous, match: { user: { absent: true } }, key: global, quotas: [5/1m] }",
    );
    let names = |attributes: &Attributes<'_>| {
        let matched = matched(&config, attributes, 1);
        matched.policies().map(|policy| policy.name().to_owned()).collect::<Vec<_>>()
    };
    let mut empty = attributes(&[("user", "")]);
    assert_eq!(names(&empty), ["anonymous"]);
    empty.count_as("user", "digest");
    assert_eq!(names(&empty), ["keyed", "present"]);
}

/// The order of policies in the file decided between 400 and 429.
#[test]
fn an_error_does_not_depend_on_the_order_of_policies() {
    let strict = "{ name: strict, key: [user], quotas: [5/1m] }";
    let denying = "{ name: denying, key: [tenant], quotas: [5/1m], on_missing_key: deny }";
    for policies in [[strict, denying], [denying, strict]] {
        let config = config(&format!("policies: [{}]", policies.join(", ")));
        let refusal = config.policies().charges(&Attributes::default(), 1).unwrap_err();
        assert!(refusal.to_string().starts_with("policy `strict`: "), "{refusal}");
        let user = attributes(&[("user", "a")]);
        let denied = config.policies().charges(&user, 1);
        let Ok(Outcome::DenyUnknown { no_key, .. }) = denied else { panic!("{denied:?}") };
        assert_eq!(no_key.attribute, "tenant");
    }
}

/// The first of the file did, although files of another order have the same generation.
#[test]
fn of_policies_that_answer_alone_the_first_by_name_does() {
    let keyed = |name: &str| {
        let policy =
            Policy::builder(name).key(Identity::Attribute("user".into())).quota("5/1m".parse().unwrap());
        policy.on_missing_key(OnMissingKey::Deny)
    };
    let builders: [fn(&str) -> PolicyBuilder; 2] =
        [|name| Policy::builder(name).exempt(), |name| Policy::builder(name).deny()];
    let policy = |kind: usize, name: &str| {
        let builder = builders.get(kind).map_or_else(|| keyed(name), |build| build(name));
        builder.build().unwrap()
    };
    for kind in 0..3 {
        for names in [["a", "b"], ["b", "a"]] {
            let policies = Policies::of(names.map(|name| policy(kind, name))).unwrap();
            let attributes = Attributes::default();
            let outcome = policies.charges(&attributes, 1);
            let Ok(
                Outcome::Exempt(first) | Outcome::Deny(first) | Outcome::DenyUnknown { policy: first, .. },
            ) = &outcome
            else {
                panic!("{outcome:?}")
            };
            assert_eq!(first.name(), "a", "{kind} {names:?}");
        }
    }
}

#[test]
fn a_cost_comes_from_the_caller_the_policy_or_an_attribute() {
    let config = config(
        "policies:
  - { name: asked, key: global, quotas: [9/1m] }
  - { name: fixed, key: global, quotas: [9/1m], cost: 7 }
  - { name: said, key: global, quotas: [9/1m], cost: { attribute: tokens, max: 100, on_missing: asked } }",
    );
    let costs = |pairs: &[(&str, &str)], asked| {
        let attributes = pairs.iter().copied().collect();
        let costs: Vec<u32> = matched(&config, &attributes, asked).enforced().map(|c| c.cost()).collect();
        costs
    };
    assert_eq!(costs(&[("tokens", "100")], 2), [2, 7, 100]);
    assert_eq!(costs(&[], 2), [2, 7, 2]);
    assert_eq!(costs(&[("tokens", "many")], 2), [2, 7, 2]);
    assert_eq!(costs(&[("tokens", "100")], 0), [0, 0, 0], "a peek charges nothing");
    for (tokens, message) in [
        ("101", "policy `said`: the attribute `tokens` sets the cost and may be at most 100"),
        (
            "99999999999999999999",
            "policy `said`: the attribute `tokens` sets the cost and may be at most 100",
        ),
    ] {
        let attributes = attributes(&[("tokens", tokens)]);
        assert_eq!(config.policies().charges(&attributes, 1).unwrap_err().to_string(), message);
    }
}

/// A caller that sent `tokens=0` took nothing, and one that left it out took one unit, whatever the request used.
#[test]
fn a_cost_that_says_nothing_is_no_free_pass() {
    let cost = |said: &str, tokens: Option<&str>| {
        let text = format!(
            "{{ name: a, key: global, quotas: [9/1m], cost: {{ attribute: tokens, max: 100{said} }} }}"
        );
        let config = config(&format!("policies: [{text}]"));
        let attributes: Attributes<'_> = tokens.into_iter().map(|tokens| ("tokens", tokens)).collect();
        match config.policies().charges(&attributes, 2) {
            Ok(Outcome::Charge(matched)) => {
                Ok(matched.enforced().map(|charge| charge.cost()).next().unwrap())
            }
            Ok(other) => panic!("{other:?}"),
            Err(refusal) => Err(refusal.to_string()),
        }
    };
    let error = |words: &str| Err(format!("policy `a`: the attribute `tokens`{words}"));
    assert_eq!(cost("", Some("0")), Ok(1));
    assert_eq!(cost("", Some("7")), Ok(7));
    assert_eq!(cost(", min: 5", Some("4")), Ok(5));
    assert_eq!(cost(", min: 0", Some("0")), Ok(0));
    assert_eq!(cost("", None), error(", which sets the cost, is missing"));
    assert_eq!(cost(", min: 0, on_missing: error", None), error(", which sets the cost, is missing"));
    for no_number in ["", "-1", "1.5", "many", " 1"] {
        assert_eq!(cost("", Some(no_number)), error(" sets the cost and must be a whole number"));
        assert_eq!(cost(", on_missing: asked", Some(no_number)), Ok(2));
        assert_eq!(cost(", on_missing: 50", Some(no_number)), Ok(50));
    }
    assert_eq!(cost(", on_missing: 50", None), Ok(50));
    assert_eq!(cost(", on_missing: asked", None), Ok(2));
}

const TRIALS: &str = "
  - { name: live, key: [user], quotas: [5/1m], candidate: [3/1m, 1/1s] }
  - { name: dark, key: [ip], quotas: [2/1m], mode: shadow, cost: { attribute: tokens, max: 1 } }
  - { name: gone, key: [user], quotas: [1/1m], mode: off }
  - { name: disabled, exempt: true, enabled: false }
";

#[test]
fn trials_are_separate_from_deciding_charges() {
    let config = config(&format!("policies:{TRIALS}"));
    let attributes = attributes(&[("user", "a"), ("ip", "192.0.2.1"), ("tokens", "1")]);
    let matched = matched(&config, &attributes, 1);
    assert_eq!(written(matched.enforced()), ["live: 5/1m 1"]);
    let trials: Vec<_> = matched.trials().map(|trial| (trial.kind(), written(trial.charges()))).collect();
    assert_eq!(
        trials,
        [
            (
                TrialKind::Candidate,
                vec!["live:candidate: 3/1m 1".to_owned(), "live:candidate: 1/1s 1".to_owned()]
            ),
            (TrialKind::Shadow, vec!["dark: 2/1m 1".to_owned()]),
        ]
    );
    // On the same counter, the candidate would use up the quota that decides.
    let candidate = matched.trials().next().unwrap().charges().next().unwrap();
    assert!(matched.enforced().all(|live| live.counter() != candidate.counter()));
}

#[test]
fn a_trial_never_fails_a_request() {
    let config = config(&format!("policies:{TRIALS}"));
    for pairs in [&[("user", "a")][..], &[("user", "a"), ("ip", "192.0.2.1"), ("tokens", "many")]] {
        let attributes = attributes(pairs);
        let matched = matched(&config, &attributes, 1);
        assert_eq!(written(matched.enforced()), ["live: 5/1m 1"]);
        assert!(matched.trials().all(|trial| trial.kind() == TrialKind::Candidate));
    }
}

#[test]
fn the_mode_of_the_file_weakens_every_policy_and_strengthens_none() {
    let attributes = attributes(&[("user", "a"), ("ip", "192.0.2.1")]);
    for (mode, modes) in [
        ("enforce", [Mode::Off, Mode::Enforce, Mode::Shadow, Mode::Off]),
        ("shadow", [Mode::Off, Mode::Shadow, Mode::Shadow, Mode::Off]),
        ("off", [Mode::Off; 4]),
    ] {
        let config = config(&format!("mode: {mode}\npolicies:{TRIALS}"));
        let found: Vec<Mode> = config.policies().as_slice().iter().map(|policy| policy.mode()).collect();
        assert_eq!(found, modes);
        let enforced = matched(&config, &attributes, 1).enforced().count();
        assert_eq!(enforced, usize::from(mode == "enforce"));
    }
}

/// The defaults gave each policy a share, even exempt ones, which may not have one.
#[test]
fn an_exempt_policy_needs_no_share() {
    let config = config(
        "defaults: { on_store_failure: local }
policies:
  - { name: health, exempt: true }
  - { name: a, key: global, quotas: [5/1m], local_share: 1/2 }",
    );
    assert_eq!(config.policies().as_slice().len(), 2);
}

#[test]
fn a_policy_overrides_the_defaults() {
    let config = config(
        "defaults: { on_store_failure: local, local_share: 1/3, headers: none, deny_status: 403, count_denied: true }
policies:
  - { name: a, key: global, quotas: [5/1m] }
  - { name: b, key: global, quotas: [5/1m], on_store_failure: closed, headers: draft-06, deny_status: 429,
      count_denied: false, description: why }",
    );
    let [a, b] = config.policies().as_slice() else { panic!("two policies") };
    assert_eq!(a.on_store_failure(), OnStoreFailure::Local("1/3".parse().unwrap()));
    assert_eq!((a.headers(), a.deny_status(), a.description()), (HeaderFormat::None.into(), 403, None));
    assert_eq!(a.quotas()[0].count_denied(), CountDenied::Yes);
    assert_eq!(b.on_store_failure(), OnStoreFailure::Closed);
    assert_eq!(
        (b.headers(), b.deny_status(), b.description()),
        (HeaderFormat::Draft06.into(), 429, Some("why"))
    );
    assert_eq!(b.quotas()[0].count_denied(), CountDenied::No);
}

/// As YAML values, these would be 1.1, false and 10.
#[test]
fn values_are_texts_as_they_are_written() {
    let config = config(
        "policies: [{ name: a, match: { version: 1.10, debug: no, zip: 0xA }, key: global, quotas: [5/1m] }]",
    );
    let exact = attributes(&[("version", "1.10"), ("debug", "no"), ("zip", "0xA")]);
    assert_eq!(matched(&config, &exact, 1).enforced().count(), 1);
    let other = attributes(&[("version", "1.1"), ("debug", "false"), ("zip", "10")]);
    assert_eq!(matched(&config, &other, 1).enforced().count(), 0);
}

#[test]
fn variables_stand_in_values() {
    let text = "store: { url: \"${REDIS_URL}/1\", prefix: shop }\npolicies: []";
    let config = Config::parse_with("t", text, &|_| Some("redis://:secret@10.0.0.1".to_owned())).unwrap();
    let store = config.store().unwrap();
    assert_eq!((store.url(), store.prefix()), ("redis://:secret@10.0.0.1/1", Some("shop")));
    assert!(!format!("{store:?}").contains("secret"));
}

/// If variables were substituted before parsing, any of these values would change the meaning of the file.
#[test]
fn the_value_of_a_variable_is_one_text() {
    for text in [
        "[a, b]",
        "{ prefix: a }",
        "a # b",
        "a: b",
        "*a",
        "&a",
        "!t a",
        "\"",
        "'",
        "~",
        "null",
        " a ",
        "a\n- b",
    ] {
        let config = Config::parse_with(
            "t",
            "policies: [{ name: a, match: { path: \"${V}\", tag: \"<${V}>\" }, key: global, quotas: [5/1m] }]",
            &|_| Some(text.to_owned()),
        );
        let config = config.unwrap_or_else(|error| panic!("{text:?}: {error}"));
        let tag = format!("<{text}>");
        let same = attributes(&[("path", text), ("tag", &tag)]);
        assert_eq!(matched(&config, &same, 1).enforced().count(), 1, "{text:?}");
        let other = attributes(&[("path", "a"), ("tag", &tag)]);
        assert_eq!(matched(&config, &other, 1).enforced().count(), 0, "{text:?}");
    }
}

/// As in Flask-Limiter, and from one variable.
#[test]
fn one_text_may_be_several_quotas() {
    let quotas = |written: &str| {
        let text = format!("policies: [{{ name: a, key: global, quotas: {written} }}]");
        let config = Config::parse_with("t", &text, &|_| Some("10/minute;100/hour".to_owned())).unwrap();
        let quotas = config.policies().as_slice()[0].quotas().iter();
        quotas.map(|quota| quota.quota().to_string()).collect::<Vec<_>>()
    };
    for written in ["10/minute;100/hour", "\"${V}\"", "[\"${V}\"]", "[10-M, 100 per hour]", "\"10/m, 100/h\""]
    {
        assert_eq!(quotas(written), ["10/1m", "100/1h"], "{written}");
    }
}

#[test]
fn a_variable_is_a_value_where_words_numbers_and_lists_stand() {
    let config = Config::parse_with(
        "t",
        "mode: ${MODE}
policies: [{ name: a, key: \"${KEY}\", quotas: [\"${LIMIT}/1m\"], enabled: \"${ON}\", deny_status: \"${STATUS}\" }]",
        &|name| {
            let values = [("MODE", "shadow"), ("KEY", "global"), ("LIMIT", "7"), ("ON", "true"), ("STATUS", "403")];
            values.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
        },
    )
    .unwrap_or_else(|error| panic!("{error}"));
    let [policy] = config.policies().as_slice() else { panic!("one policy") };
    assert_eq!(
        (policy.mode(), policy.deny_status(), policy.quotas()[0].quota().limit()),
        (Mode::Shadow, 403, 7)
    );

    let list = "policies: [{ name: a, key: global, quotas: \"${V}\" }]";
    let error = Config::parse_with("t", list, &|_| Some("[5/1m]".to_owned())).unwrap_err();
    assert_eq!(error.to_string(), "t:1:44: expected a quota such as 5/1m, found `${V}`");
}

#[test]
fn an_address_is_grouped_and_folded_in_keys() {
    let config = config("policies: [{ name: a, key: [{ address: client, ipv6: 56 }], quotas: [1/1m] }]");
    let clock = ManualClock::default();
    clock.advance(Duration::from_secs(1));
    let store = MemoryStore::builder().clock(clock).build();
    let admitted = |client| {
        let attributes = attributes(&[("client", client)]);
        let matched = matched(&config, &attributes, 1);
        let charges: Vec<Charge<'_>> = matched.enforced().collect();
        store.take(Step::Charge(&charges)).unwrap().is_admitted()
    };
    assert!(admitted("192.0.2.1") && !admitted("::ffff:192.0.2.1") && admitted("192.0.2.2"));
    assert!(admitted("2001:db8::1") && !admitted("2001:db8:0:ff::1") && admitted("2001:db8:0:100::1"));
}

#[test]
fn the_attributes_of_policies_are_known_before_any_request() {
    let config = config(
        "
policies:
  - name: a
    match: { path: /a, tenant: { not: x } }
    key: { first_of: [user, [ip, device]] }
    cost: { attribute: units, max: 9 }
    quotas: [1/1m]
    overrides: [{ when: { plan: pro }, quotas: [2/1m] }]
  - { name: b, match: { path: /b, vip: { present: true } }, exempt: true }
",
    );
    let names = ["device", "ip", "path", "plan", "tenant", "units", "user", "vip"];
    assert!(config.policies().attributes().into_iter().eq(names));
}

/// A request on the list of the denied got the status of a quota without room.
#[test]
fn a_policy_made_in_code_to_deny_says_so() {
    let forbidden = Policy::builder("d").deny().build().unwrap();
    let chosen = Policy::builder("d").deny().deny_status(451).build().unwrap();
    assert_eq!((forbidden.deny_status(), chosen.deny_status()), (403, 451));
}
