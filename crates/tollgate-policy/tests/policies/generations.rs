//! The generation of policies: the same for the same policies, and another for each difference.

use std::collections::BTreeSet;

use tollgate_policy::{Config, Generation, Sources, json_schema};

/// Sections of the schema with their keys, and two texts that differ in nothing but the value of the key.
const DIFFERENCES: &[(&str, &str, &str, &str)] = &[
    ("", "allow", "allow: { ip: [10.0.0.1] }", "allow: { ip: [10.0.0.2] }"),
    ("", "deny", "deny: { ip: [10.0.0.1] }", "deny: { ip: [10.0.0.2] }"),
    ("", "mode", "mode: enforce", "mode: shadow"),
    ("", "unmatched", "unmatched: allow", "unmatched: deny"),
    (
        "",
        "policies",
        "policies: [{ name: a, key: global, quotas: [5/1m] }]",
        "policies: [{ name: a, key: global, quotas: [5/1m] }, { name: b, key: global, quotas: [6/1m] }]",
    ),
    (
        "",
        "tiers",
        "tiers: { free: [5/1m] }\npolicies: [{ name: a, key: [user], quotas: { tier: plan, default: free } }]",
        "tiers: { free: [6/1m] }\npolicies: [{ name: a, key: [user], quotas: { tier: plan, default: free } }]",
    ),
    ("", "defaults", "defaults: { deny_status: 429 }", "defaults: { deny_status: 430 }"),
    ("Defaults", "count_denied", "count_denied: false", "count_denied: true"),
    ("Defaults", "deny_status", "deny_status: 429", "deny_status: 430"),
    ("Defaults", "headers", "headers: draft-11", "headers: [draft-11, github]"),
    (
        "Defaults",
        "local_share",
        "on_store_failure: local, local_share: 1/2",
        "on_store_failure: local, local_share: 1/3",
    ),
    ("Defaults", "on_missing_key", "on_missing_key: error", "on_missing_key: skip"),
    ("Defaults", "on_store_failure", "on_store_failure: open", "on_store_failure: closed"),
    ("Policy", "candidate", "candidate: [6/1m]", "candidate: [7/1m]"),
    ("Policy", "cost", "cost: 2", "cost: 3"),
    ("Policy", "count_denied", "count_denied: false", "count_denied: true"),
    ("Policy", "deny_status", "deny_status: 429", "deny_status: 430"),
    ("Policy", "enabled", "enabled: true", "enabled: false"),
    ("Bare policy", "exempt", "exempt: true", "key: global, quotas: unlimited"),
    ("Policy", "headers", "headers: none", "headers: kong"),
    ("Bare policy", "key", "quotas: [5/1m], key: [user, ip]", "quotas: [5/1m], key: [ip, user]"),
    (
        "Policy",
        "local_share",
        "on_store_failure: local, local_share: 1/2",
        "on_store_failure: local, local_share: 1/3",
    ),
    ("Policy", "match", "match: { path: /a }", "match: { path: /b }"),
    ("Policy", "mode", "mode: enforce", "mode: shadow"),
    ("", "policies", "policies: [{ name: a, key: global, quotas: [5/1m] }]", "policies: []"),
    (
        "",
        "name of Policy",
        "policies: [{ name: a, key: global, quotas: [5/1m] }]",
        "policies: [{ name: b, key: global, quotas: [5/1m] }]",
    ),
    ("Policy", "on_missing_key", "on_missing_key: error", "on_missing_key: deny"),
    ("Policy", "on_store_failure", "on_store_failure: open", "on_store_failure: closed"),
    ("Policy", "overdraft", "overdraft: false", "overdraft: true"),
    (
        "Policy",
        "overrides",
        "overrides: [{ when: { plan: gold }, quotas: [7/1m] }]",
        "overrides: [{ when: { plan: gold }, quotas: [9/1m] }]",
    ),
    (
        "Policy",
        "overrun",
        "cost: { attribute: tokens, max: 9 }, overrun: charge",
        "cost: { attribute: tokens, max: 9 }, overrun: cap",
    ),
    ("Bare policy", "quotas", "key: [user], quotas: [5/1m]", "key: [user], quotas: [5/1m, 20~in_flight]"),
    ("Bare policy", "quotas", "key: [user], quotas: [5/1m]", "key: [user], quotas: [5/1m@first_hit]"),
    ("Bare policy", "quotas", "key: [user], quotas: [5/1m~burst]", "key: [user], quotas: ['5/1m~burst:9']"),
    (
        "Bare policy",
        "quotas",
        "key: [user], quotas: [20~in_flight]",
        "key: [user], quotas: ['20~in_flight:30s']",
    ),
    ("CostAttribute", "attribute", "attribute: tokens, max: 9", "attribute: bytes, max: 9"),
    ("CostAttribute", "max", "attribute: tokens, max: 9", "attribute: tokens, max: 8"),
    ("CostAttribute", "min", "attribute: tokens, max: 9, min: 0", "attribute: tokens, max: 9, min: 1"),
    (
        "CostAttribute",
        "on_missing",
        "attribute: tokens, max: 9, on_missing: 5",
        "attribute: tokens, max: 9, on_missing: asked",
    ),
    ("Key", "address", "address: ip", "address: peer"),
    ("Key", "attribute", "attribute: ip", "attribute: global"),
    ("Key", "first_of", "first_of: [user, ip]", "first_of: [ip, user]"),
    ("Key", "ipv4", "address: ip, ipv4: 32", "address: ip, ipv4: 24"),
    ("Key", "ipv6", "address: ip, ipv6: 64", "address: ip, ipv6: 56"),
    ("Override", "by", "by: plan, values: { gold: 9/1m }", "by: tenant, values: { gold: 9/1m }"),
    (
        "Override",
        "candidate",
        "when: { plan: gold }, quotas: [9/1m], candidate: [1/1m]",
        "when: { plan: gold }, quotas: [9/1m], candidate: [2/1m]",
    ),
    ("Override", "quotas", "when: { plan: gold }, quotas: [9/1m]", "when: { plan: gold }, quotas: [8/1m]"),
    (
        "Override",
        "values",
        "by: plan, values: { gold: 9/1m, free: 1/1m }",
        "by: plan, values: { gold: 1/1m, free: 9/1m }",
    ),
    (
        "Override",
        "values",
        "by: plan, values: { gold: 9/1m }",
        "by: plan, values: { gold: 9/1m, silver: 9/1m }",
    ),
    ("Override", "values_from", "by: plan, values_from: plans.csv", "by: plan, values_from: other-plans.csv"),
    ("Override", "when", "when: { plan: gold }, quotas: [9/1m]", "when: { plan: free }, quotas: [9/1m]"),
    (
        "Quota",
        "limit",
        "limit: { attribute: quota }, max: 9, window: 1h",
        "limit: { attribute: rate }, max: 9, window: 1h",
    ),
    (
        "Quota",
        "max",
        "limit: { attribute: quota }, max: 9, window: 1h",
        "limit: { attribute: quota }, max: 8, window: 1h",
    ),
    (
        "Quota",
        "window",
        "limit: { attribute: quota }, max: 9, window: 1h",
        "limit: { attribute: quota }, max: 9, window: 2h",
    ),
    ("Limit", "attribute", "attribute: quota", "attribute: rate"),
    ("Limit", "on_missing", "attribute: quota, on_missing: 5", "attribute: quota, on_missing: 6"),
    ("Tier", "default", "tier: plan, default: free", "tier: plan, default: gold"),
    ("Tier", "tier", "tier: plan, default: free", "tier: group, default: free"),
    (
        "Conditions",
        "any",
        "any: [{ path: /a }, { path: /b }]",
        "any: [{ path: /a, method: GET }, { path: /b }]",
    ),
    ("Test", "absent", "absent: true", "not: { absent: true }"),
    ("Test", "cidr", "cidr: [10.0.0.0/8]", "cidr: [10.0.0.0/9]"),
    ("Test", "cidr", "cidr: ['2001:db8::/32']", "cidr: ['2001:db8::/33']"),
    ("Test", "cidr_from", "cidr_from: networks.txt", "cidr_from: other-networks.txt"),
    ("Test", "equal", "equal: a", "equal: b"),
    ("Test", "glob", "glob: '*a'", "glob: '*b'"),
    ("Test", "ignore_case", "one_of: [a, b]", "one_of: [a, b], ignore_case: true"),
    ("Test", "ignore_case", "regex: '[ab]+'", "regex: '[ab]+', ignore_case: true"),
    ("Test", "not", "not: a", "not: b"),
    ("Test", "one_of", "one_of: [a, b]", "one_of: [a, c]"),
    ("Test", "one_of_from", "one_of_from: texts.txt", "one_of_from: other-texts.txt"),
    ("Test", "prefix", "prefix: a", "prefix: b"),
    ("Test", "prefix", "prefix: a", "equal: a"),
    ("Test", "present", "present: true", "absent: true"),
    ("Test", "regex", "regex: '[ab]+'", "regex: '[abc]+'"),
];

