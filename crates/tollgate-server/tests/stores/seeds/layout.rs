//! Layouts of other systems' keys: chosen in a file of policies or by a flag, and checked before anything is counted.

use tollgate_testkit::servers::Software;

use super::{example, keys, refused, serve, still, url, written};
use crate::support::tollgate;

const SECOND: i64 = 1_700_000_100;

fn file(name: &str, layout: &str, policies: &str) -> String {
    let prefix = if layout == "spring-starter" { "prefix: shop, " } else { "" };
    let store = format!("store: {{ url: \"${{REDIS_URL}}\", {prefix}layout: {layout} }}");
    written(name, &format!("{store}\npolicies:\n{policies}"))
}

const BY_USER: &str = "- { name: a, key: [user], quotas: [5/1m] }\n";

#[test]
fn a_file_or_a_flag_sets_the_layout_and_the_flag_wins() {
    let store = still(Software::Redis, SECOND);
    let redis = url(&store);
    let counted = |arguments: &[&str]| {
        store.command::<()>(["FLUSHALL"]);
        let server = serve(&[("REDIS_URL", &redis)], arguments);
        assert_eq!(server.get("/v1/check?user=alice").status, 200);
        keys(&store)
    };
    let named = file("named.yaml", "spring-starter", BY_USER);
    assert_eq!(counted(&["--config", &named]), ["shop:alice:1700000100000"]);
    let template = file("template.yaml", "\"l:{policy}:{user}:{window}\"", BY_USER);
    assert_eq!(counted(&["--config", &template]), ["l:a:alice:28333335"]);
    let flag = ["--config", &template, "--store-layout", "user-rate-limit"];
    assert_eq!(counted(&flag), ["rate_limit:alice:28333335"]);
    let flags = ["--limit", "5/1m", "--key", "user", "--store", &redis, "--store-layout", "rlaas"];
    assert_eq!(counted(&flags), ["rlaas:rate_limit:alice:28333335"]);
}

