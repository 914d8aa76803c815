//! The generation of domains: the same for the same limits, and another for each difference.

use std::collections::BTreeSet;

use tollgate::{LocalShare, OnStoreFailure};
use tollgate_envoy::{ChargingMode, Domains, HeaderNames, NearLimit, SameDomain, Settings};
use tollgate_policy::{Generation, Sources};

fn generation(texts: &[&str]) -> Generation {
    let named = texts.iter().zip(["a.yaml", "b.yaml", "c.yaml"]);
    let sources = named.fold(Sources::default(), |sources, (text, name)| sources.and(name, *text));
    let domains = Domains::parse(&sources, SameDomain::Merge);
    domains.unwrap_or_else(|error| panic!("{texts:?}\n{error}")).generation()
}

/// A domain with this descriptor.
fn of_descriptor(descriptor: &str) -> Generation {
    generation(&[&format!("domain: d\ndescriptors: [{{ {descriptor} }}]\n")])
}

/// Keys of the file, and two descriptors that differ in nothing but their value.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    (
        "key",
        "key: a, rate_limit: { unit: day, requests_per_unit: 5 }",
        "key: b, rate_limit: { unit: day, requests_per_unit: 5 }",
    ),
    ("value", "key: a, value: x", "key: a, value: y"),
    ("value", "key: a", "key: a, value: x"),
    ("rate_limit", "key: a", "key: a, rate_limit: { unlimited: true }"),
    ("descriptors", "key: a", "key: a, descriptors: [{ key: b }]"),
    (
        "descriptors",
        "key: a, descriptors: [{ key: b }, { key: c }]",
        "key: a, descriptors: [{ key: b, descriptors: [{ key: c }] }]",
    ),
    (
        "shadow_mode",
        "key: a, rate_limit: { unlimited: true }",
        "key: a, rate_limit: { unlimited: true }, shadow_mode: true",
    ),
    (
        "quota_mode",
        "key: a, rate_limit: { unlimited: true }",
        "key: a, rate_limit: { unlimited: true }, quota_mode: true",
    ),
    (
        "detailed_metric",
        "key: a, rate_limit: { unlimited: true }",
        "key: a, rate_limit: { unlimited: true }, detailed_metric: true",
    ),
    ("value_to_metric", "key: a", "key: a, value_to_metric: true"),
    ("share_threshold", "key: a, value: x*", "key: a, value: x*, share_threshold: true"),
    (
        "metadata",
        "key: a, rate_limit: { unlimited: true }, metadata: { x: 1 }",
        "key: a, rate_limit: { unlimited: true }, metadata: { x: '1' }",
    ),
    (
        "metadata",
        "key: a, rate_limit: { unlimited: true }, metadata: { x: [1, 2] }",
        "key: a, rate_limit: { unlimited: true }, metadata: { x: [2, 1] }",
    ),
    (
        "unit",
        "key: a, rate_limit: { unit: day, requests_per_unit: 5 }",
        "key: a, rate_limit: { unit: week, requests_per_unit: 5 }",
    ),
    (
        "requests_per_unit",
        "key: a, rate_limit: { unit: day, requests_per_unit: 5 }",
        "key: a, rate_limit: { unit: day, requests_per_unit: 6 }",
    ),
    (
        "unlimited",
        "key: a, rate_limit: { unit: day, requests_per_unit: 5 }",
        "key: a, rate_limit: { unlimited: true }",
    ),
    (
        "overdraft",
        "key: a, rate_limit: { unit: day, requests_per_unit: 5 }",
        "key: a, rate_limit: { unit: day, requests_per_unit: 5, overdraft: true }",
    ),
    (
        "name",
        "key: a, rate_limit: { unlimited: true, name: n }",
        "key: a, rate_limit: { unlimited: true, name: m }",
    ),
    (
        "replaces",
        "key: a, rate_limit: { unlimited: true, replaces: [{ name: n }] }",
        "key: a, rate_limit: { unlimited: true, replaces: [{ name: m }] }",
    ),
];

#[test]
fn every_key_of_a_descriptor_makes_a_difference() {
    for (key, before, after) in DIFFERENCES {
        assert_ne!(of_descriptor(before), of_descriptor(after), "{key}: {before} and {after}");
    }
    assert_ne!(generation(&["domain: d"]), generation(&["domain: e"]));
    assert_ne!(generation(&["domain: d"]), generation(&[]));
}

