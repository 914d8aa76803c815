//! Which values policies ask for, and when.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use tollgate_policy::{Attributes, Config, Outcome, Policies, Refusal, Texts, UnknownValue, View};

/// A request that looks up some of its values on demand.
struct Lazy<'a> {
    values: BTreeMap<&'a str, &'a str>,
    /// The values that are not known, and why.
    unknown: BTreeMap<&'a str, UnknownValue>,
    is_verified: bool,
}

impl View for Lazy<'_> {
    fn value(&self, name: &str) -> Result<Option<Texts<'_>>, UnknownValue> {
        match self.unknown.get(name) {
            Some(unknown) => Err(*unknown),
            None => Ok(self.values.get(name).map(|text| Texts::One(text))),
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().copied()
    }

    fn is_verified(&self, _: &str) -> bool {
        self.is_verified
    }
}

/// Plays a request that finds these values on demand, unless they are wrong. Returns its outcome, and the names that
/// were asked for.
fn play<'a>(
    policies: &Policies,
    values: &[(&'a str, &'a str)],
    lazy: &[&'a str],
    wrong: &[&str],
) -> (Result<String, Refusal>, Vec<Box<str>>) {
    let values: BTreeMap<_, _> = values.iter().copied().collect();
    let unknown = lazy.iter().map(|name| (*name, UnknownValue::NotYet)).collect();
    let mut view = Lazy { values, unknown, is_verified: true };
    let mut asked = Vec::new();
    loop {
        let outcome = policies.charges(&view, 1).map(|outcome| said(&outcome));
        let Err(Refusal::Undecided { attribute, unknown: UnknownValue::NotYet }) = outcome else {
            return (outcome, asked);
        };
        if wrong.contains(&&*attribute) {
            *view.unknown.get_mut(&*attribute).unwrap() = UnknownValue::Wrong;
        } else {
            assert!(view.unknown.remove(&*attribute).is_some(), "`{attribute}` is known");
        }
        asked.push(attribute);
    }
}

/// Returns an outcome as a text for comparison.
fn said(outcome: &Outcome<'_>) -> String {
    match outcome {
        Outcome::Exempt(policy) => format!("exempt by {}", policy.name()),
        Outcome::Charge(matched) => {
            let all = matched
                .enforced()
                .chain(matched.trials().flat_map(|trial| trial.charges().collect::<Vec<_>>()));
            let charges = all.map(|charge| {
                let counter = charge.counter();
                format!(
                    "{} of {:?} for {:?}",
                    charge.cost(),
                    counter.quota(),
                    counter.key().canonical_bytes()
                )
            });
            charges.collect::<Vec<_>>().join("; ")
        }
        other => format!("{other:?}"),
    }
}

fn policies(text: &str) -> Policies {
    Config::parse("view.yaml", &format!("policies:\n{text}")).unwrap().into_policies()
}

/// A layer verified the tokens of all requests, so a health check with an expired token was answered 401.
#[test]
fn an_exempt_request_is_asked_for_nothing() {
    let policies = policies(
        "
  - { name: staff, match: { plan: staff }, exempt: true }
  - { name: health, match: { path: /healthz }, exempt: true }
  - { name: each, key: [user], quotas: [5/1m] }",
    );
    let values = [("path", "/healthz"), ("plan", "free"), ("user", "alice")];
    let (outcome, asked) = play(&policies, &values, &["plan", "user"], &["plan", "user"]);
    assert_eq!((outcome.unwrap().as_str(), asked), ("exempt by health", vec![]));

    let values = [("path", "/search"), ("plan", "staff"), ("user", "alice")];
    let (outcome, asked) = play(&policies, &values, &["plan", "user"], &["user"]);
    assert_eq!((outcome.unwrap().as_str(), asked), ("exempt by staff", vec!["plan".into()]));
}