/// The prefix was silently left out, so services that relied on it shared their counters with all others on the server.
#[test]
fn refuses_a_prefix_that_no_key_would_have() {
    let store = "store: { url: \"redis://h\", prefix: shop, layout: rlaas }";
    let path = written("prefix.yaml", &format!("{store}\npolicies:\n{BY_USER}"));
    let needless =
        "would have no effect: the key layout `rlaas:rate_limit:{userId}:{window}` does not contain";
    let said = refused(&[], &["--config", &path]);
    assert!(said.contains(&format!("prefix.yaml:1:36: `prefix` {needless} {{prefix}}")), "{said}");
    let output = tollgate().args(["check-config", &path]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let checked = String::from_utf8_lossy(&output.stdout);
    assert!(checked.contains(&format!("prefix.yaml:1:36: error: `prefix` {needless}")), "{checked}");

    let misfit =
        written("misfit.yaml", &format!("{store}\npolicies:\n{}", BY_USER.replace("user", "user, path")));
    let said = refused(&[], &["--config", &misfit]);
    assert!(said.contains("misfit.yaml:1:36: ") && said.contains("misfit.yaml:3:3: "), "{said}");

    let ours = store.replace(", layout: rlaas", "");
    let ours = written("ours.yaml", &format!("{ours}\npolicies:\n{BY_USER}"));
    let said = refused(&[], &["--config", &ours, "--store-layout", "rlaas"]);
    assert!(said.contains(&format!("ours.yaml:1:36: `prefix` {needless}")), "{said}");
    let theirs = file("theirs.yaml", "rlaas", BY_USER);
    let import = ["--import", "rlaas", &example("rlaas/application.yaml")];
    let (prefix, named) = (["--store-prefix", "shop"], ["--store-layout", "rlaas"]);
    let flags = ["--limit", "5/1m", "--key", "user"];
    for arguments in
        [&["--config", &theirs][..], &import, &[&flags[..], &["--store", "redis://h"], &named].concat()]
    {
        let said = refused(&[("REDIS_URL", "redis://h")], &[arguments, &prefix].concat());
        assert!(said.contains(&format!("`--store-prefix` {needless} {{prefix}}")), "{said}");
    }
}

/// A shorter log would remove what a longer one counts.
#[test]
fn refuses_logs_of_two_lengths_in_one_sorted_set() {
    let policies = |other: &str| {
        format!(
            "- {{ name: search, key: [user], match: {{ path: /search }}, quotas: [5/1m~log] }}\n\
             - {{ name: login, key: [user], match: {{ path: /login }}, quotas: [{other}] }}\n"
        )
    };
    let path = file("logs.yaml", "rlaas", &policies("\"9/1h~log\""));
    let said = refused(&[("REDIS_URL", "redis://h")], &["--config", &path]);
    let expected = "policy `login` cannot be counted: 5/1m~log and 9/1h~log may share a log";
    assert!(said.contains(expected), "{said}");
    for other in ["\"9/1m~log\"", "9/1h"] {
        let path = file("logs.yaml", "rlaas", &policies(other));
        let output = tollgate().args(["check-config", &path]).env("REDIS_URL", "redis://h").output();
        assert_eq!(output.expect("it runs").status.code(), Some(0), "{other}");
    }
}

/// The store refused each such request, and a policy with `open` then admitted everybody.
#[test]
fn refuses_policies_that_do_not_fit_the_layout_by_name() {
    let policies = "
- { name: fine, key: [user], quotas: [5/1m] }
- { name: anchored, key: [user], quotas: [5/1m, 5/1h@first_hit] }
- { name: pair, key: [user, path], quotas: [5/1m] }
- { name: choice, key: { first_of: [user, ip] }, quotas: [5/1m] }
- name: tried
  key: [user]
  quotas: [5/1m]
  candidate: [5/day@UTC]
- { name: varied, key: { first_of: [user, [user, ip]] }, quotas: [5/1m] }
- { name: everybody, key: global, quotas: [5/1m] }
- { name: free, key: global, quotas: unlimited }
- { name: health, match: { path: /healthz }, exempt: true }
";
    let path = file("misfits.yaml", "rlaas", policies);
    let said = refused(&[("REDIS_URL", "redis://h")], &["--config", &path]);
    let output =
        tollgate().args(["check-config", &path]).env("REDIS_URL", "redis://h").output().expect("it runs");
    let checked = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1));
    let cannot = "cannot be counted:";
    for problem in [
        format!(
            ":5:3: policy `anchored` {cannot} 5/1h@first_hit: a key layout can only hold windows that are aligned"
        ),
        format!(
            ":6:3: policy `pair` {cannot} its key has 2 values, but the key layout `rlaas:rate_limit:{{userId}}:{{window}}` names 1"
        ),
        format!(":7:3: policy `choice` {cannot} its key has 2 values"),
        format!(":8:3: policy `tried` {cannot} 5/day@UTC: a key layout can only hold windows"),
        format!(":12:3: policy `varied` {cannot} the number of values in its key varies"),
        format!(":13:3: policy `everybody` {cannot} its key has 0 values"),
    ] {
        assert!(said.contains(&problem), "{problem}\n{said}");
        assert!(
            checked.contains(&problem.replacen(": policy", ": error: policy", 1)),
            "{problem}\n{checked}"
        );
    }
    assert_eq!(checked.matches("error:").count(), 6, "{checked}");

    for (layout, problem) in [
        (
            "rlas",
            ":1:39: unknown key layout: expected rlaas, leetdezine, spring-starter, user-rate-limit, envoy-ratelimit, or a template",
        ),
        ("\"l:{user}{window}\"", ":1:39: key layout, column 9: two names must have text between them"),
        ("\"l:{user}\"", ":1:39: key layout: it must contain the window"),
    ] {
        let said =
            refused(&[("REDIS_URL", "redis://h")], &["--config", &file("wrong.yaml", layout, BY_USER)]);
        assert!(said.contains(problem), "{problem}\n{said}");
    }
    let store = ["--store", "redis://h", "--store-layout"];
    let flags = |limit: &[&str], layout: &str| refused(&[], &[limit, &store, &[layout]].concat());
    assert!(
        flags(&["--limit", "5/1m@first_hit", "--key", "user"], "rlaas")
            .contains("`--store-layout`: policy `default`")
    );
    assert!(flags(&["--limit", "5/1m"], "rlaas").contains("`--store-layout` needs `--key`"));
    assert!(flags(&["--limit", "5/1m"], "rlas").contains("expected rlaas, leetdezine"));
}