/// A key without an example above would be forgotten quietly.
#[test]
fn every_key_of_a_descriptor_has_an_example() {
    let file = include_str!("../../src/file/mod.rs");
    let sections = file.split("section! {").skip(1).filter(|section| !section.contains("RawFile"));
    let keys =
        sections.flat_map(|section| section.split_once("\n}\n").unwrap().0.lines()).filter_map(|line| {
            let (key, kind) = line.trim().strip_prefix('"')?.split_once('"')?;
            kind.contains(':').then_some(key)
        });
    let examples: BTreeSet<&str> = DIFFERENCES.iter().map(|(key, ..)| *key).collect();
    assert_eq!(examples, keys.collect());
}

#[test]
fn the_same_limits_have_the_same_generation_wherever_they_stand() {
    let (user, path) = (
        "{ key: user, rate_limit: { unit: day, requests_per_unit: 5 } }",
        "{ key: path, value: /a, shadow_mode: true, rate_limit: { unit: hour, requests_per_unit: 7 } }",
    );
    let of = |name: &str, descriptors: &[&str]| {
        format!("domain: {name}\ndescriptors: [{}]\n", descriptors.join(", "))
    };
    let (first, other) = (of("d", &[user, path]), of("e", &[user]));
    let one = generation(&[&first, &other]);
    assert_eq!(one, generation(&[&other, &first]));
    assert_eq!(one, generation(&[&other, &of("d", &[path, user])]));
    assert_eq!(one, generation(&[&of("d", &[path]), &other, &of("d", &[user])]));
    assert_ne!(one, generation(&[&of("d", &[user]), &of("e", &[user, path])]));
    assert_eq!(
        of_descriptor("key: a, rate_limit: { unlimited: true }, metadata: { x: 1, y: { z: null, w: true } }"),
        of_descriptor("key: a, rate_limit: { unlimited: true }, metadata: { y: { w: true, z: null }, x: 1 }"),
    );
}

#[test]
fn settings_that_decide_make_a_difference() {
    let domains = Domains::default();
    let generation = |settings: &Settings, failure| domains.generation_under(settings, failure);
    let usual = Settings::default();
    let headers = HeaderNames::default();
    let others = [
        usual.clone(),
        Settings { charging: ChargingMode::Each, ..usual.clone() },
        Settings { shadow_mode: true, ..usual.clone() },
        Settings { quota_mode: true, ..usual.clone() },
        Settings { headers: Some(headers.clone()), ..usual.clone() },
        Settings { headers: Some(HeaderNames { limit: "X-Limit".into(), ..headers }), ..usual.clone() },
        Settings { dynamic_metadata: true, ..usual.clone() },
        Settings { max_value_bytes: Some(9), ..usual.clone() },
    ];
    let under_settings = others.iter().map(|settings| generation(settings, OnStoreFailure::Closed));
    let share = |text: &str| OnStoreFailure::Local(text.parse::<LocalShare>().unwrap());
    let failures = [OnStoreFailure::Open, share("1/2"), share("1/3")];
    let after_failures = failures.map(|failure| generation(&usual, failure));
    let all: BTreeSet<Generation> = under_settings.chain(after_failures).collect();
    assert_eq!(all.len(), others.len() + failures.len());

    let with_metrics = Settings { hits: Some(NearLimit(0.5)), ..usual.clone() };
    assert_eq!(generation(&with_metrics, OnStoreFailure::Closed), generation(&usual, OnStoreFailure::Closed));
    assert_ne!(generation(&usual, OnStoreFailure::Closed), domains.generation());
}

#[test]
fn the_order_of_wildcards_makes_a_difference() {
    let of = |values: [&str; 3]| {
        let limit = "rate_limit: { unlimited: true }";
        generation(&[&format!(
            "domain: d\ndescriptors: [{}]",
            values.map(|value| format!("{{ key: a, value: {value}, {limit} }}")).join(", ")
        )])
    };
    assert_ne!(of(["'x*'", "'*y'", "z"]), of(["'*y'", "'x*'", "z"]));
    assert_eq!(of(["'x*'", "'*y'", "z"]), of(["z", "'x*'", "'*y'"]));
}
