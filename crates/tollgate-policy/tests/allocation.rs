//! A check allocates no more than its charges need, and nothing for the usual two policies.

#![allow(clippy::unwrap_used, reason = "this is a test")]

use std::fmt::Write as _;

use tollgate_policy::{Attributes, Config, Outcome};

#[test]
fn matching_among_many_policies_allocates_nothing() {
    let mut text = "policies:\n".to_owned();
    let mut add = |name: &str, conditions: &str| {
        writeln!(text, "  - {{ name: {name}, match: {{ {conditions} }}, key: [user], quotas: [5/1m] }}")
            .unwrap();
    };
    for number in 0..200 {
        add(&format!("exact-{number}"), &format!("tenant: t-{number}"));
        add(&format!("prefix-{number}"), &format!("path: \"/api/{number}/*\""));
        add(&format!("network-{number}"), &format!("ip: {{ cidr: 10.{number}.0.0/17 }}"));
    }
    for number in 0..10 {
        add(&format!("glob-{number}"), &format!("path: \"*.{number}\""));
        add(&format!("not-{number}"), "path: { not: { prefix: / } }");
        add(&format!("absent-{number}"), "user: { absent: true }");
    }
    let config = Config::parse("many.yaml", &text).unwrap();

    for (path, ip, names) in [
        ("/api/7/items", "192.0.2.1", ["exact-3", "prefix-7"]),
        ("/static", "10.7.0.1", ["exact-3", "network-7"]),
    ] {
        let attributes: Attributes<'_> =
            [("user", "alice"), ("tenant", "t-3"), ("path", path), ("ip", ip)].into_iter().collect();
        let mut charged = Vec::with_capacity(4);
        let counted = allocation_counter::measure(|| {
            let Ok(Outcome::Charge(matched)) = config.policies().charges(&attributes, 1) else { return };
            charged.extend(matched.enforced().map(|charge| charge.counter().quota().policy() == names[0]));
            charged.push(matched.policies().last().is_some_and(|policy| policy.name() == names[1]));
        });
        assert_eq!(charged, [true, false, true], "{path}");
        assert_eq!(counted.count_total, 0, "{path}");
    }
}