/// Settings that decide nothing, or are read when the service starts.
const WITHOUT_EFFECT: &[(&str, &str, &str, &str)] = &[
    ("Policy", "description", "description: why", "description: why not"),
    ("", "store", "store: { url: redis://10.0.0.1 }", "store: { url: redis://10.0.0.2 }"),
    ("Store", "across_slots", "across_slots: refuse", "across_slots: reserve"),
    ("Store", "layout", "layout: rlaas", "layout: leetdezine"),
    ("Store", "prefix", "prefix: 'a:'", "prefix: 'b:'"),
    ("Store", "url", "url: redis://10.0.0.1", "url: redis://10.0.0.2"),
];

const POLICY: &str = "policies: [{ name: a, key: [user], quotas: [5/1m] }]";

/// Writes the file that has this text in a section of the schema.
fn file(section: &str, text: &str) -> String {
    match section {
        "" if text.contains("policies:") => text.to_owned(),
        "" => format!("{text}\n{POLICY}"),
        "Defaults" => format!("defaults: {{ {text} }}\n{POLICY}"),
        "Store" if text.contains("url:") => format!("store: {{ {text} }}\n{POLICY}"),
        "Store" => file(section, &format!("url: redis://10.0.0.1, {text}")),
        "Policy" => format!("policies: [{{ name: a, key: [user], quotas: [5/1m], {text} }}]"),
        "Bare policy" => format!("policies: [{{ name: a, {text} }}]"),
        "CostAttribute" => file("Policy", &format!("cost: {{ {text} }}")),
        "Key" => file("Bare policy", &format!("key: {{ {text} }}, quotas: [5/1m]")),
        "Override" => file("Policy", &format!("overrides: [{{ {text} }}]")),
        "Quota" => file("Bare policy", &format!("key: [user], quotas: {{ {text} }}")),
        "Limit" => file("Quota", &format!("limit: {{ {text} }}, max: 9, window: 1h")),
        "Tier" => {
            let policy = file("Bare policy", &format!("key: [user], quotas: {{ {text} }}"));
            format!("tiers: {{ free: [5/1m], gold: [9/1m] }}\n{policy}")
        }
        "Conditions" => file("Policy", &format!("match: {{ {text} }}")),
        "Test" => file("Policy", &format!("match: {{ x: {{ {text} }} }}")),
        section => panic!("{section}"),
    }
}

