//! Reloads by request, by signal and under load, and files that are refused.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use serde_json::json;

use super::{limit, live_limit, live_version, serve};
use crate::support::folder::Folder;
use crate::support::{Connection, Reply, get, until};

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
    assert_eq!(live_version(&server), 2);
    assert!(server.get("/readyz").body.starts_with(b"ready\n"));
    assert_eq!(server.metric("tollgate_policies_in_step"), Some(1.0));
    let live = server.admin_get("/v1/policies").json();
    assert_eq!((&live["decides"], live.get("not_live")), (&json!("policies"), None));
    let reload = &live["reloads"][0];
    assert_eq!((&reload["outcome"], &reload["version"]), (&json!("replaced"), &json!(2)));
    assert_eq!(reload["changes"], "changed `all`: quotas [2/1d@first_hit] -> [3/1d@first_hit]");
    let failed =
        live["reloads"].as_array().expect("a list").iter().find(|reload| reload["outcome"] == "failed");
    assert!(
        failed.is_some_and(|reload| reload["error"].as_str().is_some_and(|error| !error.is_empty())),
        "{live}"
    );
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
fn no_decision_mixes_two_versions_during_many_reloads_under_load() {
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
