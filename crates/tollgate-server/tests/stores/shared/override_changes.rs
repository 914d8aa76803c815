//! Changes of overrides over HTTP on a shared store: two services, a lost answer, and a store that is down.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tollgate_testkit::servers::{ByteDirection, ConnectionEnd, FaultProxy};

use super::redis;
use crate::support::folder::Folder;
use crate::support::{Connection, Reply, Server, tollgate, until};

const POLICIES: &str = "policies: [{ name: search, key: [user], quotas: [5/1d] }]\n";

/// Principals, and the policies of every service.
struct Fleet {
    folder: Folder,
    token: String,
}

impl Fleet {
    fn new() -> Self {
        let folder = Folder::new();
        folder.write("p.yaml", POLICIES);
        let mut create = tollgate();
        create.current_dir(folder.root()).args([
            "token",
            "new",
            "--name",
            "ops",
            "--scope",
            "check,read,overrides",
        ]);
        create.args(["--token-file", "ops.txt", "--tokens", "t.jsonl"]);
        assert!(create.output().expect("it runs").status.success());
        let token = std::fs::read_to_string(folder.path("ops.txt")).expect("it is there");
        Self { folder, token: token.trim().to_owned() }
    }

    /// Starts a service on the store at this address.
    fn serve(&self, store: SocketAddr) -> Server {
        let (config, tokens) = (self.folder.path("p.yaml"), self.folder.path("t.jsonl"));
        let store = format!("redis://{store}");
        Server::start(&["--config", &config, "--tokens", &tokens, "--store", &store])
    }

    fn ask(&self, address: SocketAddr, method: &str, path: &str, condition: &str, body: &Value) -> Reply {
        let (token, body) = (&self.token, body.to_string());
        let length = body.len();
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n{condition}");
        let kind = "Content-Type: application/json";
        Connection::open(address)
            .ask(format!("{head}{kind}\r\nContent-Length: {length}\r\n\r\n{body}").as_bytes())
    }

    fn put(&self, server: &Server, condition: &str, quotas: &Value) -> Reply {
        let body = json!({ "policy": "search", "attributes": { "user": "alice" }, "quotas": quotas });
        self.ask(server.admin, "PUT", "/v1/overrides", condition, &body)
    }

    fn get(&self, server: &Server) -> Reply {
        let body = json!({ "policy": "search", "attributes": { "user": "alice" } });
        self.ask(server.admin, "POST", "/v1/overrides/get", "", &body)
    }

    fn limit(&self, server: &Server) -> Value {
        let body = json!({ "attributes": { "user": "alice" }, "cost": 0 });
        self.ask(server.public, "POST", "/v1/check", "", &body).json()["limit"].clone()
    }
}

#[test]
fn a_change_is_live_in_its_process_at_once_and_in_the_others_soon() {
    let (store, fleet) = (redis(), Fleet::new());
    let (one, other) = (fleet.serve(store.address()), fleet.serve(store.address()));
    let set = fleet.put(&one, "", &json!(["50/1d"]));
    assert_eq!((set.status, fleet.limit(&one)), (200, json!(50)), "{}", set.json());
    until("the other decides by it", || fleet.limit(&other) == 50);
    // The other has the version of the first, and names it in its condition.
    let tag = fleet.get(&other).header("etag").expect("a tag").to_owned();
    assert_eq!(Some(&*tag), set.header("etag"));
    let changed = fleet.put(&other, &format!("If-Match: {tag}\r\n"), &json!(["60/1d"]));
    assert_eq!((changed.status, fleet.limit(&other)), (200, json!(60)), "{}", changed.json());
    // The first may not have read it yet, and the store compares all the same.
    let late = fleet.put(&one, &format!("If-Match: {tag}\r\n"), &json!(["70/1d"]));
    late.assert_problem(412, None);
    assert_eq!(late.json()["current"]["quotas"], json!(["60/1d"]), "{}", late.json());
    until("the first decides by it", || fleet.limit(&one) == 60);
}

/// A caller that is told to come back soon sets it a second time, perhaps over the change of another.
#[test]
fn a_change_without_an_answer_may_have_been_made_and_is_repeated_safely() {
    let (store, fleet) = (redis(), Fleet::new());
    let proxy = FaultProxy::before(store.address());
    let server = fleet.serve(proxy.address());
    until("it has read the overrides", || fleet.get(&server).status == 404);
    proxy.hold(ByteDirection::Reply);
    let lost = fleet.put(&server, "If-None-Match: *\r\n", &json!(["50/1d"]));
    lost.assert_problem(503, None);
    let problem = lost.json();
    assert_eq!(
        (&problem["reason"], lost.header("retry-after")),
        (&json!("outcome_unknown"), None),
        "{problem}"
    );
    let detail = problem["detail"].as_str().expect("a text");
    assert!(detail.contains("/v1/overrides/get") && detail.contains("If-Match"), "{detail}");
    until("it is stale", || {
        let body = Value::Null;
        fleet.ask(server.admin, "GET", "/v1/overrides", "", &body).json()["stale"] == true
    });
    proxy.heal();
    // It was made, so it is not made a second time.
    let mut repeated = None;
    until("the store answers", || {
        let reply = fleet.put(&server, "If-None-Match: *\r\n", &json!(["50/1d"]));
        let is_answered = reply.status != 503;
        repeated = Some(reply);
        is_answered
    });
    let repeated = repeated.expect("an answer");
    repeated.assert_problem(412, None);
    assert_eq!(repeated.json()["current"]["quotas"], json!(["50/1d"]));
    server.signal("TERM");
    let (_, log) = server.wait();
    assert!(log.contains("an override may have been changed") && log.contains("principal=\"ops\""), "{log}");
    assert!(!log.contains("alice"), "{log}");
}

#[test]
fn a_store_that_is_away_changes_nothing_and_the_last_overrides_stay() {
    let (store, fleet) = (redis(), Fleet::new());
    let proxy = FaultProxy::before(store.address());
    let server = fleet.serve(proxy.address());
    assert_eq!(fleet.put(&server, "", &json!(["50/1d"])).status, 200);
    proxy.refuse();
    proxy.sever(ConnectionEnd::Reset);
    until("the change is refused", || {
        let reply = fleet.put(&server, "", &json!(["60/1d"]));
        reply.status == 503 && reply.json()["reason"] == "store_unavailable"
    });
    let refused = fleet.put(&server, "", &json!(["60/1d"]));
    assert_eq!(refused.header("retry-after"), Some("1"));
    let kept = fleet.get(&server).json();
    assert_eq!(kept["quotas"], json!(["50/1d"]), "{kept}");
    proxy.heal();
    until("a change is made", || fleet.put(&server, "", &json!(["70/1d"])).status == 200);
    assert_eq!(fleet.limit(&server), 70);
}
