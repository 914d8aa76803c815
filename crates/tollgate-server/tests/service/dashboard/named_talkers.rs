//! What is asked about a talker, and what is changed for it: by its id, without its key.

use std::process::Output;

use serde_json::{Value, json};
use tollgate_testkit::servers::{self, Software};

use crate::support::folder::Folder;
use crate::support::{Connection, EVERY_LINE, Reply, Server, tollgate};

const POLICIES: &str = "
policies:
  - { name: search, match: { path: /search }, key: [user], quotas: [5/1d], candidate: [2/1d] }
  - { name: all, key: [ip], quotas: [1000/1d], overrides: [{ when: { plan: pro }, quotas: [9/1d] }] }
  - { name: people, match: { path: /search }, key: [user], quotas: [900/1d],
      overrides: [{ when: { user: canary-a }, quotas: [800/1d] }] }
";

/// What a canary is found by.
const CANARY: &str = "canary";

fn start(policies: &str, more: &[&str]) -> (Server, Folder) {
    let folder = Folder::new();
    let file = folder.write("p.yaml", policies);
    let mut command = tollgate();
    command.env("RUST_LOG", EVERY_LINE);
    (Server::start_by(command, &[&["--config", &file], more].concat()), folder)
}

fn check(server: &Server, user: &str) -> u16 {
    let body = json!({ "attributes": { "path": "/search", "user": user, "ip": "192.0.2.77" } });
    server.post("/v1/check", &body.to_string()).status
}

/// The ids of a policy's talkers. Five minutes may end between a request and this question.
fn ids(server: &Server, policy: &str) -> Vec<String> {
    let both = ["current", "last"].into_iter().flat_map(|period| {
        let reply = server.admin_get(&format!("/v1/talkers?policy={policy}&period={period}")).json();
        reply["rows"].as_array().unwrap_or_else(|| panic!("{reply}")).clone()
    });
    let mut ids: Vec<String> = both.map(|row| row["id"].as_str().expect("an id").to_owned()).collect();
    ids.sort();
    ids.dedup();
    ids
}

fn asked(server: &Server, operation: &str, body: &Value) -> Value {
    let reply = server.admin_post(&format!("/v1/{operation}"), &body.to_string());
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    assert_eq!(reply.status, 200, "{operation} {body}: {text}");
    assert!(!text.contains(CANARY) && !text.contains("192.0.2.77"), "{operation} {body}: {text}");
    reply.json()
}

#[test]
fn a_talker_is_inspected_reset_set_and_refunded_by_its_id_and_nobody_sees_its_key() {
    let (server, _folder) = start(POLICIES, &[]);
    for _ in 0..3 {
        assert_eq!(check(&server, "canary-a"), 200);
    }
    let [id] = &ids(&server, "search")[..] else { panic!("one client") };
    let talker = json!({ "policy": "search", "id": id });
    let with = |more: Value| {
        let mut body = talker.clone();
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body
    };

    let found = asked(&server, "inspect", &talker);
    assert_eq!((&found["talker"], &found["outcome"]), (&talker, &json!("charge")));
    assert_eq!(
        found["message"],
        "by `search` alone, allowed: 3 of 5 units of 5/1d of `search` are used; which other policies apply is unknown"
    );
    for absent in ["verdict", "source", "reason", "retry_after_ms"] {
        assert_eq!(found[absent], Value::Null, "{absent}");
    }
    let [applied] = &found["applied"].as_array().expect("a list")[..] else { panic!("{found}") };
    assert_eq!(
        (&applied["policy"], &applied["id"], &applied["counts"]),
        (&json!("search"), &json!(id), &Value::Null)
    );
    assert_eq!((&applied["quotas"][0]["used"], &found["not_applied_count"]), (&json!(3), &json!(0)));
    assert_eq!(applied["trials"][0]["answer"], "denied");

    // Where an override depends on the key, its condition would tell the key.
    let [person] = &ids(&server, "people")[..] else { panic!("one client") };
    let found = asked(&server, "inspect", &json!({ "policy": "people", "id": person }));
    assert_eq!(
        (&found["applied"][0]["quotas"][0]["limit"], &found["applied"][0]["quotas_from"]),
        (&json!(800), &Value::Null)
    );

    let set = asked(&server, "set", &with(json!({ "used": 5 })));
    assert_eq!((&set["quotas"][0]["policy"], &set["quotas"][0]["used"]), (&json!("search"), &json!(5)));
    assert_eq!(check(&server, "canary-a"), 429);
    let window = asked(&server, "inspect", &talker)["applied"][0]["quotas"][0]["window"]["start"].clone();
    let windows = json!([{ "policy": "search", "quota": "5/1d", "start": window }]);
    let refund = asked(&server, "refund", &with(json!({ "version": 1, "cost": 2, "windows": windows })));
    assert_eq!((&refund["quotas"][0]["given"], &refund["quotas"][0]["used"]), (&json!(2), &json!(3)));
    assert_eq!(
        (check(&server, "canary-a"), check(&server, "canary-a"), check(&server, "canary-a")),
        (200, 200, 429)
    );
    let reset = asked(&server, "reset", &talker);
    assert_eq!(reset["quotas"].as_array().map(Vec::len), Some(1), "the other policies keep theirs: {reset}");
    assert_eq!(asked(&server, "inspect", &talker)["applied"][0]["quotas"][0]["used"], 0);
    let people = asked(&server, "inspect", &json!({ "policy": "people", "id": person }));
    assert_eq!(people["applied"][0]["quotas"][0]["used"], 5);

    server.signal("TERM");
    let (_, log) = server.wait();
    assert!(!log.contains(CANARY) && !log.contains("192.0.2.77"), "{log}");
    let line = |operation: &str| {
        log.lines().any(|line| {
            line.contains("counters of a talker changed")
                && line.contains(operation)
                && line.contains("search")
                && line.contains(id.as_str())
        })
    };
    assert!(["reset", "set", "refund"].into_iter().all(line), "{log}");
}