/// Problems of the layout were only reported once the file had no others.
#[test]
fn reports_problems_of_the_layout_with_those_of_the_file() {
    let told = |layout: &str, policies: &str| {
        let path = file("together.yaml", layout, policies);
        let mut check = tollgate();
        let output = check.args(["check-config", &path]).env("REDIS_URL", "http://h").output();
        let said = String::from_utf8_lossy(&output.expect("it runs").stdout).into_owned();
        let served = refused(&[("REDIS_URL", "http://h")], &["--config", &path]);
        let places =
            said.lines().filter_map(|line| line.split_once("together.yaml:")?.1.split_once(": error: "));
        let told: Vec<(String, bool)> =
            places.map(|(at, problem)| (at.to_owned(), served.contains(problem))).collect();
        told
    };
    let told_by_both = |at: &str| (at.to_owned(), true);
    // The second has no key, which is a problem of the file and not of the layout.
    let policies = "- { name: pair, key: [user, path], quotas: [5/1m] }
- { name: nobody, quotas: [5/1m] }
- { name: unknown, key: [user, path], quotas: [5/1x] }
- { name: anchored, key: [user], quotas: [5/1m@first_hit] }
";
    // `serve` does not read the URL of the store before the file is valid.
    let url = ("1:15".to_owned(), false);
    let rest = ["3:3", "4:3", "5:48", "6:3"].map(told_by_both);
    assert_eq!(told("rlaas", policies), [&[url.clone()][..], &rest].concat());
    let rest = ["1:39", "4:3", "5:48"].map(told_by_both);
    assert_eq!(told("rlas", policies), [&[url][..], &rest].concat());
}

/// Two windows that started at the same instant had one key. In the first minute of an hour, the store refused every
/// request, and a policy with `open` admitted it. A candidate used up the quota that decides.
#[test]
fn refuses_quotas_that_share_a_counter_by_name() {
    let policies = "
- { name: fine, match: { path: /fine }, key: [user], quotas: [5/1m], candidate: [9/1h] }
- { name: starts, match: { path: /starts }, key: [user], quotas: [5/1m, 100/1h] }
- { name: tried, match: { path: /tried }, key: [user], quotas: [5/1m], candidate: [9/1m] }
- { name: both, match: { path: /both }, key: [user], quotas: [5/1m], candidate: [9/1h, 9/1d] }
- name: over
  match: { path: /over }
  key: [user]
  quotas: [5/1m]
  overrides: [{ when: { tier: gold }, quotas: [5/1m, 50/1h] }]
";
    let said = |layout: &str| {
        let path = file("alike.yaml", layout, policies);
        let said = refused(&[("REDIS_URL", "redis://h")], &["--config", &path]);
        said.lines().filter(|line| line.contains("policy `")).map(str::to_owned).collect::<Vec<_>>()
    };
    let because = "because the key layout `l:{user}:{window_start}` does not contain";
    let starts = said("\"l:{user}:{window_start}\"");
    for (policy, quotas, name) in [
        ("fine", "5/1m and the candidate 9/1h", "{policy}"),
        ("starts", "5/1m and 100/1h", "{windows}"),
        ("tried", "5/1m and the candidate 9/1m", "{policy}"),
        ("both", "9/1h and 9/1d", "{windows}"),
        ("over", "5/1m and 50/1h", "{windows}"),
    ] {
        let problem =
            format!("policy `{policy}` cannot be counted: {quotas} may share a counter, {because} {name}");
        assert!(starts.iter().any(|line| line.ends_with(&problem)), "{problem}\n{starts:#?}");
    }
    let [numbers] = said("\"l:{user}:{window}\"").try_into().expect("one");
    assert!(numbers.contains("policy `tried`"), "{numbers}");
    let [windows] = said("\"l:{user}:{windows}:{window_start}\"").try_into().expect("one");
    assert!(windows.contains("policy `tried`"), "{windows}");
    let path = file("alike.yaml", "\"l:{policy}:{user}:{windows}:{window_start}\"", policies);
    let check =
        tollgate().args(["check-config", &path]).env("REDIS_URL", "redis://h").output().expect("it runs");
    assert_eq!(check.status.code(), Some(0), "{}", String::from_utf8_lossy(&check.stdout));
}

