//! The changes that are reported between two files.

use tollgate_policy::{Change, Config};

fn changes(before: &str, after: &str) -> String {
    config(after).changes_since(&config(before)).to_string()
}

fn config(text: &str) -> Config {
    Config::parse_with("tollgate.yaml", text, &|name| Some(format!("s3cret of {name}"))).unwrap()
}

/// One policy `a` with these lines.
fn policy(lines: &str) -> String {
    format!("policies: [{{ name: a, {lines} }}]")
}

#[test]
fn policies_come_and_go() {
    let before = "policies: [{ name: a, key: global, quotas: [5/1m] }, { name: gone, exempt: true }]";
    let after = "policies:
  - { name: new, key: [user], quotas: [1/1s] }
  - { name: a, key: global, quotas: [7/1m] }
";
    assert_eq!(changes(before, after), "removed `gone`; changed `a`: quotas [5/1m] -> [7/1m]; added `new`");
}

#[test]
fn another_notation_is_no_change() {
    let before = "policies: [{ name: a, key: [ip], quotas: [60/60s], overrides: [{ when: { t: g }, quotas: [9/1m] }] }, \
                  { name: b, exempt: true }]";
    let after = "# Moved, and written in full.
mode: enforce
defaults: { headers: draft-11 }
policies:
  - { name: b, exempt: true }
  - name: a
    mode: enforce
    key: { address: ip, ipv6: 64 }
    quotas: [60/1m]
    overrides:
      - when: { t: [g] }
        quotas: [9/1m]
";
    let changes = config(after).changes_since(&config(before));
    assert!(changes.is_empty(), "{changes}");
    assert_eq!(changes.to_string(), "no changes");
}

#[test]
fn every_setting_is_compared() {
    let limits = "key: [user], quotas: [5/1m]";
    for (before, after, told) in [
        ("", "description: why", "description"),
        ("match: { path: /a }", "match: { path: /b }", "match"),
        ("cost: 1", "cost: { attribute: tokens, max: 9 }", "cost"),
        ("", "overrides: [{ when: { tier: gold }, quotas: [9/1m] }]", "overrides"),
        (
            "overrides: [{ when: { tier: gold }, quotas: [9/1m] }]",
            "overrides: [{ when: { tier: gold }, quotas: [8/1m] }]",
            "overrides",
        ),
        (
            "overrides: [{ when: { tier: gold }, quotas: [9/1m] }]",
            "overrides: [{ when: { tier: gold }, quotas: [9/1m], candidate: [8/1m] }]",
            "overrides",
        ),
        ("", "mode: shadow", "mode enforce -> shadow"),
        ("", "enabled: false", "mode enforce -> off"),
        ("candidate: [3/1m]", "candidate: [2/1m, 1/1s]", "candidate [3/1m] -> [2/1m, 1/1s]"),
        ("", "count_denied: true", "count_denied false -> true"),
        ("", "overdraft: true", "overdraft false -> true"),
        ("count_denied: true", "overdraft: true", "count_denied true -> false, overdraft false -> true"),
        ("", "on_missing_key: skip", "on_missing_key error -> skip"),
        ("", "on_store_failure: local, local_share: 0.5", "on_store_failure open -> local 1/2"),
        ("headers: none", "headers: draft-06", "headers none -> draft-06"),
        ("", "deny_status: 403", "deny_status 429 -> 403"),
    ] {
        let of = |more: &str| policy(&format!("{limits}, {more}"));
        assert_eq!(changes(&of(before), &of(after)), format!("changed `a`: {told}"));
    }
    let exempt = changes(&policy("exempt: true"), &policy("key: global, quotas: [5/1m]"));
    assert_eq!(exempt, "changed `a`: exempt true -> false, quotas [] -> [5/1m]");
    let key = changes(&policy("key: [user], quotas: [5/1m]"), &policy("key: [ip], quotas: [5/1m]"));
    assert_eq!(key, "changed `a`: key");
}

#[test]
fn defaults_change_the_policies_that_have_them() {
    let policies = "policies:
  - { name: a, key: global, quotas: [5/1m] }
  - { name: b, key: global, quotas: [5/1m], deny_status: 403 }";
    let after = format!("mode: shadow\ndefaults: {{ deny_status: 503 }}\n{policies}");
    assert_eq!(
        changes(policies, &after),
        "changed `a`: mode enforce -> shadow, deny_status 429 -> 503; changed `b`: mode enforce -> shadow"
    );
}

#[test]
fn possible_secrets_are_not_shown() {
    let before = "policies: [{ name: a, key: global, quotas: [5/1m] }]";
    let after = "store: { url: \"redis://${PASSWORD}@h\" }
policies:
  - name: a
    description: ${DESCRIPTION}
    match: { token: \"${TOKEN}\" }
    key: [\"${ATTRIBUTE}\"]
    quotas: [5/1m]
    overrides: [{ when: { tier: \"${TIER}\" }, quotas: [9/1m] }]
    cost: { attribute: \"${COST}\", max: 3 }
";
    let changes = config(after).changes_since(&config(before));
    assert!(matches!(changes.iter().next(), Some(Change::Store)));
    assert_eq!(
        changes.to_string(),
        "changed the store; changed `a`: description, match, key, cost, overrides"
    );
    assert!(!format!("{changes:?}").contains("s3cret"));
}

/// A policy that became a list of the whole file had the same name, and its only difference was that it denied.
#[test]
fn a_policy_that_begins_to_deny_has_changed() {
    let before = policy("key: global, quotas: [5/1m]").replace("name: a", "name: deny");
    assert!(changes(&before, "deny: { user: x }\npolicies: []").contains("deny false -> true"));
}