/// An operator who suspects a customer types the key, and sees which talker it is.
#[test]
fn an_inspection_by_attributes_names_the_talkers() {
    let (server, _folder) = start(POLICIES, &[]);
    for user in ["canary-a", "b"] {
        assert_eq!(check(&server, user), 200);
    }
    let body =
        json!({ "attributes": { "path": "/search", "user": "b", "ip": "192.0.2.77", "plan": "free" } });
    let found = server.admin_post("/v1/inspect", &body.to_string()).json();
    for (number, policy) in ["search", "all", "people"].into_iter().enumerate() {
        let applied = &found["applied"][number];
        assert_eq!(applied["policy"], policy);
        assert!(ids(&server, policy).iter().any(|id| applied["id"] == **id), "{applied}");
    }
    assert_eq!(found["talker"], Value::Null);
    let off = start(POLICIES, &["--talkers", "off"]).0.admin_post("/v1/inspect", &body.to_string()).json();
    assert_eq!((off["applied"].as_array().map(Vec::len), &off["applied"][0]["id"]), (Some(3), &Value::Null));
}

#[test]
fn an_id_that_does_not_lead_to_one_whole_key_is_refused() {
    let (server, folder) = start(POLICIES, &[]);
    let refused = |server: &Server, body: &Value, status: u16, field: Option<&str>, says: &str| {
        for operation in ["inspect", "reset"] {
            let reply = server.admin_post(&format!("/v1/{operation}"), &body.to_string());
            reply.assert_problem(status, field);
            let detail = reply.json()["detail"].to_string();
            assert!(detail.contains(says), "{operation} {body}: {detail}");
        }
    };
    let long = format!("{CANARY}-{}", "x".repeat(200));
    assert_eq!(check(&server, &long), 200);
    let [long] = &ids(&server, "search")[..] else { panic!("one client") };
    let [all] = &ids(&server, "all")[..] else { panic!("one client") };
    let nobody = "k_0000000000";
    refused(&server, &json!({ "policy": "search", "id": long }), 409, Some("id"), "only a part of this key");
    refused(&server, &json!({ "policy": "search", "id": nobody }), 404, Some("id"), "GET /v1/talkers");
    refused(&server, &json!({ "policy": "all", "id": long }), 404, Some("id"), "give `attributes`");
    refused(
        &server,
        &json!({ "policy": "nothing", "id": nobody }),
        404,
        Some("policy"),
        "no policy of this name",
    );
    refused(&server, &json!({ "id": nobody }), 400, Some("policy"), "missing field `policy`");
    refused(
        &server,
        &json!({ "policy": "search", "id": "alice" }),
        400,
        Some("id"),
        "ten hexadecimal digits",
    );
    let both = json!({ "attributes": { "user": "b" }, "policy": "search", "id": nobody });
    refused(&server, &both, 400, Some("id"), "exclude each other");
    refused(&server, &json!({ "policy": null, "id": nobody }), 400, Some("policy"), "string");
    refused(&server, &json!({}), 400, Some("attributes"), "give `policy` and `id`");
    // Which quotas apply depends on what is not in the key.
    refused(&server, &json!({ "policy": "all", "id": all }), 409, Some("id"), "depends on `plan`");
    let alone = json!({ "attributes": { "user": "b" }, "policy": "search" }).to_string();
    server.admin_post("/v1/inspect", &alone).assert_problem(400, Some("policy"));

    // Another key, and no talkers at all.
    folder.write("p.yaml", "policies: [{ name: all, key: [user], quotas: [9/1d] }, { name: search, key: [user], quotas: [5/1d], mode: off }]");
    assert_eq!(server.admin_post("/v1/policies/reload", "").status, 200);
    refused(&server, &json!({ "policy": "all", "id": all }), 404, Some("id"), "any more");
    refused(&server, &json!({ "policy": "search", "id": long }), 409, Some("policy"), "counts nothing");
    for (flag, policy) in [("--talkers", "search"), ("--dashboard", "search")] {
        let (server, _folder) = start(POLICIES, &[flag, "off"]);
        let reply = server.admin_post("/v1/reset", &json!({ "policy": policy, "id": nobody }).to_string());
        reply.assert_problem(404, None);
        assert!(reply.json()["detail"].to_string().contains(&format!("{flag} off")), "{}", reply.json());
    }
}

