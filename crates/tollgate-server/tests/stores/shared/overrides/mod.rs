//! Overrides on a shared store.

mod changes;
mod outages;
mod settings;

use std::fs::File;
use std::net::SocketAddr;

use serde_json::{Value, json};

use super::{PATIENT, redis, url};
use crate::support::folder::Folder;
use crate::support::{Connection, Reply, Server, tollgate};

const POLICIES: &str = "policies: [{ name: search, key: [user], quotas: [5/1d] }]\n";

/// A principal, and the policies of every service.
struct Fleet {
    folder: Folder,
    token: String,
}

impl Fleet {
    fn new() -> Self {
        let folder = Folder::new();
        folder.write("p.yaml", POLICIES);
        let mut create = tollgate();
        let scopes = ["--name", "ops", "--scope", "check,read,overrides"];
        create.current_dir(folder.root()).args(["token", "new"]).args(scopes);
        create.args(["--token-file", "ops.txt", "--tokens", "t.jsonl"]);
        assert!(create.output().expect("it runs").status.success());
        let token = std::fs::read_to_string(folder.path("ops.txt")).expect("it is there");
        Self { folder, token: token.trim().to_owned() }
    }

    /// Starts a service on the store at this address.
    fn serve(&self, store: SocketAddr) -> Server {
        self.start(&format!("redis://{store}"), &[])
    }

    fn start(&self, store: &str, more: &[&str]) -> Server {
        self.start_with(store, more, Server::start)
    }

    /// The same with a log that can be read meanwhile.
    fn start_logging(&self, store: &str, more: &[&str]) -> Server {
        let log = File::create(self.folder.path("log")).expect("a log");
        self.start_with(store, more, |flags| Server::start_logging_to(log, flags))
    }

    fn start_with(&self, store: &str, more: &[&str], start: impl FnOnce(&[&str]) -> Server) -> Server {
        let (config, tokens) = (self.folder.path("p.yaml"), self.folder.path("t.jsonl"));
        let flags = ["--config", &config, "--tokens", &tokens, "--store", store];
        // Decisions wait for a busy machine. Reads and changes of overrides have times of their own.
        let patient = ["--store-timeout", PATIENT, "--store-connect-timeout", PATIENT];
        start(&[&flags[..], &patient, more].concat())
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path("log")).expect("the log is text")
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

    fn put(&self, server: &Server, user: &str, condition: &str, quotas: &Value) -> Reply {
        let body = json!({ "policy": "search", "attributes": { "user": user }, "quotas": quotas });
        self.ask(server.admin, "PUT", "/v1/overrides", condition, &body)
    }

    fn get(&self, server: &Server, user: &str) -> Reply {
        let body = json!({ "policy": "search", "attributes": { "user": user } });
        self.ask(server.admin, "POST", "/v1/overrides/get", "", &body)
    }

    fn delete(&self, server: &Server, user: &str, condition: &str) -> Reply {
        let body = json!({ "policy": "search", "attributes": { "user": user } });
        self.ask(server.admin, "POST", "/v1/overrides/delete", condition, &body)
    }

    /// Returns the limit that a check of this user is decided by.
    fn limit(&self, server: &Server, user: &str) -> Value {
        let body = json!({ "attributes": { "user": user }, "cost": 0 });
        self.ask(server.public, "POST", "/v1/check", "", &body).json()["limit"].clone()
    }

    fn ready(&self, server: &Server) -> String {
        String::from_utf8(server.get("/readyz").body).expect("text")
    }
}
