//! What files may say. The cases are those that envoyproxy/ratelimit tests; the messages are ours.

use serde_json::{Value, json};
use tollgate_envoy::{Domains, SameDomain};
use tollgate_policy::Sources;

fn error(text: &str) -> String {
    match Domains::parse(&Sources::of("f.yaml", text), SameDomain::Refuse) {
        Ok(_) => "no error".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// A file whose only descriptor is this, on line 3.
fn of_descriptor(descriptor: &str) -> String {
    error(&format!("domain: d\ndescriptors:\n- {descriptor}\n"))
}

#[test]
fn errors_in_files_have_their_place() {
    for (text, expected) in [
        ("domain: d\n  a: b", "f.yaml:2:4: not valid YAML: mapping values are not allowed in this context"),
        ("descriptors: []", "f.yaml:1:1: the file needs `domain`"),
        ("domain: ''", "f.yaml:1:9: the name of the domain is empty"),
        ("domain: [d]", "f.yaml:1:9: expected a text, found a list"),
        (
            "domain: d\ndescriptor: []",
            "f.yaml:2:1: unknown key `descriptor` in the file: did you mean `descriptors`?",
        ),
        ("domain: d\ndescriptors: x", "f.yaml:2:14: expected a list, with `- ` before each entry, found `x`"),
        ("domain: d\ndescriptors: [a]", "f.yaml:2:15: expected a mapping for a descriptor"),
        (
            "domain: d\ndomain: e",
            "f.yaml:2:1: duplicate key `domain`, already given in line 1: keep one of them",
        ),
        ("domain: d\n---\ndomain: e", "f.yaml:2:1: a second document begins here, but a file has only one"),
        ("", "f.yaml:1:1: expected a mapping for the file, found nothing"),
    ] {
        assert!(error(text).starts_with(expected), "{text}\n{}\n{expected}", error(text));
    }
}

const A_STAR_IN_A_KEY: &str = "a key has a `*` only if its value is the same text: wildcards are for values";

#[test]
fn errors_in_descriptors_have_their_place() {
    for (descriptor, expected) in [
        ("value: v", "f.yaml:3:3: a descriptor needs `key`"),
        ("key: ''", "f.yaml:3:8: the key of a descriptor is empty"),
        ("key: a*", &format!("f.yaml:3:8: {A_STAR_IN_A_KEY}")),
        ("{ key: a*, value: b* }", &format!("f.yaml:3:10: {A_STAR_IN_A_KEY}")),
        ("{ key: a, 5: b }", "f.yaml:3:13: unknown key `5` in a descriptor"),
        ("{ key: a, [b]: c }", "f.yaml:3:13: expected a word as key, found a list"),
        (
            "{ key: a, rate_limt: {} }",
            "f.yaml:3:13: unknown key `rate_limt` in a descriptor: did you mean `rate_limit`?",
        ),
        ("{ key: a, shadow_mode: 7 }", "f.yaml:3:26: expected true or false, found `7`"),
        ("{ key: a, metadata: [1] }", "f.yaml:3:23: expected a mapping for the metadata, found a list"),
        (
            "{ key: a, value: &b c }",
            "f.yaml:3:23: anchors (`&name`) are not supported: write the value itself",
        ),
    ] {
        assert!(
            of_descriptor(descriptor).starts_with(expected),
            "{descriptor}\n{}",
            of_descriptor(descriptor)
        );
    }
}

#[test]
fn errors_in_limits_have_their_place() {
    for (limit, expected) in [
        ("{}", "f.yaml:3:25: rate_limit needs `unit`\nf.yaml:3:25: rate_limit needs `requests_per_unit`"),
        (
            "{ unit: minutes, requests_per_unit: 1 }",
            "f.yaml:3:33: unknown unit `minutes`: did you mean `minute`?",
        ),
        (
            "{ unit: foo, requests_per_unit: 1 }",
            "f.yaml:3:33: unknown unit `foo`: expected second, minute, hour",
        ),
        (
            "{ unit: day, requests_per_unit: -1 }",
            "f.yaml:3:57: expected a whole number from 0 to 4294967295, found `-1`",
        ),
        ("{ unit: day, requests_per_unit: 4294967296 }", "f.yaml:3:57: expected a whole number from 0"),
        (
            "{ unit: day, requests_per_unit: 010 }",
            "f.yaml:3:57: expected a whole number without a zero before it, found `010`",
        ),
        ("{ unlimited: true, unit: day }", "f.yaml:3:50: an unlimited rate_limit has no `unit`"),
        ("{ unlimited: true, overdraft: true }", "f.yaml:3:55: an unlimited rate_limit has no `overdraft`"),
        ("{ unlimited: true, replaces: [{}] }", "f.yaml:3:55: an entry of replaces needs `name`"),
        (
            "{ unlimited: true, replaces: [{ name: '' }] }",
            "f.yaml:3:63: the name of a replaced limit is empty",
        ),
        (
            "{ unlimited: true, name: a, replaces: [{ name: a }] }",
            "f.yaml:3:72: a limit cannot replace itself",
        ),
        ("{ unit: day, requests_per_unit: 1, foo: 1 }", "f.yaml:3:60: unknown key `foo` in rate_limit"),
    ] {
        let said = of_descriptor(&format!("{{ key: a, rate_limit: {limit} }}"));
        assert!(said.starts_with(expected), "{limit}\n{said}");
    }
}

#[test]
fn a_descriptor_is_written_once_in_its_level() {
    let twice =
        "domain: d\ndescriptors:\n- key: a\n- key: a\n- { key: a, value: b }\n- { key: a, value: b }\n";
    assert_eq!(
        error(twice),
        "f.yaml:4:3: duplicate key `a`, already given in line 3: keep one of them\n\
         f.yaml:6:3: duplicate key `a: b`, already given in line 5: keep one of them"
    );
    // By pairs: these are two descriptors.
    assert_eq!(
        error("domain: d\ndescriptors:\n- { key: a, value: b_c }\n- { key: a_b, value: c }\n"),
        "no error"
    );
    assert_eq!(
        error(
            "domain: d\ndescriptors:\n- key: a\n  descriptors: [{ key: a }]\n- key: b\n  descriptors: [{ key: a }]\n"
        ),
        "no error"
    );
}

#[test]
fn everything_that_ratelimit_knows_is_read() {
    let text = "
name: d
domain: d
descriptors:
- key: a
  value: 5
  rate_limit:
    name: first
    unit: MINUTE
    requests_per_unit: 1_000
  shadow_mode: yes
  quota_mode: false
  detailed_metric: true
  value_to_metric: true
  metadata: { tier: gold, nested: { list: [1, two] } }
- key: a
  value: true
  rate_limit:
- key: files
  value: files/*
  share_threshold: true
  rate_limit: { unlimited: true, replaces: [{ name: first }] }
  descriptors:
  - { key: b, rate_limit: { unit: week, requests_per_unit: 0 } }
- { key: empty, value: ~, descriptors: }
";
    let domains = Domains::parse(&Sources::of("f.yaml", text), SameDomain::Refuse).unwrap();
    assert_eq!((domains.names().collect::<Vec<_>>(), domains.limits()), (vec!["d"], 3));
}

#[test]
fn several_files_have_a_domain_each_unless_domains_are_merged() {
    let file = |key: &str| format!("domain: d\ndescriptors: [{{ key: {key} }}]");
    let sources = Sources::of("a.yaml", file("a")).and("b.yaml", file("b")).and("c.yaml", "domain: e");
    let error = Domains::parse(&sources, SameDomain::Refuse).unwrap_err().to_string();
    assert_eq!(
        error,
        "b.yaml:1:9: duplicate domain `d`, already given in line 1 of a.yaml: write it once, or set \
         MERGE_DOMAIN_CONFIG=true"
    );
    let mut names: Vec<_> = Vec::new();
    let domains = Domains::parse(&sources, SameDomain::Merge).unwrap();
    names.extend(domains.names());
    names.sort_unstable();
    assert_eq!(names, ["d", "e"]);
    let sources = Sources::of("a.yaml", file("a")).and("b.yaml", file("a"));
    let error = Domains::parse(&sources, SameDomain::Merge).unwrap_err().to_string();
    assert_eq!(error, "b.yaml:2:15: duplicate key `a`, already given in line 2 of a.yaml: keep one of them");
}

/// envoyproxy/ratelimit accepts all of these, so they are no errors.
#[test]
fn settings_without_effect_cause_warnings_with_their_place() {
    let text = "
domain: d
descriptors:
- key: a
  shadow_mode: true
  quota_mode: yes
  metadata: { a: 1 }
- key: b
  value: fixed
  share_threshold: true
  rate_limit: { unlimited: true, requests_per_unit: 5, name: known }
  descriptors:
  - { key: c, rate_limit: { unlimited: true, replaces: [{ name: typo }, { name: known }, { name: later }] } }
- { key: e, value: '*', shadow_mode: false, share_threshold: true }
";
    let later = "domain: d\ndescriptors: [{ key: f, shadow_mode: true, rate_limit: { unlimited: true, name: later } }]";
    let sources = Sources::of("a.yaml", text).and("b.yaml", later);
    let domains = Domains::parse(&sources, SameDomain::Merge).unwrap();
    let said: Vec<String> = domains.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "a.yaml:5:16: `shadow_mode` has no effect without `rate_limit`",
            "a.yaml:6:15: `quota_mode` has no effect without `rate_limit`",
            "a.yaml:7:13: `metadata` has no effect without `rate_limit`",
            "a.yaml:10:20: `share_threshold` has no effect on a value without `*`",
            "a.yaml:11:53: `requests_per_unit` has no effect: the limit is `unlimited`",
            "a.yaml:13:65: no limit of the domain has the name `typo`",
        ]
    );
}

/// Envoy Gateway's translator sets it so, and each level caused a warning.
#[test]
fn shadow_mode_at_each_level_of_a_chain_is_no_mistake() {
    let warned = |chain: &str| {
        let text = format!("domain: d\ndescriptors:\n{chain}");
        let domains = Domains::parse(&Sources::of("a.yaml", text), SameDomain::Refuse).unwrap();
        domains.warnings().len()
    };
    let chain = "
- key: a
  shadow_mode: true
  descriptors:
  - key: b
    shadow_mode: true
    descriptors:
    - { key: c, shadow_mode: true, rate_limit: { unit: hour, requests_per_unit: 5 } }
";
    assert_eq!(warned(chain), 0);
    // The limit is enforced, although both levels above it look as if it were not.
    assert_eq!(warned(&chain.replace("key: c, shadow_mode: true,", "key: c,")), 2);
    let enforced = "    - { key: d, rate_limit: { unit: hour, requests_per_unit: 5 } }\n";
    assert_eq!(warned(&format!("{chain}{enforced}")), 2);
    assert_eq!(warned("- { key: a, shadow_mode: true, descriptors: [] }"), 1);
}

/// Messages name places that their author can find, because a value has no lines.
#[test]
fn values_are_read_as_files_are() {
    let limit = json!({ "unit": "HOUR", "requests_per_unit": 5 });
    let config = |descriptors: Value| json!({ "name": "d", "domain": "d", "descriptors": descriptors });
    let read = |first: Value, second: Value, same| {
        let domains = Domains::from_values([("resource one", first), ("resource two", second)], same);
        domains.map_err(|error| error.to_string())
    };
    let written = |text: &str| Domains::parse(&Sources::of("a.yaml", text), SameDomain::Refuse).unwrap();
    let text =
        "domain: d\ndescriptors: [{ key: a, value: '1', rate_limit: { unit: hour, requests_per_unit: 5 } }]";
    let valid = config(json!([{ "key": "a", "value": "1", "rate_limit": limit, "descriptors": [] }]));
    let domains = Domains::from_values([("one", valid.clone())], SameDomain::Refuse).unwrap();
    assert!(domains.is_same_as(&written(text)) && domains.warnings().is_empty());

    let error = read(valid.clone(), valid.clone(), SameDomain::Refuse).unwrap_err();
    assert_eq!(
        error,
        "resource two: domain: duplicate domain `d`, already given in domain of resource one: write it once, or set \
         MERGE_DOMAIN_CONFIG=true"
    );
    let error = read(valid.clone(), valid.clone(), SameDomain::Merge).unwrap_err();
    assert_eq!(
        error,
        "resource two: descriptors[0]: duplicate key `a: 1`, already given in descriptors[0] of resource one: keep one \
         of them"
    );
    let inner = json!([{ "key": "b", "descriptors": [{ "key": "c", "rate_limit": { "unit": "9" } }, {}] }]);
    let error = read(valid.clone(), config(inner), SameDomain::Merge).unwrap_err();
    let expected = [
        "resource two: descriptors[0].descriptors[0].rate_limit: rate_limit needs `requests_per_unit`",
        "resource two: descriptors[0].descriptors[0].rate_limit.unit: unknown unit `9`: expected second",
        "resource two: descriptors[0].descriptors[1]: a descriptor needs `key`",
    ];
    assert_eq!(error.lines().count(), expected.len(), "{error}");
    for (line, expected) in error.lines().zip(expected) {
        assert!(line.starts_with(expected), "{line}");
    }

    let other = json!({ "name": "e", "domain": "d\n2" });
    let domains = read(valid, other, SameDomain::Refuse).unwrap();
    let warnings: Vec<String> = domains.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        ["resource two: name: the name has no effect: the limits are those of the domain `d\n2`"]
    );
}