/// The id is no way around a scope, or around the policies of a token.
#[test]
fn an_id_gives_no_right() {
    let folder = Folder::new();
    let (config, mut lines, mut tokens) = (folder.write("p.yaml", POLICIES), String::new(), Vec::new());
    for scopes in [
        &["--scope", "check"][..],
        &["--scope", "read"],
        &["--scope", "read,change", "--policy", "people"],
        &["--scope", "read,change"],
    ] {
        let name = format!("n{}", tokens.len());
        let Output { stdout, .. } = tollgate()
            .args([&["token", "new", "--json", "--name", &name], scopes].concat())
            .output()
            .expect("it runs");
        let printed: Value = serde_json::from_slice(&stdout).expect("JSON");
        lines += &format!("{}\n", printed["line"].as_str().expect("a line"));
        tokens.push(printed["token"].as_str().expect("a token").to_owned());
    }
    let file = folder.write("t.jsonl", &lines);
    let server = Server::start(&["--config", &config, "--tokens", &file]);
    let ask = |address, who: usize, method: &str, path: &str, body: &str| -> Reply {
        let (token, length) = (&tokens[who], body.len());
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n");
        let kind = "Content-Type: application/json\r\n";
        Connection::open(address)
            .ask(format!("{head}{kind}Content-Length: {length}\r\n\r\n{body}").as_bytes())
    };
    let check = json!({ "attributes": { "path": "/search", "user": "b", "ip": "192.0.2.1" } }).to_string();
    assert_eq!(ask(server.public, 0, "POST", "/v1/check", &check).status, 200);
    let talkers = ["current", "last"].map(|period| {
        let path = format!("/v1/talkers?policy=search&period={period}");
        ask(server.admin, 1, "GET", &path, "").json()["rows"][0]["id"].clone()
    });
    let id = talkers.into_iter().find(Value::is_string).expect("a talker");
    let body = json!({ "policy": "search", "id": id }).to_string();
    for (who, operation, status) in [
        (0, "inspect", 403),
        (1, "inspect", 200),
        (1, "reset", 403),
        (2, "inspect", 403),
        (2, "reset", 403),
        (3, "reset", 200),
    ] {
        let reply = ask(server.admin, who, "POST", &format!("/v1/{operation}"), &body);
        assert_eq!(reply.status, status, "{operation} by {who}: {}", reply.json());
        if who == 1 && status == 403 {
            assert_eq!(reply.json()["scope"], "change");
        }
    }
}

/// Counters are where all processes see them; talkers are of one.
#[test]
fn a_reset_by_id_reaches_the_shared_store() {
    let store = servers::Server::start(Software::Redis);
    let url = format!("redis://{}", store.address());
    let flags = ["--store", &url, "--store-timeout", "30s", "--store-connect-timeout", "30s"];
    let ((one, _files), (other, _more)) = (start(POLICIES, &flags), start(POLICIES, &flags));
    for server in [&one, &other] {
        crate::support::until("the store is used", || server.admin_get("/readyz").status == 200);
    }
    assert_eq!((check(&one, "b"), check(&one, "b"), check(&other, "b")), (200, 200, 200));
    let [id] = &ids(&one, "search")[..] else { panic!("one client") };
    let talker = json!({ "policy": "search", "id": id });
    assert_eq!(asked(&one, "inspect", &talker)["applied"][0]["quotas"][0]["used"], 3);
    assert_eq!(asked(&one, "inspect", &talker)["applied"][0]["trials"][0]["answer"], "denied");
    assert_eq!(asked(&one, "reset", &talker)["quotas"][0]["used"], 0);
    let peek =
        json!({ "attributes": { "path": "/search", "user": "b", "ip": "192.0.2.77", "plan": "free" } });
    let seen = other.post("/v1/peek", &peek.to_string()).json();
    let quotas = seen["quotas"].as_array().expect("quotas");
    assert_eq!(quotas.iter().find(|quota| quota["policy"] == "search").expect("it applies")["used"], 0);
    // The other process has another secret, so its ids are others.
    other.admin_post("/v1/reset", &talker.to_string()).assert_problem(404, Some("id"));
}
