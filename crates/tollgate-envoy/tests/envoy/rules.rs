//! The names of limits, and the keys that are counted under them.

use std::sync::Arc;

use tollgate::{Key, MemoryStore};
use tollgate_envoy::{
    CountedKey, Descriptor, Domains, EnvoyLimiter, Override, Request, SameDomain, Settings, Unit,
};
use tollgate_policy::{Sources, describe_descriptor};
use tollgate_testkit::block_on;

const CONFIG: &str = "
domain: shop
descriptors:
- { key: user, rate_limit: { unit: day, requests_per_unit: 1 } }
- { key: a_b, rate_limit: { unit: day, requests_per_unit: 1 } }
- { key: a, value: b, rate_limit: { unit: day, requests_per_unit: 1 } }
- { key: free, rate_limit: { unlimited: true } }
- { key: trial, shadow_mode: true, rate_limit: { unit: day, requests_per_unit: 1 } }
- { key: path, value: /login, descriptors: [ { key: ip, rate_limit: { unit: day, requests_per_unit: 2 } } ] }
";

const OTHER: &str = "
domain: bank
descriptors:
- { key: user, rate_limit: { unit: day, requests_per_unit: 1 } }
";

fn domains() -> Domains {
    let sources = Sources::of("shop.yaml", CONFIG).and("bank.yaml", OTHER);
    Domains::parse(&sources, SameDomain::Refuse).unwrap()
}

#[test]
fn each_counted_limit_has_a_name_of_its_own() {
    let domains = domains();
    let names: Vec<&str> = domains.rule_names().iter().map(AsRef::as_ref).collect();
    let expected =
        ["bank: user", "shop: user", "shop: a_b", "shop: a_b (2)", "shop: trial", "shop: path_/login, ip"];
    assert_eq!(names, expected);
    assert_eq!(domains.rule_names_of("bank"), &domains.rule_names()[..1]);
    assert_eq!(domains.rule_names_of("shop"), &domains.rule_names()[1..]);
    assert!(domains.rule_names_of("none").is_empty());
}

/// Each counted descriptor once, with the limit that it is under, and whether that limit denied the request.
#[test]
fn counted_keys_are_passed_with_their_limits() {
    let limiter = EnvoyLimiter::new(MemoryStore::new(), domains(), Settings::default());
    let entries: [&[(&str, &str)]; 5] = [
        &[("user", "alice")],
        &[("path", "/login"), ("ip", "192.0.2.7")],
        &[("trial", "x")],
        &[("free", "x")],
        &[("unknown", "x")],
    ];
    let mut descriptors: Vec<_> =
        entries.iter().map(|entries| Descriptor::new(entries.iter().copied())).collect();
    let limit = Some(Override::new(9, Unit::Day));
    descriptors.push(Descriptor { limit, ..Descriptor::new([("own", "x")]) });
    let request = Request { domain: "shop", descriptors: descriptors.into_iter().collect(), hits_addend: 0 };
    let counted = || {
        let mut counted = Vec::new();
        let note = |live: &Arc<Domains>, CountedKey { rule, key, denies }: CountedKey<'_>| {
            let text = describe_descriptor(&key.canonical_bytes()).unwrap();
            counted.push((live.rule_names()[rule].to_string(), text, denies));
        };
        let _ = block_on(limiter.decide_noting(None, &request, note)).unwrap();
        counted
    };
    let row = |rule: &str, key: &str, denies| (rule.to_owned(), key.to_owned(), denies);
    let rows = |denies| {
        [
            row("shop: user", "user=alice", denies),
            row("shop: path_/login, ip", "path=/login, ip=192.0.2.7", false),
            row("shop: trial", "trial=x", false),
        ]
    };
    assert_eq!(counted(), rows(false));
    assert_eq!(counted(), rows(true));
    let other = Request {
        domain: "bank",
        descriptors: [Descriptor::new([("user", "alice")])].into_iter().collect(),
        hits_addend: 0,
    };
    let mut keys = Vec::new();
    let _ = block_on(
        limiter.decide_noting(None, &other, |_, counted| keys.push((counted.rule, counted.key.clone()))),
    )
    .unwrap();
    assert_eq!(keys, [(0, Key::parts(["bank", "user", "alice"]))]);
}
