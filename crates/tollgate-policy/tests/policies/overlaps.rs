//! Whether two policies can match the same request, as far as their files show.

use std::collections::BTreeSet;

use tollgate_policy::{Attributes, Config, OverlapIndex, Policy};

fn overlap(one: &str, other: &str) -> bool {
    let text = format!(
        "policies:
  - {{ name: one, match: {{ {one} }}, key: [user], quotas: [5/1m] }}
  - {{ name: other, match: {{ {other} }}, key: [ip], quotas: [5/1m] }}
"
    );
    let config = Config::parse("overlaps.yaml", &text).unwrap_or_else(|error| panic!("{error}"));
    let [one, other] = config.policies().as_slice() else { panic!("not two policies") };
    let overlap = one.overlaps(other);
    assert_eq!(overlap, other.overlaps(one), "{text}");
    // If a request matches both, `overlaps` must not deny it.
    for path in ["/a", "/a/b", "/b", "/b/c"] {
        for user in [None, Some(""), Some("alice")] {
            for ip in ["10.1.2.3", "192.0.2.1"] {
                let pairs = [("path", path), ("ip", ip)].into_iter().chain(user.map(|user| ("user", user)));
                let request: Attributes<'_> = pairs.collect();
                let both = one.matches(&request) == Ok(true) && other.matches(&request) == Ok(true);
                assert!(overlap || !both, "{text}{path} {user:?} {ip}");
            }
        }
    }
    overlap
}

#[test]
fn policies_overlap_unless_their_conditions_show_that_no_value_fulfils_both() {
    for (one, other, expected) in [
        ("path: /a", "path: /a", true),
        ("path: /a", "path: /b", false),
        ("path: [/a, /b]", "path: [/c, /b]", true),
        ("path: [/a, /b]", "path: [/c, /d]", false),
        ("path: /a/*", "path: /a/b", true),
        ("path: /a/*", "path: /b/c", false),
        // Any two prefixes were reported as overlapping.
        ("path: /a/*", "path: /b/*", false),
        ("path: /a/*", "path: /a/b/*", true),
        ("path: '/a?b'", "path: '/*b'", true),
        ("path: /a", "user: { present: true }", true),
        ("path: /a, user: { present: true }", "path: /a, user: { absent: true }", false),
        ("path: /a, user: alice", "path: /a, user: { absent: true }", false),
        ("user: alice", "user: { not: { present: true } }", false),
        ("user: 'a*'", "user: { absent: true }", false),
        // An empty value is absent.
        ("user: '*'", "user: { absent: true }", true),
        ("user: { not: alice }", "user: { absent: true }", true),
        ("path: /a", "path: { not: /a }", false),
        ("path: [/a, /b]", "path: { not: /a }", true),
        ("path: { prefix: /a, not: /a/b }", "path: /a/b", false),
        ("path: { prefix: /a, not: /a/b }", "path: /a/c", true),
        ("ip: { cidr: 10.0.0.0/8 }", "ip: { cidr: 192.0.2.0/24 }", false),
        ("ip: { cidr: 10.0.0.0/8 }", "ip: { cidr: 10.1.0.0/16 }", true),
        ("path: /a", "any: [{ path: /b }, { path: /c }]", false),
        ("path: /a", "any: [{ path: /b }, { path: /a }]", true),
    ] {
        assert_eq!(overlap(one, other), expected, "{one} and {other}");
    }
}

/// With a hundred thousand policies, comparing each with all others took minutes.
#[test]
fn an_index_finds_what_a_comparison_with_all_policies_finds() {
    let texts =
        ["/a", "/a/b", "/a/b/c", "/b", "'*'", "/a/*", "/a/b/*", "/*/b", "'*b'", "[/a, /b/*]", "[/b, '/*c']"];
    let tests = ["{ not: /a }", "{ present: true }", "{ absent: true }", "{ equal: /A, ignore_case: true }"];
    let path = texts.iter().chain(&tests).map(|test| format!("path: {test}"));
    let users =
        ["user: alice", "user: [alice, bob]", "user: 'a*'", "ip: { cidr: 10.0.0.0/8 }", "method: GET"];
    let users: Vec<String> = users.map(String::from).into();
    let both = path.clone().flat_map(|path| users.iter().map(move |user| format!("{user}, {path}")));
    let any = path
        .clone()
        .zip(users.iter().cycle())
        .map(|(path, user)| format!("any: [{{ {path} }}, {{ {user} }}]"));
    let matches: Vec<String> = path.clone().chain(both).chain(any).chain(users.clone()).collect();
    let policy = |(number, matches)| {
        format!("  - {{ name: p{number}, match: {{ {matches} }}, key: [user], quotas: [5/1m] }}\n")
    };
    let text = "policies:\n".to_owned() + &matches.iter().enumerate().map(policy).collect::<String>();
    let config = Config::parse("index.yaml", &text).unwrap_or_else(|error| panic!("{error}"));
    let policies = config.policies().as_slice();
    let mut index = OverlapIndex::default();
    policies.iter().for_each(|policy| index.insert(policy));

    let names = |found: &mut dyn Iterator<Item = &Policy>| -> BTreeSet<String> {
        found.map(|policy| policy.name().to_owned()).collect()
    };
    let mut some_are_apart = false;
    for policy in policies {
        let overlapping = names(&mut policies.iter().filter(|other| other.overlaps(policy)));
        assert_eq!(names(&mut index.overlapping(policy)), overlapping, "{}", policy.conditions());
        let covering = names(&mut policies.iter().filter(|other| other.covers(policy)));
        assert_eq!(names(&mut index.covering(policy)), covering, "{}", policy.conditions());
        some_are_apart |= overlapping.len() < policies.len();
    }
    assert!(some_are_apart);
}