/// Reads texts with their names, and the tables and lists that lie in the same folder.
fn read(texts: &[(&str, &str)]) -> Config {
    let mut sources = texts.iter().fold(Sources::default(), |sources, (name, text)| sources.and(name, *text));
    for (name, _) in texts {
        for (table, rows) in [
            ("plans.csv", "gold,9/1m\nfree,1/1m\n"),
            ("sorted-plans.csv", "free,1/1m\ngold,9/1m\n"),
            ("other-plans.csv", "gold,9/1m\nfree,2/1m\n"),
            ("networks.txt", "10.0.0.0/8\n192.0.2.7\n"),
            ("sorted-networks.txt", "192.0.2.7\n10.0.0.0/8\n10.1.0.0/16\n"),
            ("other-networks.txt", "10.0.0.0/8\n192.0.2.8\n"),
            ("texts.txt", "a\nb\n"),
            ("sorted-texts.txt", "b\na\n"),
            ("other-texts.txt", "a\nc\n"),
        ] {
            sources = sources.with_table(name, table, rows);
        }
    }
    Config::parse_sources(&sources, |_| Vec::new()).unwrap_or_else(|error| panic!("{texts:?}\n{error}"))
}

fn generation(text: &str) -> Generation {
    read(&[("t/a.yaml", text)]).policies().generation()
}

#[test]
fn every_setting_of_the_schema_makes_a_difference() {
    for (section, key, before, after) in DIFFERENCES {
        let (before, after) = (file(section, before), file(section, after));
        assert_ne!(generation(&before), generation(&after), "{key}: {before} and {after}");
        let [before, after] = [before, after].map(|text| read(&[("t/a.yaml", &text)]));
        assert!(!before.policies().changes(after.policies()).is_empty(), "{key}");
    }
    for (section, key, before, after) in WITHOUT_EFFECT {
        assert_eq!(generation(&file(section, before)), generation(&file(section, after)), "{key}");
    }
}