#[test]
fn a_policy_that_another_condition_excludes_asks_for_nothing() {
    let policies = policies(
        "
  - { name: gold, match: { plan: gold, path: /search }, key: [user], quotas: [9/1m] }
  - { name: none, match: { user: { absent: true }, path: /login }, key: global, quotas: [7/1m] }
  - { name: ways, match: { user: alice, any: [{ path: /x }, { path: /y, plan: gold }] }, key: global, quotas: [8/1m] }
  - name: address
    key: [ip]
    quotas: [5/1m]
    overrides: [{ when: { plan: gold, path: { prefix: /s } }, quotas: [6/1m] }]
    cost: { attribute: units, max: 9 }",
    );
    let lazy = ["plan", "user"];
    for (path, asked) in [("/", &[][..]), ("/login", &["user"]), ("/static", &["plan"]), ("/search", &lazy)] {
        let values =
            [("path", path), ("ip", "192.0.2.7"), ("plan", "gold"), ("user", "alice"), ("units", "3")];
        let (outcome, names) = play(&policies, &values, &lazy, &[]);
        assert_eq!(names, asked.iter().map(|name| Box::<str>::from(*name)).collect::<Vec<_>>(), "{path}");
        let all: Attributes<'_> = values.into_iter().collect();
        assert_eq!(outcome.unwrap(), said(&policies.charges(&all, 1).unwrap()), "{path}");
    }
}

/// With an expired token, the key `[user, tenant]` was refused, and `[tenant, user]` was skipped.
#[test]
fn a_key_that_lacks_a_part_is_missing_whatever_its_other_parts_are() {
    for key in ["[user, tenant]", "[tenant, user]", "{ first_of: [[user, tenant], [tenant, user]] }"] {
        let policies =
            policies(&format!("  - {{ name: each, key: {key}, on_missing_key: skip, quotas: [5/1m] }}"));
        let (found, _) = play(&policies, &[], &["user", "tenant"], &["user"]);
        assert_eq!(found, Ok(String::new()), "{key}");
        let (found, asked) = play(&policies, &[], &["user"], &[]);
        assert_eq!((found, asked), (Ok(String::new()), vec![]), "{key}: no token is verified in vain");
        let (found, _) = play(&policies, &[("tenant", "acme")], &["user"], &["user"]);
        let wrong = Refusal::Undecided { attribute: "user".into(), unknown: UnknownValue::Wrong };
        assert_eq!(found, Err(wrong), "{key}");
    }
}

/// A wrong value never counts as missing; otherwise `first_of` would count its sender as another client.
#[test]
fn a_wrong_value_refuses_a_request_only_if_it_matters() {
    let policies = policies(
        "
  - { name: each, match: { path: /search }, key: { first_of: [user, ip] }, quotas: [5/1m] }
  - { name: tried, mode: shadow, key: [user], quotas: [5/1m] }
  - { name: seen, mode: shadow, match: { user: { present: true } }, key: global, quotas: [5/1m] }",
    );
    let wrong = Refusal::Undecided { attribute: "user".into(), unknown: UnknownValue::Wrong };
    let values = [("path", "/search"), ("ip", "192.0.2.7"), ("user", "alice")];
    assert_eq!(play(&policies, &values, &["user"], &["user"]).0, Err(wrong));

    let values = [("path", "/"), ("ip", "192.0.2.7"), ("user", "alice")];
    assert_eq!(play(&policies, &values, &["user"], &["user"]).0.unwrap(), "", "a trial lets no request fail");
    assert_ne!(play(&policies, &values, &["user"], &[]).0.unwrap(), "");
}

#[test]
fn the_cost_is_only_read_if_a_policy_charges() {
    let policies = policies(
        "
  - { name: health, match: { path: /healthz }, exempt: true }
  - { name: tokens, key: global, quotas: [500/1m], cost: { attribute: tokens, max: 100 } }",
    );
    let asked = |path| play(&policies, &[("path", path), ("tokens", "7")], &["tokens"], &[]).1.len();
    assert_eq!((asked("/healthz"), asked("/search")), (0, 1));
    let wrong = play(&policies, &[("path", "/search"), ("tokens", "7")], &["tokens"], &["tokens"]).0;
    assert_eq!(wrong, Err(Refusal::Undecided { attribute: "tokens".into(), unknown: UnknownValue::Wrong }));
}

