//! Properties of every text that is read as a policy file.

use tollgate_policy::{Attributes, Config, ConfigError, Outcome, Policy};

/// Requests that resemble the words of these texts.
const REQUESTS: [&[(&str, &str)]; 4] = [
    &[],
    &[("user", "alice"), ("path", "/search"), ("method", "GET"), ("tier", "gold")],
    &[("ip", "10.0.0.1"), ("path", "/internal/metrics"), ("tokens", "7"), ("tenant", "internal-a")],
    &[("ip", "2001:db8::1"), ("user", ""), ("path", "/v1/*"), ("tokens", "many"), ("a", "")],
];

/// Panics if a property does not hold.
pub(crate) fn holds(text: &str) {
    // The variable's value looks like everything that YAML treats specially.
    let variables = |name: &str| (name != "UNSET").then(|| format!("{name}: [*a, &b {{c}}]\n- !d 'e\" #f"));
    let config = match Config::parse_with("any.yaml", text, &variables) {
        Ok(config) => config,
        Err(error) => return is_told(&error, text),
    };
    assert!(config.changes_since(&config).is_empty());
    for warning in config.warnings() {
        assert!(!warning.to_string().contains('\n'), "{warning}");
    }
    for request in REQUESTS {
        let attributes: Attributes<'_> = request.iter().copied().collect();
        is_matched(&config, &attributes);
    }
}

/// Checks that each problem has a place in the text, is one line of a bounded length, and repeats no value of a
/// variable.
fn is_told(error: &ConfigError, text: &str) {
    let ConfigError::Invalid { problems, .. } = error else { panic!("{error}") };
    assert!(!problems.is_empty());
    let lines = text.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).count();
    for problem in problems {
        let (at, told) = (problem.at(), problem.to_string());
        assert!((1..=lines + 1).contains(&at.line) && at.column >= 1, "{told}");
        assert!(told.chars().count() < 700 && !told.contains('\n'), "{told}");
        assert!(!told.contains("[*a, &b {c}]") || text.contains("[*a, &b {c}]"), "{told}");
    }
}

/// Checks that the index finds the same as a look at every policy, and that only these policies charge.
fn is_matched(config: &Config, attributes: &Attributes<'_>) {
    let policies = config.policies();
    let found: Vec<&str> = policies.matching(attributes).map(Policy::name).collect();
    let all = policies.as_slice().iter();
    let scanned: Vec<&str> =
        all.filter(|policy| policy.matches(attributes) == Ok(true)).map(Policy::name).collect();
    assert_eq!(found, scanned);
    if let Ok(Outcome::Charge(matched)) = policies.charges(attributes, 1) {
        assert!(matched.policies().all(|policy| found.contains(&policy.name())));
        let _ =
            matched.enforced().count() + matched.trials().map(|trial| trial.charges().count()).sum::<usize>();
    }
}