/// A setting without an example above would be forgotten quietly.
#[test]
fn every_setting_of_the_schema_has_an_example() {
    let schema: serde_json::Value = serde_json::from_str(&json_schema()).unwrap();
    let mut settings = BTreeSet::new();
    let mut add = |section: &str, object: &serde_json::Value| {
        let keys = object["properties"].as_object().unwrap_or_else(|| panic!("{section}")).keys();
        settings.extend(keys.map(|key| (section.to_owned(), key.clone())));
    };
    add("", &schema);
    for (name, object) in schema["$defs"].as_object().unwrap() {
        if object["properties"].is_object() {
            add(name.strip_prefix("Raw").unwrap_or(name), object);
        }
    }
    add("Limit", &schema["$defs"]["RawQuota"]["properties"]["limit"]);
    let examples =
        DIFFERENCES.iter().chain(WITHOUT_EFFECT).map(|(section, key, ..)| match (*section, *key) {
            ("", "name of Policy") => ("Policy".to_owned(), "name".to_owned()),
            ("Bare policy", key) => ("Policy".to_owned(), key.to_owned()),
            (section, key) => (section.to_owned(), key.to_owned()),
        });
    assert_eq!(examples.collect::<BTreeSet<_>>(), settings);
}

#[test]
fn the_same_policies_have_the_same_generation_wherever_they_stand() {
    let (login, all) = (
        "  - { name: login, match: { path: /login, method: [POST, PUT] }, key: [ip], quotas: [5/1m, 60/1h] }\n",
        "  - { name: all, key: global, quotas: [1000/1s] }\n",
    );
    let one = generation(&format!("policies:\n{login}{all}"));
    let (first, second) = (format!("policies:\n{login}"), format!("policies:\n{all}"));
    let both = |texts: &[(&str, &str)]| read(texts).policies().generation();
    assert_eq!(one, both(&[("t/a.yaml", &first), ("t/b.yaml", &second)]));
    assert_eq!(one, both(&[("t/a.yaml", &second), ("t/c.yaml", &first)]));
    let written_otherwise = "
# The same in other words.
unmatched: allow
defaults: { headers: draft-11, deny_status: 429 }
policies:
  - name: all
    key: global
    quotas: 1000/1s
  - name: login
    mode: enforce
    quotas: [60/60m, 5/60s]
    key: { address: ip, ipv6: 64 }
    match:
      method: { one_of: [PUT, POST, PUT] }
      path: { equal: /login }
";
    assert_eq!(one, generation(written_otherwise));

    for [before, after] in [
        ["match: { x: { one_of: [a, b] } }", "match: { x: { one_of_from: sorted-texts.txt } }"],
        ["match: { x: { one_of_from: texts.txt } }", "match: { x: { one_of_from: sorted-texts.txt } }"],
        [
            "match: { x: { cidr: [10.0.0.0/8, 192.0.2.7] } }",
            "match: { x: { cidr_from: sorted-networks.txt } }",
        ],
        ["match: { any: [{ a: b }, { c: d, e: f }] }", "match: { any: [{ e: f, c: d }, { a: b }] }"],
        [
            "overrides: [{ by: plan, values_from: plans.csv }]",
            "overrides: [{ by: plan, values_from: sorted-plans.csv }]",
        ],
        [
            "overrides: [{ by: plan, values: { gold: 9/1m, free: 1/1m } }]",
            "overrides: [{ by: plan, values_from: sorted-plans.csv }]",
        ],
    ] {
        assert_eq!(
            generation(&file("Policy", before)),
            generation(&file("Policy", after)),
            "{before} and {after}"
        );
    }
}

#[test]
fn the_order_of_overrides_makes_a_difference() {
    let of =
        |overrides: [&str; 2]| generation(&file("Policy", &format!("overrides: [{}]", overrides.join(", "))));
    let (gold, paid) =
        ("{ when: { plan: gold }, quotas: [9/1m] }", "{ when: { paid: 'yes' }, quotas: [8/1m] }");
    assert_ne!(of([gold, paid]), of([paid, gold]));
}

#[test]
fn a_version_of_the_policies_has_their_generation() {
    let config = read(&[("t/a.yaml", POLICY)]);
    let generation = config.policies().generation();
    let limiter =
        tollgate_policy::PolicyLimiter::new(tollgate::MemoryStore::new(), config.into_policies(), "t");
    assert_eq!(limiter.live().policies().generation(), generation);
    let other = read(&[("t/a.yaml", "policies: []")]).into_policies();
    assert_ne!(limiter.replace(other, "t").policies().generation(), generation);
    let same = read(&[("t/b.yaml", POLICY)]).into_policies();
    let third = limiter.replace(same, "t");
    assert_eq!((third.version(), third.policies().generation()), (3, generation));
}
