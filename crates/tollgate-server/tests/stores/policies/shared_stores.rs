//! Policies over a shared store: outages, Clusters, and the store that the file names.

use serde_json::{Value, json};
use tollgate_testkit::servers::{self, Software};

use super::{limit, live_version, serve};
use crate::support::folder::Folder;
use crate::support::{quotas, tollgate, until};

/// Long enough that deadlines do not matter.
const PATIENT: [&str; 4] = ["--store-timeout", "30s", "--store-connect-timeout", "30s"];

fn url_of(cluster: &servers::Cluster) -> String {
    let seeds: Vec<String> = cluster.nodes().iter().map(|node| node.address().to_string()).collect();
    format!("redis+cluster://{}", seeds.join(","))
}

#[test]
fn each_policy_handles_an_outage_as_it_says() {
    let store = servers::Server::start(Software::Redis);
    let folder = Folder::new();
    let url = format!("redis://{}", store.address());
    let policies = format!(
        "store: {{ url: \"{url}\", prefix: shop }}
policies:
  - {{ name: open, match: {{ path: [/open, /open-local] }}, key: [user], quotas: [9/1d@first_hit] }}
  - {{ name: local, match: {{ path: [/local, /open-local] }}, key: [user], quotas: [4/1d@first_hit],
      on_store_failure: local, local_share: 1/2 }}
  - {{ name: closed, match: {{ path: /closed }}, key: [user], quotas: [9/1d@first_hit], on_store_failure: closed }}
  - {{ name: dark, mode: shadow, key: [user], quotas: [9/1d@first_hit], on_store_failure: closed }}
"
    );
    let file = folder.write("t.yaml", &policies);
    let server = serve(&file, &["--store-timeout", "30s", "--store-connect-timeout", "30s"]);
    until("the store counts", || server.get("/v1/check?user=bob&path=/open").json()["source"] == "store");
    let keys: Vec<String> = store.command(["KEYS", "shop:*"]);
    assert_eq!(keys.len(), 2, "one for each policy, that in shadow mode too: {keys:?}");

    store.kill();
    let check = |path: &str| server.get(&format!("/v1/check?user=alice&path={path}"));
    let open = check("/open").json();
    assert_eq!((&open["source"], &open["used"], open.get("trials")), (&json!("fallback"), &json!(0), None));
    let mixed: Vec<(u16, Value, Value)> = (0..3)
        .map(|_| check("/open-local"))
        .map(|reply| {
            (
                reply.status,
                reply.json()["quotas"][0]["used"].clone(),
                reply.json()["quotas"][1]["used"].clone(),
            )
        })
        .collect();
    assert_eq!(
        mixed,
        [(200, json!(0), json!(1)), (200, json!(0), json!(2)), (429, json!(0), json!(2))],
        "only what says local is counted, against its share"
    );
    let detail = check("/open-local").json()["detail"].to_string();
    assert!(detail.contains("has 0 of this process's 2 left"), "{detail}");
    let closed = check("/closed");
    closed.assert_problem(503, None);
    assert_eq!(closed.json()["type"], "urn:problem-type:tollgate:store-unavailable");
    assert_eq!(check("/").json()["trials"][0]["answer"], "failed", "a shadow refuses nobody");
    assert_eq!(server.metric(r#"tollgate_failed_checks_total{policy="closed"}"#), Some(1.0));
    assert_eq!(server.metric(r#"tollgate_failed_checks_total{policy="dark"}"#), None);
    assert_eq!(
        server.metric(r#"tollgate_fallback_decisions_total{policy="local",verdict="denied"}"#),
        Some(2.0)
    );
    let ready = server.get("/readyz");
    let text = String::from_utf8_lossy(&ready.body).into_owned();
    assert!(text.starts_with("ready; decided by on_store_failure (closed, local, open)"), "{text}");

    // Policies may change meanwhile: what is closed now refuses.
    folder.write(
        "t.yaml",
        &policies.replace("local_share: 1/2", "").replace("failure: local", "failure: closed"),
    );
    assert_eq!(server.admin_post("/v1/policies/reload", "").json()["replaced"], true);
    assert_eq!(check("/local").status, 503);
    server.signal("TERM");
    let (_, log) = server.wait();
    assert!(log.contains("counters are shared") && log.contains("the store does not answer"), "{log}");
}

#[test]
fn policies_that_count_different_keys_go_together_on_a_cluster() {
    let cluster = servers::Cluster::with(&servers::Settings::new(Software::Redis));
    let folder = Folder::new();
    let text = |across: &str| {
        format!(
            "store: {{ url: \"{}\"{across} }}
policies:
  - {{ name: users, match: {{ user: {{ present: true }} }}, key: [user], quotas: [9/1d@first_hit] }}
  - {{ name: tenants, match: {{ tenant: {{ present: true }} }}, key: [tenant], quotas: [3/1d@first_hit] }}
",
            url_of(&cluster)
        )
    };
    let by_file = (folder.write("reserve.yaml", &text(", across_slots: reserve")), &[][..]);
    let by_flag = (
        folder.write("refuse.yaml", &text(", across_slots: refuse")),
        &["--store-across-slots", "reserve"][..],
    );
    for (file, flags) in [by_file, by_flag] {
        let server = serve(&file, &[&PATIENT, flags].concat());
        until("the store counts", || server.get("/v1/check?user=u&cost=0").json()["source"] == "store");
        let checks: Vec<(u16, Value)> = (0..5)
            .map(|user| server.get(&format!("/v1/check?tenant=t&user=u{user}")))
            .map(|reply| (reply.status, reply.json()["source"].clone()))
            .collect();
        let stored = |status: u16| (status, json!("store"));
        assert_eq!(checks, [stored(200), stored(200), stored(200), stored(429), stored(429)]);
        server.admin_post("/v1/reset", r#"{"attributes": {"tenant": "t", "user": "u0"}}"#);
    }
}

/// Every such request was admitted uncounted, as in an outage. It is refused, without `Retry-After`.
#[test]
fn a_request_that_a_cluster_can_never_count_is_refused_and_names_the_policies() {
    let cluster = servers::Cluster::with(&servers::Settings::new(Software::Redis));
    let folder = Folder::new();
    // That one request may have both roles, no file shows.
    let file = folder.write(
        "roles.yaml",
        &format!(
            "store: {{ url: \"{}\" }}
policies:
  - {{ name: writers, match: {{ role: writer }}, key: [user], quotas: [9/1d@first_hit] }}
  - {{ name: readers, match: {{ role: reader }}, key: [tenant], quotas: [3/1d@first_hit] }}
",
            url_of(&cluster)
        ),
    );
    let server = serve(&file, &PATIENT);
    until("the store counts", || {
        server.get("/v1/check?user=u&role=writer&cost=0").json()["source"] == "store"
    });
    let both = r#"{"attributes": {"tenant": "t", "user": "u9", "role": ["writer", "reader"]}}"#;
    for reply in [server.post("/v1/check", both), server.post("/v1/peek", both)] {
        reply.assert_problem(500, None);
        let body = reply.json();
        assert_eq!(body["type"], "urn:problem-type:tollgate:uncountable");
        assert_eq!(body["title"], "Request cannot be counted");
        assert_eq!(body["policies"], json!(["writers", "readers"]));
        assert_eq!((&body["reason"], reply.header("retry-after")), (&json!("uncountable"), None));
    }
    // The problem does not mention the store.
    assert_eq!(server.metric("tollgate_store_up"), Some(1.0));
    let one = r#"{"attributes": {"user": "u9", "role": "writer"}}"#;
    let batch = server.post("/v1/check/batch", &format!("{{\"requests\": [{both}, {one}]}}")).json();
    assert_eq!((&batch["decisions"][0]["status"], &batch["decisions"][1]["used"]), (&json!(500), &json!(1)));
    assert!(server.get("/readyz").body.starts_with(b"ready\n"));
    assert_eq!(server.metric(r#"tollgate_store_errors_total{kind="uncountable"}"#), Some(3.0));
    assert_eq!(server.metric(r#"tollgate_http_requests_rejected_total{status="500"}"#), Some(2.0));
    server.signal("TERM");
    let log = server.wait().1;
    assert_eq!(log.matches("does not fit the store").count(), 1, "{log}");
    assert!(log.contains("writers:1d@first_hit:{"), "it does not name the policies: {log}");
    assert!(log.contains("must have the same key") && !log.contains("the store does not answer"), "{log}");
}

/// A file without problems of its own went live on a Cluster that a flag or a variable named, where each request that
/// matched two policies was refused. Only if the file named the Cluster, there was a warning.
#[test]
fn a_file_that_the_cluster_in_use_cannot_count_does_not_go_live() {
    const APART: &str = "
policies:
  - { name: users, match: { path: /a/* }, key: [user], quotas: [9/1d@first_hit] }
  - { name: tenants, match: { path: [/b/*, /a/x] }, key: [tenant], quotas: [3/1d@first_hit] }
";
    let (cluster, single) = ("redis+cluster://127.0.0.1:1", "redis://127.0.0.1:1");
    let folder = Folder::new();
    let bare = folder.write("bare.yaml", APART);
    let named = folder.write("named.yaml", &format!("store: {{ url: \"{cluster}\" }}{APART}"));
    let reserving = folder
        .write("reserve.yaml", &format!("store: {{ url: \"{cluster}\", across_slots: reserve }}{APART}"));
    let reason = "policy `tenants` cannot be counted: one request may match it and policy `users`, whose counters are in \
                  other slots of the Cluster; let `match` keep them apart, or charge slot by slot with \
                                                                                                                                                                `across_slots: \
                                                                                                                                                                reserve` \
                                                                                                                                                                (`--store-across-slots \
                                                                                                                                                                reserve`)";

    let run = |command: &str, file: &str, flags: &[&str], variables: &[(&str, &str)]| {
        let mut run = tollgate();
        run.envs(variables.iter().copied()).arg(command);
        if command == "serve" {
            run.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--config"]);
        }
        let output = run.arg(file).args(flags).output().expect("it runs");
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).expect("text"))
    };
    for (file, flags, variables) in [
        (&bare, &["--store", cluster][..], &[][..]),
        (&bare, &[], &[("TOLLGATE_STORE", cluster)]),
        (&named, &[], &[]),
        (&named, &[], &[("TOLLGATE_STORE", "rediss+cluster://127.0.0.1:1")]),
        (&reserving, &["--store-across-slots", "refuse"], &[]),
        (&reserving, &[], &[("TOLLGATE_STORE_ACROSS_SLOTS", "refuse")]),
    ] {
        for (command, status) in [("check-config", 1), ("serve", 2)] {
            let (code, said) = run(command, file, flags, variables);
            assert_eq!(code, Some(status), "{command} {file} {flags:?} {variables:?}: {said}");
            let place = said.contains(&format!("{file}:4:5: "));
            assert!(place && said.contains(reason), "{said}");
        }
    }
    for (file, flags, variables) in [
        (&bare, &[][..], &[][..]),
        (&bare, &["--store", single], &[]),
        (&named, &["--store", single], &[]),
        (&named, &[], &[("TOLLGATE_STORE", single)]),
        (&named, &["--store-across-slots", "reserve"], &[]),
        (&bare, &["--store", cluster], &[("TOLLGATE_STORE_ACROSS_SLOTS", "reserve")]),
        (&reserving, &[], &[]),
    ] {
        let (code, said) = run("check-config", file, flags, variables);
        assert_eq!(code, Some(0), "{file} {flags:?} {variables:?}: {said}");
    }
    let (code, said) = run("check-config", &bare, &["--store", "nowhere"], &[]);
    assert!(code == Some(2) && said.contains("`--store`: ") && !said.contains("nowhere"), "{said}");

    // As long as the service runs, its store is the one that it was started with.
    let fitting = APART.replace(", /a/x", "");
    let live = folder.write("live.yaml", &fitting);
    let server = serve(&live, &["--store", cluster, "--store-connect-timeout", "1ms"]);
    let asks_both = "/v1/check?path=/a/x&user=u&tenant=t";
    assert_eq!(quotas(&server.get(asks_both).json()).len(), 1);
    for text in [APART.to_owned(), format!("store: {{ url: \"{single}\" }}{APART}")] {
        folder.write("live.yaml", &text);
        let refused = server.admin_post("/v1/policies/reload", "");
        assert!(
            refused.status == 422 && String::from_utf8_lossy(&refused.body).contains(reason),
            "{refused:?}"
        );
        assert_eq!(live_version(&server), 1);
    }
    folder.write("live.yaml", &fitting);
    server.signal("TERM");
    let log = server.wait().1;
    assert!(log.contains(reason), "{log}");
}

#[test]
fn flags_override_the_store_of_the_file_which_is_read_at_the_start_only() {
    let (file_store, flag_store) =
        (servers::Server::start(Software::Redis), servers::Server::start(Software::Redis));
    let folder = Folder::new();
    let url = |store: &servers::Server| format!("redis://{}", store.address());
    let text =
        |prefix: &str| format!("store: {{ url: \"{}\", prefix: {prefix} }}\n{}", url(&file_store), limit(3));
    let file = folder.write("t.yaml", &text("one"));
    let patient = ["--store-timeout", "30s", "--store-connect-timeout", "30s"];

    let server =
        serve(&file, &[&patient[..], &["--store", &url(&flag_store), "--store-prefix", "two"]].concat());
    assert_eq!(server.get("/v1/check").json()["source"], "store");
    assert_eq!(flag_store.command::<Vec<String>>(["KEYS", "two:*"]).len(), 1);
    assert_eq!(file_store.command::<Vec<String>>(["KEYS", "*"]).len(), 0);
    drop(server);

    let server = serve(&file, &[&patient[..], &["--store", &url(&flag_store)]].concat());
    assert_eq!(server.get("/v1/check").json()["source"], "store");
    assert_eq!(flag_store.command::<Vec<String>>(["KEYS", "one:*"]).len(), 1, "the file's prefix holds");
    drop(server);

    let server = serve(&file, &patient);
    assert_eq!(server.get("/v1/check").json()["used"], 1);
    folder.write("t.yaml", &text("other"));
    assert_eq!(
        server.admin_post("/v1/policies/reload", "").json(),
        json!({ "replaced": false, "version": 1 })
    );
    assert_eq!(server.get("/v1/check").json()["used"], 2);
    assert_eq!(file_store.command::<Vec<String>>(["KEYS", "one:*"]).len(), 1);
    server.signal("TERM");
    assert!(server.wait().1.contains("`store:` has changed"));
}

/// A process remembers the used units of a denial, not the denial itself.
#[test]
fn a_limit_from_an_attribute_counts_on_one_counter_of_a_shared_store() {
    let store = servers::Server::start(Software::Redis);
    let folder = Folder::new();
    let text = format!(
        "store: {{ url: \"redis://{}\" }}
policies:
  - {{ name: api, key: [user], on_store_failure: closed,
      quotas: [{{ limit: {{ attribute: quota }}, max: 5, window: 1d@first_hit }}] }}
",
        store.address()
    );
    let file = folder.write("t.yaml", &text);
    let servers = [0, 1].map(|_| serve(&file, &["--store-timeout", "30s", "--store-connect-timeout", "30s"]));
    until("the store counts", || {
        servers.iter().all(|server| server.get("/v1/check?user=bob&quota=5&cost=0").status == 200)
    });
    let ask = |place: usize, quota: &str| {
        let reply = servers[place].get(&format!("/v1/check?user=alice&quota={quota}"));
        let body = reply.json();
        (reply.status, body["limit"].as_u64(), body["used"].as_u64())
    };
    assert_eq!(ask(0, "2"), (200, Some(2), Some(1)));
    assert_eq!(ask(1, "2"), (200, Some(2), Some(2)));
    for _ in 0..2 {
        assert_eq!(ask(0, "2"), (429, Some(2), Some(2)));
        assert_eq!(ask(0, "1"), (429, Some(1), Some(2)));
    }
    assert_eq!(ask(0, "3"), (200, Some(3), Some(3)), "it has room by this limit");
    assert_eq!(ask(1, "9"), (200, Some(5), Some(4)), "cut down to the most");
    let keys: Vec<String> = store.command(["KEYS", "*"]);
    assert_eq!(keys.len(), 1, "one counter, whatever the limit: {keys:?}");
    let missing = servers[0].get("/v1/check?user=alice");
    assert_eq!((missing.status, &missing.json()["field"]), (400, &json!("query.quota")));
    let listed = servers[0].admin_get("/v1/policies").json()["policies"][0]["quotas"].clone();
    assert_eq!(listed, json!(["{ limit: { attribute: quota }, max: 5, window: 1d@first_hit }"]));
}
