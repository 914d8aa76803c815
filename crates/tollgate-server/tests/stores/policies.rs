//! Policies from a file: the answers to callers and administrators, and reloads of the file.
//!
//! Windows are days that start at the first hit, so that none ends during a test.

#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_testkit::servers::{self, Software};

use crate::support::folder::Folder;
use crate::support::{Connection, Reply, Server, charged, get, quotas, tollgate, undisturbed, until};

fn serve(file: &str, more: &[&str]) -> Server {
    Server::start(&[&["--config", file], more].concat())
}

/// Long enough that deadlines do not matter.
const PATIENT: [&str; 4] = ["--store-timeout", "30s", "--store-connect-timeout", "30s"];

fn url_of(cluster: &servers::Cluster) -> String {
    let seeds: Vec<String> = cluster.nodes().iter().map(|node| node.address().to_string()).collect();
    format!("redis+cluster://{}", seeds.join(","))
}

/// A file with one policy for everybody, with this limit.
fn limit(limit: u64) -> String {
    format!("policies: [{{ name: all, key: global, quotas: [{limit}/1d@first_hit] }}]\n")
}

fn live_version(server: &Server) -> u64 {
    server.admin_get("/v1/policies").json()["version"].as_u64().expect("a version")
}

/// Asserts that this many changes became live because they were noticed, and none because of the look at the file every
/// half minute, which would also be in time on a slow machine.
#[track_caller]
fn assert_noticed(server: Server, changes: usize) {
    server.signal("TERM");
    let (_, log) = server.wait();
    let replaced: Vec<_> = log.lines().filter(|line| line.contains("policies are replaced")).collect();
    assert_eq!(replaced.len(), changes, "{log}");
    assert!(replaced.iter().all(|line| !line.contains(r#"cause="interval""#)), "{log}");
}

fn live_limit(server: &Server) -> Value {
    server.get("/v1/check?cost=0").json()["limit"].clone()
}

/// Returns the number of quotas that apply to a request.
fn live_quotas(server: &Server) -> usize {
    quotas(&server.get("/v1/check?cost=0").json()).len()
}

const SHOP: &str = "
defaults: { deny_status: 403 }
policies:
  - name: search
    match: { path: /search }
    key: [user]
    quotas: [3/1d@first_hit, 100/2d@first_hit]
    candidate: [1/1d@first_hit]
    overrides: [{ when: { tier: gold }, quotas: [5/1d@first_hit] }]
  - { name: all, key: [user], on_missing_key: deny, deny_status: 401, headers: none, quotas: [4/1d@first_hit] }
  - { name: dark, mode: shadow, key: global, quotas: [2/1d@first_hit] }
  - { name: health, match: { path: /healthz }, exempt: true }
";

#[test]
fn answers_name_the_policy_and_the_version() {
    let folder = Folder::new();
    let server = serve(&folder.write("t.yaml", SHOP), &[]);
    let first = server.get("/v1/check?user=alice&path=/search");
    let body = first.json();
    assert_eq!((first.status, &body["policy"], &body["version"]), (200, &json!("search"), &json!(1)));
    let named = |body: &Value| -> Vec<String> {
        let name = |quota: &Value| format!("{} {}", quota["policy"], quota["quota"]).replace('"', "");
        body["quotas"].as_array().expect("quotas").iter().map(name).collect()
    };
    assert_eq!(named(&body), ["search 3/1d@first_hit", "search 100/2d@first_hit", "all 4/1d@first_hit"]);
    let told = first.header("ratelimit").unwrap_or_default();
    assert!(told.contains(r#""search/3/1d@first_hit";r=2"#) && told.contains(r#""all";r=3"#), "{told}");
    assert_eq!(
        body["trials"],
        json!([
            { "policy": "search", "kind": "candidate", "answer": "allowed", "limit": 1, "used": 1 },
            { "policy": "dark", "kind": "shadow", "answer": "allowed", "limit": 2, "used": 1 },
        ])
    );

    let verdicts: Vec<(u16, Value)> = (0..3)
        .map(|_| server.get("/v1/check?user=alice&path=/search"))
        .map(|reply| (reply.status, reply.json()["trials"][0]["answer"].clone()))
        .collect();
    assert_eq!(verdicts, [(200, json!("denied")), (200, json!("denied")), (403, json!("denied"))]);
    let denied = server.get("/v1/check?user=alice&path=/search").json();
    assert_eq!(
        (&denied["status"], &denied["violated-policies"]),
        (&json!(403), &json!(["search/3/1d@first_hit"]))
    );

    // A change of tier counts at once, on the same counter; then the other policy denies, in its own way.
    assert_eq!(server.get("/v1/check?user=alice&path=/search&tier=gold").json()["quotas"][0]["used"], 4);
    let denied = server.get("/v1/check?user=alice&path=/");
    assert_eq!((denied.status, &denied.json()["policy"]), (401, &json!("all")));
    assert_eq!((denied.header("ratelimit"), denied.header("retry-after").is_some()), (None, true));

    let metric = |name: &str| server.metric(name);
    assert_eq!(metric(r#"tollgate_decisions_total{policy="search",verdict="denied"}"#), Some(2.0));
    assert_eq!(metric(r#"tollgate_decisions_total{policy="all",verdict="denied"}"#), Some(1.0));
    assert_eq!(
        metric(r#"tollgate_trials_total{policy="search",kind="candidate",answer="denied"}"#),
        Some(4.0)
    );
    assert_eq!(metric(r#"tollgate_trials_total{policy="dark",kind="shadow",answer="allowed"}"#), Some(2.0));
    assert_eq!(metric(r#"tollgate_decisions_total{policy="dark",verdict="denied"}"#), None);
}

#[test]
fn an_answer_without_a_quota_names_the_ground() {
    let folder = Folder::new();
    let policies = "policies:
  - { name: api, match: { path: /api/* }, key: [user], on_missing_key: deny, deny_status: 401, quotas: [1/1d] }
  - { name: strict, match: { path: /strict }, key: [user], quotas: [1/1d] }
  - { name: health, match: { path: /healthz }, exempt: true }
";
    let server = serve(&folder.write("t.yaml", policies), &[]);
    let free = server.get("/v1/check?path=/");
    assert_eq!(free.json(), json!({ "allowed": true, "version": 1, "ground": "unlimited" }));
    assert_eq!((free.status, free.header("ratelimit")), (200, None));
    let exempt = server.get("/v1/check?path=/healthz").json();
    assert_eq!((&exempt["ground"], &exempt["policy"]), (&json!("exempt"), &json!("health")));
    let unknown = server.post("/v1/check", r#"{"attributes": {"path": "/api/a"}}"#);
    let body = unknown.json();
    assert_eq!(
        (unknown.status, &body["reason"], &body["allowed"]),
        (401, &json!("missing_key"), &json!(false))
    );
    assert_eq!(body["type"], "urn:problem-type:tollgate:missing-key");
    server.get("/v1/check?path=/strict").assert_problem(400, Some("query.user"));
    let batch = r#"{"requests": [{"attributes": {"path": "/strict"}}, {"attributes": {"path": "/"}}]}"#;
    let batch = server.post("/v1/check/batch", batch).json();
    assert_eq!(batch["decisions"][0]["field"], "requests[0].attributes.user");
    assert_eq!(batch["decisions"][1]["ground"], "unlimited");
    assert_eq!(server.metric("tollgate_unlimited_checks_total"), Some(2.0));
}

#[test]
fn administrators_change_every_quota_that_applies() {
    let folder = Folder::new();
    let server = serve(&folder.write("t.yaml", SHOP), &[]);
    let alice = json!({ "user": "alice", "path": "/search" });
    let decision = server.post("/v1/check", &json!({ "attributes": alice, "cost": 2 }).to_string()).json();
    let windows = charged(&decision);
    let refund = json!({ "attributes": alice, "cost": 1, "version": 1, "windows": windows }).to_string();
    let refunded = server.admin_post("/v1/refund", &refund).json();
    assert_eq!((&refunded["version"], &refunded["quotas"][2]["policy"]), (&json!(1), &json!("all")));
    let used = |quotas: &Value| -> Vec<u64> {
        quotas.as_array().expect("quotas").iter().filter_map(|quota| quota["used"].as_u64()).collect()
    };
    assert_eq!(used(&refunded["quotas"]), [1, 1, 1]);
    let set = json!({ "attributes": alice, "used": 3 }).to_string();
    assert_eq!(used(&server.admin_post("/v1/set", &set).json()["quotas"]), [3, 3, 3]);
    let reset = json!({ "attributes": alice }).to_string();
    assert_eq!(used(&server.admin_post("/v1/reset", &reset).json()["quotas"]), [0, 0, 0]);

    // The same request under a file with as many other quotas.
    folder.write("t.yaml", &SHOP.replace("100/2d@first_hit", "100/3d@first_hit"));
    assert_eq!(server.admin_post("/v1/policies/reload", "").status, 200);
    assert_eq!(used(&server.admin_post("/v1/set", &set).json()["quotas"]), [3, 3, 3]);
    server.admin_post("/v1/refund", &refund).assert_problem(409, Some("windows[1]"));
    assert_eq!(used(&server.post("/v1/peek", &reset).json()["quotas"]), [3, 3, 3]);
}

/// The error for `ip=unknown` said that `ip` is missing.
#[test]
fn the_error_of_a_request_without_a_key_names_the_attribute() {
    let folder = Folder::new();
    let policies = "policies:
- { name: asked, match: { path: /asked }, key: [ip], quotas: [5/1d] }
- { name: either, match: { path: /either }, key: { first_of: [user, ip] }, quotas: [5/1d] }
- { name: denied, match: { path: /denied }, key: [ip], on_missing_key: deny, quotas: [5/1d] }
";
    let server = serve(&folder.write("t.yaml", policies), &[]);
    for (request, status, wrong) in [
        ("path=/asked", 400, "`ip` is missing"),
        ("path=/asked&ip=", 400, "`ip` is empty"),
        ("path=/asked&ip=unknown", 400, "`ip` is not an address"),
        ("path=/either&ip=unknown", 400, "`ip` is not an address"),
        ("path=/denied&ip=unknown", 429, "`ip` is not an address"),
    ] {
        let reply = server.get(&format!("/v1/check?{request}"));
        assert_eq!(reply.status, status, "{request}");
        let body = reply.json();
        assert!(body["detail"].as_str().is_some_and(|detail| detail.ends_with(wrong)), "{request}: {body}");
        let field = wrong.split('`').nth(1).map(|name| format!("query.{name}"));
        assert_eq!(body["field"].as_str(), field.as_deref().filter(|_| status == 400), "{request}");
    }
    let neither = server.get("/v1/check?path=/either");
    neither.assert_problem(400, Some("query"));
    assert!(
        neither.json()["detail"]
            .as_str()
            .is_some_and(|detail| detail.ends_with("none of [user, ip] is there"))
    );
}

#[test]
fn administrators_see_the_policies_and_no_value_that_may_be_secret() {
    let folder = Folder::new();
    let text = format!(
        "{SHOP}  - name: partner
    match: {{ token: hunter2 }}
    key: global
    quotas: [9/1d]
    overrides: [{{ when: {{ tier: gold }}, quotas: unlimited }}]
"
    );
    let file = folder.write("t.yaml", &text);
    let server = serve(&file, &[]);
    let reply = server.admin_get("/v1/policies");
    assert!(!String::from_utf8_lossy(&reply.body).contains("hunter2"));
    let body = reply.json();
    assert_eq!((&body["version"], body["source"].as_str()), (&json!(1), Some(&*file)));
    assert!(body["age_ms"].as_u64().is_some_and(|age| age < 60_000));
    let names: Vec<&str> = body["policies"]
        .as_array()
        .expect("policies")
        .iter()
        .filter_map(|policy| policy["name"].as_str())
        .collect();
    assert_eq!(names, ["health", "search", "all", "dark", "partner"]);
    let search = &body["policies"][1];
    assert_eq!(
        (&search["line"], &search["match"], &search["key"]),
        (&json!(4), &json!(["path"]), &json!("user"))
    );
    assert_eq!(search["overrides"][0]["quotas"], json!(["5/1d@first_hit"]));
    assert_eq!(search["settings"]["on_store_failure"], "open");
    assert_eq!(search["overrides"][0]["unlimited"], false);
    assert_eq!(body["policies"][3]["mode"], "shadow");
    let partner = &body["policies"][4];
    assert_eq!((&partner["unlimited"], &partner["overrides"][0]["unlimited"]), (&json!(false), &json!(true)));
    assert_eq!(partner["overrides"][0]["quotas"], json!([]));

    let schema = server.admin_get("/v1/policies/schema").json();
    assert!(schema["properties"]["policies"].is_object(), "{schema}");
    for path in ["/v1/policies", "/v1/policies/schema"] {
        server.get(path).assert_problem(404, None);
    }
    server.post("/v1/policies/reload", "").assert_problem(404, None);
    let flags = Server::start(&["--limit", "5/1d"]);
    flags.admin_post("/v1/policies/reload", "").assert_problem(409, None);
    assert_eq!(flags.admin_get("/v1/policies").json()["source"], "flags");
}

#[test]
fn an_administrator_or_a_signal_reloads_the_file() {
    let folder = Folder::new();
    let file = folder.write("t.yaml", &limit(3));
    let server = serve(&file, &[]);
    assert_eq!(server.get("/v1/check?cost=2").status, 200);
    folder.write("t.yaml", &limit(4));
    let reply = server.admin_post("/v1/policies/reload", "");
    // The change of the file may have been noticed before.
    assert_eq!((reply.status, &reply.json()["version"]), (200, &json!(2)));
    let body = server.get("/v1/check").json();
    assert_eq!((&body["limit"], &body["used"]), (&json!(4), &json!(3)), "the counter is kept");

    // A moved policy with the same meaning is not a new version.
    folder.write("t.yaml", &format!("# a comment\n\n{}", limit(4)));
    let again = server.admin_post("/v1/policies/reload", "").json();
    assert_eq!(again, json!({ "replaced": false, "version": 2 }));

    let signals =
        || server.metric(r#"tollgate_policies_reloads_total{outcome="unchanged"}"#).unwrap_or_default();
    let before = signals();
    server.signal("HUP");
    until("SIGHUP has the file read", || signals() > before);
    assert_eq!(live_version(&server), 2);
    server.signal("TERM");
    let (status, log) = server.wait();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("[3/1d@first_hit] -> [4/1d@first_hit]"), "{log}");
    assert!(log.contains("SIGHUP"), "{log}");
}

#[test]
fn notices_every_way_to_change_the_file() {
    let folder = Folder::new();
    let file = folder.write("t.yaml", &limit(1));
    let server = serve(&file, &[]);
    // Written in place.
    fs::write(&file, limit(2)).expect("a file can be written");
    until("written in place", || live_limit(&server) == 2);
    // As editors do it: the new file replaces the old one.
    fs::rename(folder.write(".t.yaml.swp", &limit(3)), &file).expect("it can be renamed");
    until("renamed over", || live_limit(&server) == 3);
    // The old one moved away first.
    fs::rename(&file, folder.path("t.yaml~")).expect("it can be renamed");
    folder.write("t.yaml", &limit(4));
    until("written anew", || live_limit(&server) == 4);
    assert_eq!(server.get("/readyz").body, b"ready\n");
    assert_noticed(server, 3);
}

/// Half of a file is valid if it ends between two policies. It went live until the editor continued, and requests for
/// the policies of the other half were not limited.
#[test]
fn a_slowly_written_file_goes_live_as_a_whole() {
    undisturbed(|| {
        let policy =
            |name: &str, limit| format!("  - {{ name: {name}, key: global, quotas: [{limit}/1d] }}\n");
        let folder = Folder::new();
        let before = format!("policies:\n{}{}{}", policy("a", 1), policy("b", 1), policy("c", 1));
        let path = folder.write("t.yaml", &before);
        let server = serve(&path, &[]);
        let mut file = fs::File::create(&path).expect("it is truncated");
        for piece in ["policies:\n", &policy("a", 2), &policy("b", 2), &policy("c", 2)] {
            // Longer than the time between two looks.
            thread::sleep(Duration::from_millis(400));
            file.write_all(piece.as_bytes()).expect("a file can be written");
        }
        drop(file);
        let live = || String::from_utf8(server.admin_get("/v1/policies").body).expect("text");
        until("it is whole", || live().matches("2/1d").count() == 3);
        assert_eq!(live_version(&server), 2);
        server.signal("TERM");
        let (_, log) = server.wait();
        assert!(!log.contains("policies stay as they are"), "{log}");
    });
}

/// A file that is renamed into place is complete, and goes live at once. The service remembered this after a rename
/// that a signal or a write followed, so half of a file that was then written in place went live.
#[test]
fn a_write_after_a_rename_may_be_incomplete() {
    undisturbed(|| {
        for is_asked in [true, false] {
            let policy =
                |name: &str, limit| format!("  - {{ name: {name}, key: global, quotas: [{limit}/1d] }}\n");
            let whole = |limit| format!("policies:\n{}{}", policy("a", limit), policy("b", limit));
            let folder = Folder::new();
            let path = folder.write("t.yaml", &whole(1));
            let server = serve(&path, &[]);
            folder.write("t.yaml", &whole(2));
            thread::sleep(Duration::from_millis(30));
            if is_asked {
                server.signal("HUP");
                until("it is renamed and read", || live_limit(&server) == 2);
                // Longer than what happens to one file takes.
                thread::sleep(Duration::from_millis(300));
            }
            fs::write(&path, format!("policies:\n{}", policy("a", 3))).expect("it can be written");
            for _ in 0..8 {
                thread::sleep(Duration::from_millis(100));
                assert_eq!(live_quotas(&server), 2, "half of it is live");
            }
            fs::write(&path, whole(3)).expect("it can be written");
            until("it is whole", || live_limit(&server) == 3);
        }
    });
}

#[test]
fn a_file_cut_short_is_live_at_once_by_request_and_else_after_a_while() {
    let folder = Folder::new();
    let two = format!("{}# and a comment that makes it longer\n", limit(3));
    let path = folder.write("t.yaml", &two);
    let server = serve(&path, &[]);
    fs::write(&path, limit(2)).expect("a file can be written");
    server.admin_post("/v1/policies/reload", "");
    assert_eq!(live_limit(&server), 2);
    fs::write(&path, "policies: []\n").expect("a file can be written");
    until("it is live by itself", || live_limit(&server) == Value::Null);
    // Without a line end it may be cut as well.
    fs::write(&path, limit(4).trim_end()).expect("a file can be written");
    until("it is live by itself", || live_limit(&server) == 4);
    assert_noticed(server, 3);
}

#[test]
fn a_folder_is_followed_with_its_new_and_removed_files() {
    let folder = Folder::new();
    folder.write("10-all.yaml", &limit(3));
    let server = serve(folder.root().to_str().expect("text"), &[]);
    assert_eq!(live_quotas(&server), 1);

    let more = "policies: [{ name: more, key: global, quotas: [2/1d@first_hit] }]\n";
    folder.write("20-more.yaml", more);
    until("a new file", || live_version(&server) == 2);
    assert_eq!(live_quotas(&server), 2);

    // One name in two files: both places are told, and nothing changes.
    folder.write("30-again.yaml", more);
    let reload = server.admin_post("/v1/policies/reload", "");
    reload.assert_problem(422, None);
    let told = reload.json()["detail"].to_string();
    let place = |name: &str| folder.path(name);
    assert!(
        told.contains(&format!(
            "{}:1:12: duplicate policy name `more`, already used",
            place("30-again.yaml")
        )),
        "{told}"
    );
    assert!(told.contains(&format!("in line 1 of {}", place("20-more.yaml"))), "{told}");
    assert_eq!(live_version(&server), 2);

    fs::remove_file(folder.path("30-again.yaml")).expect("it can be removed");
    fs::remove_file(folder.path("20-more.yaml")).expect("it can be removed");
    until("two files are gone", || live_version(&server) == 3);
    assert_eq!(live_quotas(&server), 1);
    assert_noticed(server, 2);
}

#[test]
fn a_table_in_its_own_file_is_reloaded() {
    let folder = Folder::new();
    let text = "policies:
  - { name: all, key: global, quotas: [3/1d@first_hit], overrides: { by: user, values_from: users.csv } }
  - { name: banned, match: { user: { one_of_from: banned.txt } }, key: global, quotas: [0/1d] }
";
    folder.write("users.csv", "alice,5/1d@first_hit\n");
    folder.write("banned.txt", "# nobody\n");
    let server = serve(&folder.write("t.yaml", text), &[]);
    let limit = |user: &str| server.get(&format!("/v1/check?cost=0&user={user}")).json()["limit"].clone();
    assert_eq!((limit("alice"), limit("bob")), (5.into(), 3.into()));
    folder.write("users.csv", "alice,5/1d@first_hit\nbob,7/1d@first_hit\n");
    until("a table with a line more", || limit("bob") == 7);
    folder.write("banned.txt", "bob\n");
    until("a list with a line more", || limit("bob") == 0);
    let error = "t.yaml:2:93: cannot read `users.csv` in the same folder";
    fs::remove_file(folder.path("users.csv")).expect("it can be removed");
    let reload = server.admin_post("/v1/policies/reload", "");
    assert!(reload.json()["detail"].to_string().contains(error), "{}", reload.json());
    assert_eq!(limit("alice"), 5);
    assert_noticed(server, 2);
}

#[test]
fn files_may_be_named_one_by_one() {
    let folder = Folder::new();
    let (all, more) = (folder.write("all.yaml", &limit(3)), folder.path("more.yaml"));
    folder.write("more.yaml", "policies: [{ name: more, key: global, quotas: [2/1d@first_hit] }]\n");
    let server = serve(&all, &["--config", &more]);
    assert_eq!(live_quotas(&server), 2);
    folder.write("more.yaml", "policies: []\n");
    until("the second file", || live_version(&server) == 2);
    assert_eq!(live_quotas(&server), 1);
    assert_noticed(server, 1);
}

/// Opening a pipe waits for its writer. A pipe in place of the file silently stopped all later reloads, even after the
/// file was back.
#[test]
fn refuses_a_pipe_in_place_of_the_file_and_continues() {
    let folder = Folder::new();
    let path = folder.write("t.yaml", &limit(1));
    let server = serve(&path, &[]);
    fs::remove_file(&path).expect("it can be removed");
    let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo is there");
    assert!(made.success());
    let reload = server.admin_post("/v1/policies/reload", "");
    reload.assert_problem(422, None);
    assert!(String::from_utf8_lossy(&reload.body).contains("it is not a regular file"));
    server.signal("HUP");
    folder.write("t.yaml", &limit(2));
    until("a file is back", || live_limit(&server) == 2);
    assert_noticed(server, 1);

    fs::remove_file(&path).expect("it can be removed");
    let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo is there");
    assert!(made.success());
    let output = tollgate().args(["serve", "--config"]).arg(&path).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("cannot read") && error.contains("it is not a regular file"), "{error}");
}

/// As kubelet updates a ConfigMap: the file is a link through `..data`, which is replaced.
#[test]
fn notices_the_update_of_a_config_map() {
    let folder = Folder::new();
    let publish = |name: &str, text: &str| {
        fs::create_dir(folder.path(name)).expect("a folder can be made");
        folder.write(&format!("{name}/tollgate.yaml"), text);
        symlink(name, folder.path("..data_tmp")).expect("a link can be made");
        fs::rename(folder.path("..data_tmp"), folder.path("..data")).expect("it can be renamed");
    };
    publish("..2026_11_21_1", &limit(1));
    let file = folder.path("tollgate.yaml");
    symlink("..data/tollgate.yaml", &file).expect("a link can be made");
    let server = serve(&file, &[]);
    assert_eq!(live_limit(&server), 1);
    publish("..2026_11_21_2", &limit(2));
    fs::remove_dir_all(folder.path("..2026_11_21_1")).expect("it can be removed");
    until("the first swap", || live_limit(&server) == 2);
    publish("..2026_11_21_3", &limit(3));
    until("the second swap", || live_limit(&server) == 3);
    assert_noticed(server, 2);
}

#[test]
fn an_invalid_file_changes_nothing_and_is_reported_until_it_is_valid() {
    let folder = Folder::new();
    let file = folder.write("t.yaml", &limit(2));
    let server = serve(&file, &[]);
    folder.write("t.yaml", "policies: [{ name: all, key: global, quotas: [5/1mm], colour: red }]\n");
    let failed = || server.metric(r#"tollgate_policies_reloads_total{outcome="failed"}"#);
    until("it is noticed", || failed() >= Some(1.0));
    assert_eq!((live_limit(&server), live_version(&server)), (json!(2), 1));
    assert_eq!(server.metric("tollgate_policies_in_step"), Some(0.0));
    let ready = server.get("/readyz");
    let text = String::from_utf8_lossy(&ready.body).into_owned();
    assert_eq!(ready.status, 200);
    assert!(text.contains("the policy file cannot be used: version 1 stays live"), "{text}");
    let error = server.admin_get("/v1/policies").json()["not_live"]["error"].clone();
    let error = error.as_str().expect("an error");
    assert!(error.contains("5/1mm") && error.contains("colour") && error.lines().count() == 2, "{error}");
    let reload = server.admin_post("/v1/policies/reload", "");
    reload.assert_problem(422, None);
    assert!(reload.json()["detail"].as_str().is_some_and(|detail| detail.contains("colour")));

    fs::remove_file(&file).expect("it can be removed");
    server.admin_post("/v1/policies/reload", "").assert_problem(422, None);
    assert_eq!(server.get("/v1/check").status, 200);

    folder.write("t.yaml", &limit(3));
    until("a good file counts at once", || live_limit(&server) == 3);
    assert_eq!((live_version(&server), server.get("/readyz").body), (2, b"ready\n".to_vec()));
    assert_eq!(server.metric("tollgate_policies_in_step"), Some(1.0));
    assert_eq!(server.admin_get("/v1/policies").json().get("not_live"), None);
    server.signal("TERM");
    let (_, log) = server.wait();
    assert!(log.contains("t.yaml:1:") && log.contains("colour"), "every error is in the log: {log}");
}

/// Every reload logged all warnings again, even if nothing had changed.
#[test]
fn a_warning_is_logged_once() {
    let folder = Folder::new();
    let server = serve(&folder.write("t.yaml", &limit(2)), &[]);
    for text in [limit(2), format!("# moved by a line\n{}", limit(2))] {
        folder.write("t.yaml", &text);
        assert_eq!(server.admin_post("/v1/policies/reload", "").json()["replaced"], false);
    }
    folder.write("t.yaml", &limit(3));
    assert_eq!(server.admin_post("/v1/policies/reload", "").status, 200);
    server.signal("TERM");
    let (_, log) = server.wait();
    assert_eq!(log.matches("long-window-alone").count(), 2, "one for each limit: {log}");
}

/// A line break in a key of the file forged a line of the log.
#[test]
fn an_invalid_file_forges_no_log_line() {
    let folder = Folder::new();
    let server = serve(&folder.write("t.yaml", &limit(2)), &[]);
    folder.write("t.yaml", "policies: []\n\"x\\nforged\\e[2J\": 1\n");
    server.admin_post("/v1/policies/reload", "").assert_problem(422, None);
    server.signal("TERM");
    let (_, log) = server.wait();
    assert!(log.contains(r"x\nforged\u{1b}[2J") && !log.contains("\nforged"), "{log}");
}

/// G10. Each version names its policies after its limit, which shows an answer that mixes two. `TOLLGATE_RELOADS` sets
/// the number of reloads.
#[test]
fn of_many_reloads_under_load_no_decision_mixes_two() {
    let reloads = std::env::var("TOLLGATE_RELOADS").map_or(1_000, |count| count.parse().expect("a number"));
    let version = |number: usize| {
        let limit = 1_000_000 + number;
        let policy =
            |name: &str| format!("  - {{ name: {name}-{limit}, key: global, quotas: [{limit}/1d] }}\n");
        format!("policies:\n{}{}", policy("one"), policy("other"))
    };
    let folder = Folder::new();
    let server = serve(&folder.write("t.yaml", &version(0)), &[]);
    let (over, checks) = (AtomicBool::new(false), AtomicUsize::new(0));
    /// Stops the clients even if the test fails, because it would never end otherwise.
    struct StopOnDrop<'a>(&'a AtomicBool);

    impl Drop for StopOnDrop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let consistent = |reply: &Reply| {
        let body = reply.json();
        let quotas = body["quotas"].as_array().expect("quotas");
        let limits: BTreeSet<u64> = quotas.iter().filter_map(|quota| quota["limit"].as_u64()).collect();
        let [limit] = limits.into_iter().collect::<Vec<_>>()[..] else { panic!("two versions: {body}") };
        for (quota, name) in quotas.iter().zip(["one", "other"]) {
            assert_eq!(quota["policy"], format!("{name}-{limit}"), "{body}");
        }
        assert_eq!((reply.status, quotas.len()), (200, 2), "{body}");
    };

    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut connection = server.connect();
                while !over.load(Ordering::Relaxed) {
                    consistent(&connection.ask(&get("/v1/check?user=alice")));
                    checks.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _stop = StopOnDrop(&over);
        let mut admin = Connection::open(server.admin);
        let mut last = 0;
        for number in 1..=reloads {
            let is_bad = number % 10 == 0;
            folder.write(
                "new",
                &if is_bad { format!("{}nonsense: 1\n", version(number)) } else { version(number) },
            );
            fs::rename(folder.path("new"), folder.path("t.yaml")).expect("it can be renamed");
            let reply = admin.ask(&crate::support::post("/v1/policies/reload", ""));
            assert_eq!(
                reply.status,
                if is_bad { 422 } else { 200 },
                "{}",
                String::from_utf8_lossy(&reply.body)
            );
            last = if is_bad { last } else { number };
            if is_bad {
                let body = server.get("/v1/check?user=bob").json();
                assert_eq!(body["limit"], 1_000_000 + last, "the last good one stays");
            }
        }
    });
    let checks = checks.load(Ordering::Relaxed);
    assert!(checks > 10);
    println!("RESULT prove/reloads reloads={reloads} checks={checks} mixed=0");
    assert_eq!(live_version(&server), (reloads - reloads / 10 + 1) as u64);
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
    assert_eq!(server.get("/readyz").body, b"ready\n");
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

#[test]
fn exits_with_2_if_the_file_is_not_valid() {
    let folder = Folder::new();
    let fails = |arguments: &[&str]| {
        let output = tollgate().arg("serve").args(arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let file = folder.write("t.yaml", "policies: [{ name: a b, key: global, quotas: [5/1mm] }]\n");
    let file = &*file;
    let error = fails(&["--config", file]);
    assert!(error.contains("is not valid") && error.matches("t.yaml:1:").count() == 2, "{error}");
    assert!(fails(&["--config", "/nowhere/t.yaml"]).contains("cannot read /nowhere/t.yaml"));
    let secret =
        folder.write("store.yaml", &format!("store: {{ url: \"redis://:hunter2@h:x\" }}\n{}", limit(1)));
    let error = fails(&["--config", &secret]);
    assert!(error.contains("store") && !error.contains("hunter2"), "{error}");
    for conflicting in [&["--limit", "5/1m"][..], &["--key", "user"], &["--count-denied"]] {
        assert!(fails(&[&["--config", file], conflicting].concat()).contains("cannot be used with"));
    }
    assert!(fails(&["--config", file, "--on-store-failure", "closed"]).contains("cannot be used with"));
    assert!(fails(&[]).contains("--limit"));
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

#[test]
fn a_deny_list_needs_no_store_and_is_reloaded() {
    let folder = Folder::new();
    let list = folder.write("banned.txt", "192.0.2.0/24\n");
    let text = "deny: { ip_from: banned.txt }
allow: { user: [root] }
policies: [{ name: all, key: [user], quotas: [9/1d@first_hit] }]
";
    let server = serve(&folder.write("t.yaml", text), &[]);
    let check = |query: &str| server.get(&format!("/v1/check?{query}"));
    let denied = check("ip=192.0.2.7&user=alice");
    let body = denied.json();
    assert_eq!((denied.status, &body["type"]), (403, &json!("urn:problem-type:tollgate:denied")));
    assert_eq!(
        (&body["policy"], &body["ground"], &body["reason"]),
        (&json!("deny"), &json!("denied"), &json!("denied"))
    );
    assert_eq!(body["violated-policies"], json!(["deny"]));
    assert_eq!(check("ip=192.0.2.7&user=root").json()["ground"], "exempt");
    assert_eq!(check("ip=198.51.100.1&user=alice").json()["used"], 1, "the denial took nothing");
    let listed = server.admin_get("/v1/policies").json()["policies"].clone();
    let shown = |place: usize| (listed[place]["name"].clone(), listed[place]["denies"].clone());
    assert_eq!((shown(0), shown(1)), ((json!("allow"), json!(false)), (json!("deny"), json!(true))));
    let metrics = String::from_utf8(server.admin_get("/metrics").body).expect("a text");
    assert!(
        metrics.lines().any(|line| line.contains("policy=\"deny\"") && line.ends_with(" 1")),
        "{metrics}"
    );

    fs::write(&list, "198.51.100.0/24\n").expect("it can be written");
    until("the other list is live", || check("ip=198.51.100.1&user=alice&cost=0").status == 403);
    assert_eq!(check("ip=192.0.2.7&user=alice").status, 200);
}
