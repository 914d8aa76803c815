//! Conditions and keys are printed in the notation of a file.

use proptest::prelude::*;
use tollgate_policy::{Condition, Config, Policy};

fn policy(text: &str) -> Policy {
    let config = Config::parse("written.yaml", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    config.policies().as_slice()[0].clone()
}

fn conditions(text: &str) -> Vec<Condition> {
    policy(&format!("policies: [{{ name: a, match: {{ {text} }}, exempt: true }}]"))
        .conditions()
        .all()
        .to_vec()
}

/// `explain` printed `[/api/*, { absent: true }]` for tests that all have to hold; in a file, this means any of them.
/// It also printed a literal star in a text as a wildcard.
#[test]
fn a_condition_is_printed_in_the_notation_of_a_file() {
    for (written, printed) in [
        ("path: { not: { prefix: /a, not: /a/b } }", "path: { not: { prefix: /a, not: /a/b } }"),
        (
            "path: { not: { prefix: /a, glob: '*.css', present: true } }",
            "path: { not: { prefix: /a, glob: \"*.css\", present: true } }",
        ),
        ("path: { not: [/a, /b] }", "path: { not: [/a, /b] }"),
        ("path: { equal: 'a*' }", "path: { equal: a* }"),
        ("path: { prefix: 'a*' }", "path: { prefix: a* }"),
        ("path: { prefix: /api/ }", "path: /api/*"),
        ("path: [/a, '', 'b, c']", "path: [/a, \"\", \"b, c\"]"),
        ("path: '$${X}'", "path: \"$${X}\""),
        ("ip: { cidr: ['2001:db8::/32', 10.0.0.0/8] }", "ip: { cidr: [\"2001:db8::/32\", 10.0.0.0/8] }"),
        ("ip: { absent: true }", "ip: { absent: true }"),
        ("plan: { regex: 'v[0-9]+' }", "plan: { regex: \"v[0-9]+\" }"),
        (
            "plan: { one_of: [Gold, 'Plat*'], ignore_case: true }",
            "plan: { one_of: [gold, plat*], ignore_case: true }",
        ),
        (
            "plan: { not: { equal: A, regex: b, ignore_case: true } }",
            "plan: { not: { equal: a, regex: b, ignore_case: true } }",
        ),
    ] {
        let [condition] = <[Condition; 1]>::try_from(conditions(written)).unwrap();
        assert_eq!(condition.to_string(), printed);
    }
}

#[test]
fn alternatives_are_printed_as_they_are_written() {
    for written in [
        "{ path: /api/*, any: [{ user: a }, { plan: [b, c], method: POST }] }",
        "{ any: [{ path: { not: /a } }] }",
        "{ path: /a }",
    ] {
        let policy = policy(&format!("policies: [{{ name: a, match: {written}, exempt: true }}]"));
        assert_eq!(policy.conditions().to_string(), written);
    }
}

#[test]
fn a_quota_is_printed_as_it_is_written() {
    for quota in [
        "5/1m@first_hit",
        "{ limit: { attribute: quota }, max: 10000, window: 1h }",
        "{ limit: { attribute: quota }, max: 10000, window: 1h~burst:5 }",
        "{ limit: { attribute: \"a, b\", on_missing: 0 }, max: 5, window: day@Europe/Berlin }",
    ] {
        let policy = policy(&format!(
            "policies: [{{ name: a, key: global, quotas: [{quota}], candidate: [{quota}] }}]"
        ));
        assert_eq!(policy.quota_specs().map(|rule| rule.to_string()).collect::<Vec<_>>(), [quota]);
        assert_eq!(policy.candidate_specs().map(|rule| rule.to_string()).collect::<Vec<_>>(), [quota]);
    }
}

/// The limit of an attribute was taken for a tier there, although the schema allows it in place of a list.
#[test]
fn a_quota_alone_stands_for_a_list_of_it() {
    for quota in ["5/1m", "{ limit: { attribute: quota }, max: 10, window: 1h }"] {
        let with = |quotas: &str| {
            let overrides =
                format!("overrides: [{{ when: {{ plan: gold }}, quotas: {quotas}, candidate: {quotas} }}]");
            policy(&format!(
                "policies: [{{ name: a, key: global, quotas: {quotas}, candidate: {quotas}, {overrides} }}]"
            ))
        };
        let (alone, listed) = (with(quota), with(&format!("[{quota}]")));
        let rules = |policy: &Policy| {
            let override_specs =
                policy.overrides().iter().flat_map(|over| over.quota_specs().chain(over.candidate_specs()));
            let rules = policy.quota_specs().chain(policy.candidate_specs()).chain(override_specs);
            rules.map(|rule| rule.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(rules(&alone), rules(&listed));
        assert_eq!(rules(&alone), [quota; 4]);
    }
}

/// A key of the plain value of `ip` was printed as `ip`, which means the network of an address.
#[test]
fn a_key_is_printed_in_the_notation_of_a_file() {
    for key in [
        "ip",
        "{ attribute: ip }",
        "{ attribute: global }",
        "global",
        "user",
        "\"a, b\"",
        "{ address: client }",
        "{ address: ip, ipv4: 24, ipv6: 56 }",
        "[user, { first_of: [{ attribute: ip }, ip] }]",
    ] {
        let of = |key: &str| {
            let policy = policy(&format!("policies: [{{ name: a, key: {key}, quotas: [5/1m] }}]"));
            policy.identity().clone()
        };
        assert_eq!(of(key).to_string(), key);
        assert_eq!(of(&of(key).to_string()), of(key));
    }
}

fn text() -> impl Strategy<Value = String> + Clone {
    let characters =
        &['a', '/', '*', '?', '"', '\\', '\'', '$', '{', '}', ':', ',', ' ', '#', '\n', '\u{7}', '-', 'é'];
    prop::collection::vec(prop::sample::select(&characters[..]), 1..6).prop_map(String::from_iter)
}

/// Generates a test in its written form. Its texts have JSON's quotes, which are valid YAML.
fn test() -> impl Strategy<Value = String> {
    let quoted = || text().prop_map(|text| serde_json::Value::from(text.replace("${", "$${")).to_string());
    let texts =
        |least| prop::collection::vec(quoted(), least..4).prop_map(|texts| format!("[{}]", texts.join(", ")));
    let leaf = prop_oneof![
        quoted(),
        texts(1),
        quoted().prop_map(|text| format!("{{ equal: {text} }}")),
        quoted().prop_map(|text| format!("{{ prefix: {text} }}")),
        (texts(2), quoted()).prop_map(|(texts, text)| format!(
            "{{ one_of: {texts}, glob: {} }}",
            text.replacen('"', "\"?", 1)
        )),
        Just("{ cidr: 10.0.0.0/8, present: true }".to_owned()),
    ];
    leaf.prop_recursive(2, 4, 2, move |test| {
        (test, quoted()).prop_map(|(test, text)| format!("{{ prefix: {text}, not: {test} }}"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_condition_that_is_read_as_it_is_printed_is_the_same(test in test()) {
        for condition in conditions(&format!("path: {{ not: {test} }}")) {
            prop_assert_eq!(conditions(&condition.to_string()), [condition]);
        }
    }
}