/// Services answer HEAD as they answer GET, so HEAD bypassed every policy that named GET.
#[test]
fn head_counts_as_get_and_as_head() {
    let text = "
  - { name: get, match: { method: GET }, key: global, quotas: [5/1m] }
  - { name: head, match: { method: HEAD }, key: global, quotas: [5/1m] }
  - { name: not-get, match: { method: { not: GET } }, key: global, quotas: [5/1m] }
  - { name: not-head, match: { method: { not: HEAD } }, key: global, quotas: [5/1m] }
  - { name: prefix, match: { method: { prefix: GE } }, key: global, quotas: [5/1m] }
  - { name: glob, match: { method: [\"?ET\", PUT] }, key: global, quotas: [5/1m] }
  - { name: other, match: { verb: GET }, key: global, quotas: [5/1m] }
";
    let policies = policies(text);
    let matching = |name, method| {
        let attributes: Attributes<'_> = [(name, method)].into_iter().collect();
        policies.matching(&attributes).map(|policy| policy.name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(matching("method", "HEAD"), ["get", "head", "prefix", "glob"]);
    assert_eq!(matching("method", "GET"), ["get", "not-head", "prefix", "glob"]);
    assert_eq!(matching("method", "PUT"), ["not-get", "not-head", "glob"]);
    assert_eq!(matching("verb", "GET"), ["not-get", "not-head", "other"]);
    assert_eq!(matching("verb", "HEAD"), ["not-get", "not-head"], "another attribute is what it says");
}

#[test]
fn as_a_part_of_a_key_head_counts_as_get() {
    let policies = policies("  - { name: each, key: [method, verb], quotas: [5/1m] }");
    let key = |method, verb| {
        let attributes: Attributes<'_> = [("method", method), ("verb", verb)].into_iter().collect();
        said(&policies.charges(&attributes, 1).unwrap())
    };
    assert_eq!(key("HEAD", "x"), key("GET", "x"));
    assert_ne!(key("HEAD", "x"), key("PUT", "x"));
    assert_ne!(key("GET", "HEAD"), key("GET", "GET"));
}

/// A policy did not match if the client spelt a path in another way, or connected by IPv6 to a listener for both.
#[test]
fn a_path_and_an_address_have_one_spelling() {
    let policies = policies(
        "
  - { name: login, match: { path: /login }, key: [path, { attribute: ip }], quotas: [5/1m] }
  - { name: host, match: { ip: 192.0.2.7 }, key: global, quotas: [5/1m] }
  - { name: note, match: { note: //login }, key: global, quotas: [5/1m] }",
    );
    let end = |path, ip| {
        let attributes: Attributes<'_> = [("path", path), ("ip", ip)].into_iter().collect();
        said(&policies.charges(&attributes, 1).unwrap())
    };
    let plain = end("/login", "192.0.2.7");
    assert_eq!(plain.matches("1 of").count(), 2, "{plain}");
    for path in ["//login", "/%6cogin", "/x/../login", "/./login"] {
        for ip in ["::ffff:192.0.2.7", "::FFFF:C000:207", "64:ff9b::192.0.2.7"] {
            assert_eq!(end(path, ip), plain, "{path} {ip}");
        }
    }
    assert_ne!(end("/login/", "192.0.2.7"), plain);

    let mut pushed = Attributes::default();
    pushed.push("path", "//login");
    pushed.push("note", "//login");
    assert_eq!(pushed.value("path"), Some("/login".into()));
    assert_eq!(pushed.value("note"), Some("//login".into()));
}

/// A list is tested by its items, and is never a key: the key would depend on their order.
#[test]
fn a_test_holds_of_a_list_if_it_holds_of_one_of_its_texts() {
    let holds = |name: &str, test: &str, list: &[&str]| {
        let policies =
            policies(&format!("  - {{ name: a, match: {{ {name}: {test} }}, key: global, quotas: [5/1m] }}"));
        let mut attributes = Attributes::default();
        attributes.push(name.to_owned(), list.to_vec());
        policies.matching(&attributes).next().is_some()
    };
    let roles = &["admin", "staff-7", "10.0.0.1"];
    for test in [
        "admin",
        "[root, admin]",
        "{ prefix: staff }",
        "{ glob: \"st*-?\" }",
        "{ regex: \"staff-[0-9]+\" }",
        "{ one_of: ADMIN, ignore_case: true }",
        "{ cidr: 10.0.0.0/8 }",
        "\"*\"",
        "{ not: root }",
        "{ equal: admin, prefix: staff }",
    ] {
        assert!(holds("roles", test, roles), "{test}");
    }
    for test in
        ["root", "{ regex: \"staff\" }", "{ not: admin }", "{ not: { prefix: staff } }", "{ present: true }"]
    {
        assert!(!holds("roles", test, roles), "{test}");
    }
    // No key can use it.
    assert!(holds("roles", "{ absent: true }", roles) && holds("roles", "{ absent: true }", &["admin"]));
    // For the service an empty list was a value, and for the middleware it was none.
    assert!(holds("roles", "{ absent: true }", &[]) && holds("roles", "{ not: a }", &[]));
    assert!(!holds("roles", "{ present: true }", &[]));
    assert!(!holds("roles", "\"*\"", &[]), "no text of it fits");
    // A list does not bypass the normalization of its texts.
    assert!(holds("method", "GET", &["HEAD"]) && holds("path", "/login", &["//x/../login"]));
    assert!(holds("ip", "192.0.2.7", &["::ffff:192.0.2.7"]));
}

#[test]
fn a_list_is_no_part_of_a_key_and_no_cost() {
    let ask = |text: &str, list: &[&str]| {
        let policies = policies(text);
        let mut attributes: Attributes<'_> = [("ip", "192.0.2.7")].into_iter().collect();
        attributes.push("roles", list.to_vec());
        policies.charges(&attributes, 1).map(|outcome| said(&outcome)).map_err(|refusal| refusal.to_string())
    };
    let nobody = Err("policy `a`: the request has no key: `roles` is a list".to_owned());
    let none = Err("policy `a`: the request has no key: `roles` is missing".to_owned());
    for (list, nobody) in [(&["admin", "staff"][..], &nobody), (&["admin"], &nobody), (&[], &none)] {
        assert_eq!(&ask("  - { name: a, key: [ip, roles], quotas: [5/1m] }", list), nobody);
        assert_eq!(
            ask("  - { name: a, key: [roles], on_missing_key: skip, quotas: [5/1m] }", list),
            Ok(String::new())
        );
        assert!(ask("  - { name: a, key: { first_of: [roles, ip] }, quotas: [5/1m] }", list).is_ok());
    }
    let cost =
        ask("  - { name: a, key: global, quotas: [5/1m], cost: { attribute: roles, max: 9 } }", &["3"]);
    assert_eq!(
        cost.unwrap_err(),
        "policy `a`: the attribute `roles` sets the cost and must be a whole number"
    );
    // Of a list, the first text that is in the table counts.
    let table = "  - { name: a, key: [ip], quotas: [5/1m], overrides: { by: roles, values: { b: [6/1m], c: [7/1m] } } }";
    for (list, quota) in
        [(&["a", "c", "b"][..], "7/1m"), (&["b", "c"], "6/1m"), (&["a"], "5/1m"), (&[], "5/1m")]
    {
        assert!(ask(table, list).unwrap().contains(quota), "{list:?}");
    }
}

/// A client that can invent the attribute could choose its own limit.
#[test]
fn only_a_verified_attribute_says_a_limit_and_is_asked_for_late() {
    let text = "
  - { name: a, match: { path: /a }, key: [user], quotas: [{ limit: { attribute: quota, on_missing: 3 }, max: 9, window: 1m }] }
  - { name: b, match: { path: /b }, key: [user], quotas: [5/1m], candidate: [{ limit: { attribute: quota }, max: 9, window: 1m }] }";
    let policies = policies(text);
    let values = |path| [("path", path), ("user", "alice"), ("quota", "7")];
    let known =
        |path| said(&policies.charges(&values(path).into_iter().collect::<Attributes<'_>>(), 1).unwrap());
    assert!(known("/a").contains("7/1m") && known("/b").contains("7/1m"));
    for path in ["/a", "/b"] {
        let (found, asked) = play(&policies, &values(path), &["quota"], &[]);
        assert_eq!((found.unwrap(), asked), (known(path), vec!["quota".into()]), "{path}");
    }
    let wrong = Refusal::Undecided { attribute: "quota".into(), unknown: UnknownValue::Wrong };
    assert_eq!(play(&policies, &values("/a"), &["quota"], &["quota"]).0, Err(wrong));
    assert!(!play(&policies, &values("/b"), &["quota"], &["quota"]).0.unwrap().contains("7/1m"));

    let mut view =
        Lazy { values: values("/a").into_iter().collect(), unknown: BTreeMap::new(), is_verified: false };
    let refused = policies.charges(&view, 1).unwrap_err().to_string();
    assert_eq!(
        refused,
        "policy `a`: the attribute `quota` sets the limit, but the client could invent its value"
    );
    view.values.insert("path", "/b");
    assert!(!said(&policies.charges(&view, 1).unwrap()).contains("7/1m"), "a trial is left out");
    view.values.insert("path", "/a");
    view.values.remove("quota");
    assert!(policies.charges(&view, 1).is_err(), "left away, it would be a way to another limit as well");
    assert!(policies.attributes().contains("quota"));
}

/// The outcome does not depend on what is found late, and nothing is asked for twice.
#[test]
fn values_that_are_found_late_change_nothing() {
    let mut text = String::new();
    let mut number = 0;
    let mut add = |rest: &str| {
        text += &format!("  - {{ name: p{number}, {rest} }}\n");
        number += 1;
    };
    for a in ["a: \"1\"", "a: { absent: true }", "a: { not: \"1\" }"] {
        for b in ["b: \"2\"", "b: \"*\"", "c: [\"1\", \"2*\"]"] {
            add(&format!("match: {{ {a}, {b} }}, key: [b], on_missing_key: skip, quotas: [5/1m]"));
            add(&format!(
                "match: {{ {a} }}, key: {{ first_of: [c, a] }}, on_missing_key: deny, quotas: [5/1m]"
            ));
            add(&format!("mode: shadow, match: {{ {b} }}, key: [a, c], quotas: [5/1m]"));
        }
    }
    add("match: { a: \"3\", c: \"3\" }, exempt: true");
    add("match: { any: [{ a: \"2\", b: \"1\" }, { b: \"2\", c: \"2\" }] }, exempt: true");
    add("match: { b: [\"1\", \"3\"], any: [{ a: \"1\" }, { c: \"3\" }] }, key: global, quotas: [7/1m]");
    let policies = policies(&text);
    let ends = RefCell::new(BTreeSet::new());
    for request in 0..4_u32.pow(3) {
        let digits =
            ["a", "b", "c"].into_iter().enumerate().map(|(place, name)| (name, request >> (2 * place) & 3));
        let values: Vec<(&str, &str)> = digits
            .filter(|(_, digit)| *digit > 0)
            .map(|(name, digit)| (name, ["", "1", "2", "3"][digit as usize]))
            .collect();
        let all: Attributes<'_> = values.iter().copied().collect();
        let end = policies.charges(&all, 1).map(|outcome| said(&outcome));
        for lazy in 0..8_u32 {
            let names: Vec<&str> = ["a", "b", "c"]
                .into_iter()
                .enumerate()
                .filter(|(place, _)| lazy >> place & 1 == 1)
                .map(|it| it.1)
                .collect();
            let (found, asked) = play(&policies, &values, &names, &[]);
            assert_eq!(found, end, "{values:?} {names:?}");
            assert!(
                asked.iter().collect::<BTreeSet<_>>().len() == asked.len(),
                "{values:?} {names:?} {asked:?}"
            );
        }
        ends.borrow_mut().insert(end.ok());
    }
    assert!(ends.borrow().len() > 10, "the requests differ");
}

/// The order of two policies decided whether a wrong value made the request an error.
#[test]
fn a_wrong_value_hides_none_that_can_be_found() {
    let exempt = [
        "{ name: a, match: { user: bot }, exempt: true }",
        "{ name: b, match: { session: s }, exempt: true }",
    ];
    let counted = "{ name: c, key: global, quotas: [5/1m] }";
    let lines = ["user: alice", "session: s"];
    for [first, second] in [[0, 1], [1, 0]] {
        let texts = [
            (format!("policies: [{}, {}, {counted}]", exempt[first], exempt[second]), "s", "exempt by b"),
            (
                format!(
                    "policies: [{{ name: d, match: {{ {}, {} }}, exempt: true }}]",
                    lines[first], lines[second]
                ),
                "other",
                "",
            ),
            (
                format!(
                    "policies: [{{ name: d, match: {{ any: [{{ {} }}, {{ {} }}] }}, exempt: true }}]",
                    lines[first], lines[second]
                ),
                "s",
                "exempt by d",
            ),
        ];
        for (text, session, expected) in texts {
            let config = Config::parse("tollgate.yaml", &text).unwrap();
            let (end, _) = play(config.policies(), &[("session", session)], &["user", "session"], &["user"]);
            assert_eq!(end.unwrap(), expected, "{text}");
        }
    }
}

/// A list in shadow mode failed a request if it needed a value that was wrong.
#[test]
fn lists_in_shadow_mode_let_no_request_fail() {
    for list in ["allow", "deny"] {
        let text = format!("mode: shadow\n{list}: {{ user: bot }}\npolicies: []");
        let config = Config::parse("tollgate.yaml", &text).unwrap();
        let (end, _) = play(config.policies(), &[], &["user"], &["user"]);
        assert_eq!(end.unwrap(), "", "{list}");
    }
}