/// The store refused requests that both policies match, or counted them twice if one was in shadow mode.
#[test]
fn refuses_policies_that_share_a_counter_by_name() {
    let policies = "
- { name: api, match: { path: /api/* }, key: [user], quotas: [100/1m] }
- { name: login, match: { path: /api/login }, key: [user], quotas: [5/1m, 50/1h] }
- { name: hourly, match: { path: /api/hour }, key: [user], quotas: [50/1h] }
- { name: elsewhere, match: { path: /web }, key: [user], quotas: [5/1m] }
- { name: others, match: { path: /api/login }, key: [ip], quotas: [5/1m] }
- { name: tried, match: { path: /web, tier: gold }, mode: shadow, key: [user], quotas: [9/1m] }
- { name: away, match: { path: /web }, enabled: false, key: [user], quotas: [9/1m] }
- { name: health, match: { path: /web }, exempt: true }
";
    let said = |layout: &str| {
        let path = file("shared.yaml", layout, policies);
        let mut check = tollgate();
        let output =
            check.args(["check-config", &path]).env("REDIS_URL", "redis://h").output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        said.lines().filter(|line| line.contains("error:")).map(str::to_owned).collect::<Vec<_>>()
    };
    let [login, tried] = said("user-rate-limit").try_into().expect("two");
    let shares = "policy `login` cannot be counted: 5/1m may share a counter with 100/1m of policy `api`, which matches the \
                  same requests, because the key layout `rate_limit:{user}:{window}` does not contain {policy}";
    assert!(login.ends_with(shares), "{login}");
    assert!(tried.contains("policy `tried`") && tried.contains("of policy `elsewhere`"), "{tried}");
    assert_eq!(said("\"l:{policy}:{user}:{window}\""), [""; 0]);
}

/// On a Cluster, the store refused each request, because its keys were in several slots.
#[test]
fn several_quotas_on_a_cluster_need_one_slot_or_a_store_that_reserves() {
    let several = "- { name: several, key: [user], quotas: [5/1m, 100/1h] }\n";
    let (plain, cluster) = ([("REDIS_URL", "redis://h")], [("REDIS_URL", "redis+cluster://h")]);
    let split = "policy `several` cannot be counted: its quotas are in several slots of the Cluster";
    let is_valid = |variables: &[(&str, &str)], path: &str| {
        let mut check = tollgate();
        check.envs(variables.iter().copied()).args(["check-config", path]);
        let output = check.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.success(), !said.contains(split), "{said}");
        output.status.success()
    };
    let apart = file("apart.yaml", "\"l:{user}:{window}\"", several);
    assert!(is_valid(&plain, &apart));
    assert!(!is_valid(&cluster, &apart));
    assert!(is_valid(&cluster, &file("single.yaml", "\"l:{user}:{window}\"", BY_USER)));
    assert!(is_valid(&cluster, &file("tagged.yaml", "\"l:{{{user}}}:{window}\"", several)));
    let reserving = file("reserving.yaml", "\"l:{user}:{window}\", across_slots: reserve", several);
    assert!(is_valid(&cluster, &reserving));

    // A flag overrides the store of the file.
    let serve = |variables: &[(&str, &str)], arguments: &[&str]| refused(variables, arguments);
    assert!(serve(&cluster, &["--config", &apart]).contains(split));
    assert!(serve(&plain, &["--config", &apart, "--store", "redis+cluster://h"]).contains(split));
    let tagged = "{prefix}:{{{user}}}:{window}";
    let flags = ["--config", &apart, "--store", "redis+cluster://h", "--store-layout", tagged];
    assert!(serve(&plain, &[&flags[..], &["--store-prefix", "{}"]].concat()).contains(split));
    let limits = ["--limit", "5/1m,100/1h", "--key", "user", "--store-layout", "rlaas", "--store"];
    let flags = [&limits[..], &["redis+cluster://h"]].concat();
    assert!(
        serve(&[], &flags)
            .contains("policy `default` cannot be counted: its quotas are in several slots of the Cluster")
    );
}

/// A shadow policy denies nobody, but it counts on the other system's counter. So a request that is sent to both
/// systems is counted twice.
#[test]
fn a_shadow_policy_counts_on_the_other_systems_counter() {
    let store = still(Software::Redis, SECOND);
    let shadow = BY_USER.replace("name: a", "name: a, mode: shadow");
    let server = serve(&[("REDIS_URL", &url(&store))], &["--config", &file("shadow.yaml", "rlaas", &shadow)]);
    let counter = "rlaas:rate_limit:alice:28333335";
    store.command::<()>(["SET", counter, "4", "EX", "60"]);
    let tried = |_| server.get("/v1/check?user=alice").json()["trials"][0]["answer"].clone();
    assert_eq!((0..2).map(tried).collect::<Vec<_>>(), ["allowed", "denied"]);
    assert_eq!(store.command::<u64>(["GET", counter]), 5);
}

#[test]
fn a_reload_that_does_not_fit_the_layout_changes_nothing() {
    let store = still(Software::Redis, SECOND);
    let path = file("changed.yaml", "rlaas", BY_USER);
    let server = serve(&[("REDIS_URL", &url(&store))], &["--config", &path]);
    file("changed.yaml", "rlaas", "- { name: a, key: [user], quotas: [9/1m@staggered] }\n");
    let reply = server.admin_post("/v1/policies/reload", "");
    reply.assert_problem(422, None);
    assert!(reply.json()["detail"].as_str().is_some_and(|detail| detail.contains("9/1m@staggered")));
    assert_eq!(server.get("/v1/check?user=alice").json()["limit"], 5);
    file("changed.yaml", "rlaas", "- { name: a, key: [user], quotas: [9/1m] }\n");
    assert_eq!(server.admin_post("/v1/policies/reload", "").status, 200);
    assert_eq!(server.get("/v1/check?user=alice").json()["limit"], 9);
}
