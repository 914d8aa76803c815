//! Overrides over HTTP: what is asked for and answered, by whom, and what a check answers then.

#![allow(clippy::expect_used, reason = "this is a test")]

mod access;
mod conditions;
mod denials;
mod fields;
mod flags;
mod journal;
mod lists;
mod secrets;
mod versions;

use std::net::SocketAddr;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::folder::Folder;
use crate::support::{Connection, Reply, Server, tollgate};

/// `search` and `login` count, `staff` counts nothing.
const POLICIES: &str = "
policies:
  - { name: staff, match: { user: { prefix: staff- } }, exempt: true }
  - { name: search, match: { path: /search }, key: [user], quotas: [5/1h] }
  - { name: login, match: { path: /login }, key: [ip, tenant], quotas: [3/1h] }
";

/// A service with overrides in a folder, and a principal who may do everything.
struct Service {
    folder: Folder,
    server: Server,
    token: String,
}

impl Service {
    fn start() -> Self {
        Self::with(POLICIES, &[])
    }

    fn with(policies: &str, flags: &[&str]) -> Self {
        Self::by(tollgate(), policies, flags)
    }

    fn by(command: Command, policies: &str, flags: &[&str]) -> Self {
        let folder = Folder::new();
        let (token, line) = new_token("ops", &["--scope", "check,peek,count,change,read,policies,overrides"]);
        let (config, tokens) =
            (folder.write("p.yaml", policies), folder.write("t.jsonl", &format!("{line}\n")));
        let state = folder.path("state");
        let own = ["--config", &config, "--tokens", &tokens, "--state-dir", &state];
        let server = Server::start_by(command, &[&own, flags].concat());
        Self { folder, server, token }
    }

    /// Starts with this value of `RUST_LOG`.
    fn logging(lines: &str) -> Self {
        let mut command = tollgate();
        command.env("RUST_LOG", lines);
        Self::by(command, POLICIES, &[])
    }

    fn admin(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Reply {
        let bearer = format!("Authorization: Bearer {}", self.token);
        ask(self.server.admin, method, path, &[&[&*bearer], headers].concat(), body)
    }

    fn put(&self, body: &Value) -> Reply {
        self.admin("PUT", "/v1/overrides", &[], &body.to_string())
    }

    /// Sets an override, which works.
    fn set(&self, body: &Value) -> Value {
        let reply = self.put(body);
        assert_eq!(reply.status, 200, "{body}: {}", reply.json());
        reply.json()
    }

    fn get(&self, body: &Value) -> Reply {
        self.admin("POST", "/v1/overrides/get", &[], &body.to_string())
    }

    fn delete(&self, body: &Value) -> Reply {
        self.admin("POST", "/v1/overrides/delete", &[], &body.to_string())
    }

    fn list(&self, query: &str) -> Value {
        let reply = self.admin("GET", &format!("/v1/overrides{query}"), &[], "");
        assert_eq!(reply.status, 200, "{query}: {}", reply.json());
        reply.json()
    }

    fn post(&self, path: &str, body: &str) -> Reply {
        let bearer = format!("Authorization: Bearer {}", self.token);
        ask(self.server.public, "POST", path, &[&bearer], body)
    }

    /// Checks one unit of a user's searches.
    fn search(&self, user: &str) -> Reply {
        self.post("/v1/check", &json!({ "attributes": { "path": "/search", "user": user } }).to_string())
    }
}

fn new_token(name: &str, more: &[&str]) -> (String, String) {
    let Output { status, stdout, .. } =
        tollgate().args(["token", "new", "--json", "--name", name]).args(more).output().expect("it runs");
    assert!(status.success());
    let printed: Value = serde_json::from_slice(&stdout).expect("JSON");
    let text = |field: &str| printed[field].as_str().expect("a text").to_owned();
    (text("token"), text("line"))
}

fn ask(address: SocketAddr, method: &str, path: &str, headers: &[&str], body: &str) -> Reply {
    Connection::open(address).ask(&request(method, path, headers, body))
}

fn request(method: &str, path: &str, headers: &[&str], body: &str) -> Vec<u8> {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{kind}{headers}Content-Length: {length}\r\n\r\n"
    );
    (head + body).into()
}

/// An override of one user's searches.
fn of_user(user: &str, quotas: &Value) -> Value {
    json!({ "policy": "search", "attributes": { "user": user }, "quotas": quotas })
}
