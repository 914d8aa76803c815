//! A path that decoding or dot segments change is read twice: as it was sent, and normalized.

use tollgate::MemoryStore;
use tollgate_policy::{Attributes, Config, FileOverride, Outcome, Policy, PolicyLimiter};
use tollgate_testkit::block_on;

/// Returns the outcome for this path: the policies that count it, or the one that decides without.
fn outcome(policies: &str, path: &str) -> Vec<String> {
    let config = Config::parse("tollgate.yaml", policies).unwrap_or_else(|error| panic!("{error}"));
    let request: Attributes<'_> = [("path", path), ("ip", "192.0.2.7")].into_iter().collect();
    match config.policies().charges(&request, 1).unwrap() {
        Outcome::Exempt(policy) => vec![format!("exempt by {}", policy.name())],
        Outcome::Deny(policy) => vec![format!("denied by {}", policy.name())],
        Outcome::DenyUnmatched => vec!["unmatched".to_owned()],
        Outcome::Charge(matched) => {
            let denying = matched.would_deny().map(|policy| format!("{} would deny", policy.name()));
            denying.chain(matched.policies().map(|policy| policy.name().to_owned())).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// An operator limited all requests and exempted the health check. `GET /api/..%2fhealthz` was exempt, because it is
/// `/healthz` once it is normalized, and Flask and Express served it as `/api`: any client could avoid the limit.
#[test]
fn a_spelling_of_an_exempt_path_that_services_may_read_otherwise_is_counted() {
    let limits = "
policies:
  - { name: all, key: [ip], quotas: [5/1m] }
  - { name: health, match: { path: /healthz }, exempt: true }
";
    for path in [
        "/api/..%2fhealthz",
        "/api/../healthz",
        "/api/%2e%2e/healthz",
        "/api//../healthz",
        "//healthz",
        "/%68ealthz",
        "/./healthz",
    ] {
        assert_eq!(outcome(limits, path), ["all"], "{path}");
        assert_eq!(
            outcome("allow: { path: /healthz }\npolicies: [{ name: all, key: [ip], quotas: [5/1m] }]", path),
            ["all"]
        );
    }
    assert_eq!(outcome(limits, "/healthz"), ["exempt by health"]);
    // A path that clients have to escape is exempt under both of its names.
    let escaped = "
policies:
  - { name: all, key: [ip], quotas: [5/1m] }
  - { name: menu, match: { path: [/café, /caf%C3%A9] }, exempt: true }
  - { name: files, match: { path: /static/* }, exempt: true }
";
    assert_eq!(outcome(escaped, "/caf%C3%A9"), ["exempt by menu"]);
    assert_eq!(outcome(escaped, "/static/caf%C3%A9%20au%20lait.png"), ["exempt by files"]);
    assert_eq!(outcome(escaped, "/static/../x"), ["all"]);
}

#[test]
fn a_policy_that_counts_or_denies_applies_if_one_reading_matches() {
    let limits = "
deny: { path: [/admin/*] }
policies:
  - { name: api, match: { path: /api/* }, key: [ip], quotas: [5/1m] }
  - { name: login, match: { path: /login }, key: [ip], quotas: [5/1m] }
  - { name: tried, match: { path: /api/* }, key: [ip], quotas: [5/1m], mode: shadow }
";
    assert_eq!(outcome(limits, "/api/../login"), ["api", "login", "tried"]);
    assert_eq!(outcome(limits, "/login"), ["login"]);
    for path in ["/api/../admin/x", "/admin/../login", "/admin/%2e%2e/", "/%61dmin/"] {
        assert_eq!(outcome(limits, path), ["denied by deny"], "{path}");
    }
    // Nothing legitimate is refused.
    let projects = "
policies:
  - { name: projects, match: { path: { glob: /projects/*, not: { glob: /projects/*/* } } }, key: [ip], quotas: [5/1m] }
  - { name: files, match: { path: { glob: /projects/*/* } }, key: [ip], quotas: [50/1m] }
";
    assert_eq!(outcome(projects, "/projects/a%2Fb"), ["projects", "files"]);
    assert_eq!(outcome(projects, "/projects/a%20b"), ["projects"]);
}

/// Each reading was right for itself, but a policy with two conditions on the path must not see one of each.
#[test]
fn all_conditions_of_a_policy_see_the_same_reading() {
    let limits = "
policies:
  - { name: both, match: { path: /api/*, any: [{ path: { not: /api/* } }, { path: /x }] }, key: [ip], quotas: [5/1m] }
  - { name: others, match: { path: { not: /healthz } }, key: [ip], quotas: [5/1m] }
  - { name: public, match: { path: { not: /admin/* } }, exempt: true }
";
    assert_eq!(outcome(limits, "/api/../healthz"), ["exempt by public"]);
    assert_eq!(outcome(limits, "/admin/../healthz"), ["others"]);
    assert_eq!(outcome(limits, "/x/../admin/y"), ["others"]);
    assert_eq!(outcome(limits, "/admin/..%2fapi/"), ["others"]);
}

/// `unmatched: deny` admits what some policy counts. A path that is counted in one reading only was a way to reach, in
/// the other, what no policy mentions.
#[test]
fn a_reading_that_no_policy_matches_is_denied_as_unmatched() {
    let limits = "
unmatched: deny
policies:
  - { name: api, match: { path: /api/* }, key: [ip], quotas: [5/1m] }
  - { name: login, match: { path: /login }, key: [ip], quotas: [5/1m] }
  - { name: health, match: { path: /healthz }, exempt: true }
";
    assert_eq!(outcome(limits, "/api/../secret"), ["unmatched"]);
    assert_eq!(outcome(limits, "/secret/../api/x"), ["unmatched"]);
    assert_eq!(outcome(limits, "/api/../login"), ["api", "login"]);
    assert_eq!(outcome(limits, "/api/x%20y"), ["api"]);
    assert_eq!(outcome(limits, "/api/../healthz"), ["api"]);
    assert_eq!(outcome(limits, "/secret/../healthz"), ["unmatched"]);
}

#[test]
fn a_path_is_decoded_once_and_keys_use_the_normalized_one() {
    let limits = "
policies:
  - { name: paths, key: [path], quotas: [5/1m] }
  - { name: once, match: { path: /%2e%2e/x }, key: [ip], quotas: [5/1m] }
  - { name: twice, match: { path: /x }, key: [ip], quotas: [5/1m] }
";
    assert_eq!(outcome(limits, "/a/%252e%252e/x"), ["paths"]);
    assert_eq!(outcome(limits, "/%252e%252e/x"), ["paths", "once"]);
    let config = Config::parse("tollgate.yaml", limits).unwrap_or_else(|error| panic!("{error}"));
    let key = |path| {
        let request: Attributes<'_> = [("path", path)].into_iter().collect();
        let name = config.policies().as_slice()[0].identity();
        name.key(&request).map(|key| key.canonical_bytes().into_owned()).unwrap()
    };
    assert!(key("/a/../b") == key("/b") && key("/%62") == key("/b") && key("/a") != key("/b"));
}

/// An override was a second way to be exempt: it gave more units to `/healthz`, and so to `/api/../healthz`.
#[test]
fn the_quotas_of_both_readings_apply_where_overrides_differ() {
    let limits = "
policies:
  - name: api
    match: { path: { not: /off/* } }
    key: [ip]
    quotas: [5/1m, 50/1h]
    candidate: [4/1m]
    overrides:
      - { when: { path: /healthz }, quotas: unlimited }
      - { when: { path: /search/* }, quotas: [3/1m, 9/1s], candidate: [2/1m] }
      - { by: path, values: { /bulk: [500/1m] } }
";
    let config = Config::parse("tollgate.yaml", limits).unwrap_or_else(|error| panic!("{error}"));
    let charged = |path: &str| {
        let request: Attributes<'_> = [("path", path), ("ip", "192.0.2.7")].into_iter().collect();
        let Ok(Outcome::Charge(matched)) = config.policies().charges(&request, 1) else { panic!("{path}") };
        let trials = matched.trials().flat_map(|trial| {
            assert_eq!(trial.declared().count(), trial.charges().count());
            trial.charges()
        });
        let written = |charge: tollgate::Charge<'_>| charge.counter().quota().quota().to_string();
        let mut all: Vec<String> = matched.enforced().map(written).collect();
        all.extend(trials.map(|charge| format!("tried {}", written(charge))));
        all
    };
    assert_eq!(charged("/healthz"), [""; 0]);
    assert_eq!(charged("/api"), ["5/1m", "50/1h", "tried 4/1m"]);
    assert_eq!(charged("/api/../healthz"), ["5/1m", "50/1h", "tried 4/1m"]);
    assert_eq!(charged("/search/../api"), ["3/1m", "50/1h", "9/1s", "tried 2/1m"]);
    assert_eq!(charged("/api/../search/x"), ["3/1m", "9/1s", "50/1h", "tried 2/1m"]);
    assert_eq!(charged("/search/../healthz"), ["3/1m", "9/1s", "tried 2/1m"]);
    assert_eq!(charged("/api/../bulk"), ["5/1m", "50/1h", "tried 4/1m"]);
    assert_eq!(charged("/search/%62ulk"), ["3/1m", "9/1s", "tried 2/1m"]);
    // The policy does not match the other reading.
    assert_eq!(charged("/off/../search/x"), ["3/1m", "9/1s", "tried 2/1m"]);
    assert_eq!(charged("/search/../off/x"), ["3/1m", "9/1s", "tried 2/1m"]);
}

/// A decision names the quotas that were charged, with their limits, and the policy that decided.
#[test]
fn a_decision_reports_the_quotas_of_both_readings() {
    let limits = "
policies:
  - name: api
    key: [ip]
    quotas: [5/1m@first_hit]
    overrides: [{ when: { path: /search }, quotas: [1/1m@first_hit, 9/1h@first_hit] }]
  - { name: last, key: [ip], quotas: [5/1d@first_hit] }
";
    let config = Config::parse("tollgate.yaml", limits).unwrap_or_else(|error| panic!("{error}"));
    let limiter = PolicyLimiter::new(MemoryStore::new(), config.into_policies(), "tollgate.yaml");
    let request: Attributes<'_> = [("path", "/x/../search"), ("ip", "192.0.2.7")].into_iter().collect();
    let decide = || block_on(limiter.check(&request, 1)).unwrap();
    assert!(decide().is_allowed());
    let denied = decide();
    assert_eq!((denied.is_allowed(), denied.policy().map(Policy::name)), (false, Some("api")));
    for it in denied.quotas() {
        let lists = it.policy.overrides().iter().flat_map(FileOverride::quotas).chain([it.policy.quotas()]);
        assert!(lists.flatten().any(|own| std::ptr::eq(own, it.declared)), "it is the policy's own quota");
    }
    let quotas = denied.quotas().map(|it| (it.policy.name(), it.quota.quota().to_string(), it.state.used()));
    assert_eq!(
        quotas.collect::<Vec<_>>(),
        [
            ("api", "1/1m@first_hit".to_owned(), 1),
            ("api", "9/1h@first_hit".to_owned(), 1),
            ("last", "5/1d@first_hit".to_owned(), 1),
        ]
    );
}
