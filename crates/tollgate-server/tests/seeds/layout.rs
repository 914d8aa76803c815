//! Keys as another system writes them: chosen in a file of policies or by a flag, and checked before anything counts.

use tollgate_testkit::servers::Software;

use super::{keys, refused, serve, still, url, written};
use crate::support::tollgate;

const SECOND: i64 = 1_700_000_100;

fn file(name: &str, layout: &str, policies: &str) -> String {
    let text = format!(
        "store: {{ url: \"${{REDIS_URL}}\", prefix: shop, layout: {layout} }}\npolicies:\n{policies}"
    );
    written(name, &text)
}

const BY_USER: &str = "- { name: a, key: [user], quotas: [5/1m] }\n";

#[test]
fn a_file_or_a_flag_says_how_keys_are_written_and_the_flag_wins() {
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

/// The store refused such requests one by one, and a policy that admits in trouble admitted everybody.
#[test]
fn policies_that_the_layout_cannot_take_are_refused_by_name() {
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
    let cannot = "cannot be counted under the layout of keys:";
    for problem in [
        format!(":5:3: policy `anchored` {cannot} 5/1h@first_hit: only windows that are aligned"),
        format!(
            ":6:3: policy `pair` {cannot} its key has 2 values, and `rlaas:rate_limit:{{userId}}:{{window}}` names 1"
        ),
        format!(":7:3: policy `choice` {cannot} its key has 2 values"),
        format!(":8:3: policy `tried` {cannot} 5/day@UTC: only windows"),
        format!(":12:3: policy `varied` {cannot} how many values its key has depends on the request"),
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
            ":1:53: unknown layout of keys: expected rlaas, leetdezine, spring-starter, user-rate-limit, or a template",
        ),
        ("\"l:{user}{window}\"", ":1:53: layout of keys, column 9: there has to be text between two names"),
        ("\"l:{user}\"", ":1:53: layout of keys: it has to name the window"),
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

#[test]
fn a_reload_that_the_layout_cannot_take_changes_nothing() {
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
