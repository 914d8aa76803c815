//! `tollgate explain` under the overrides of a service.

#![allow(clippy::expect_used, reason = "this is a test")]

use std::fs;

use serde_json::{Value, json};

use crate::support::folder::Folder;
use crate::support::{Server, tollgate};

const POLICIES: &str = "
policies:
  - name: search
    key: [user]
    quotas: [5/1m]
    overrides: [{ when: { plan: gold }, quotas: [50/1m] }]
  - name: all
    key: global
    quotas: [1000/1m]
";

/// A service with its folder.
struct Site {
    folder: Folder,
    server: Server,
}

impl Site {
    fn start() -> Self {
        let folder = Folder::new();
        folder.write("tollgate.yaml", POLICIES);
        let mut token = tollgate();
        token.current_dir(folder.root()).args(["token", "new", "--name", "support", "--scope", "overrides"]);
        token.args(["--token-file", "support.txt", "--tokens", "tokens.jsonl"]);
        assert!(token.output().expect("it runs").status.success());
        let (config, tokens, state) =
            (folder.path("tollgate.yaml"), folder.path("tokens.jsonl"), folder.path("state"));
        let server = Server::start(&["--config", &config, "--tokens", &tokens, "--state-dir", &state]);
        Self { folder, server }
    }

    /// Sets an override, and returns its id.
    fn set(&self, arguments: &[&str]) -> String {
        let mut set = tollgate();
        set.current_dir(self.folder.root()).args([
            "override",
            "set",
            "--token-file",
            "support.txt",
            "--json",
        ]);
        let output = set.args(["--server", &self.server.admin.to_string()]).args(arguments).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let set: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        set["id"].as_str().expect("an id").to_owned()
    }

    /// Returns the exit status, standard output and standard error.
    fn explain(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let mut explain = tollgate();
        explain.current_dir(self.folder.root()).args(["explain", "tollgate.yaml"]);
        let output = explain.args(arguments).output().expect("it runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    }
}

#[test]
fn a_request_is_explained_under_the_overrides_of_a_running_service() {
    let site = Site::start();
    let search = ["--policy", "search"];
    let until = ["--until", "2999-01-01T00:00:00Z"];
    let alice_id = site.set(&[&search[..], &["--key", "user=alice", "--quota", "500/1m"], &until].concat());
    let mallory_id = site.set(&[&search[..], &["--key", "user=mallory", "--deny"]].concat());
    site.set(&[&search[..], &["--prefix", "user=bot-", "--unlimited"]].concat());

    let explain = |arguments: &[&str]| {
        let (status, said, error) = site.explain(&[&["--state-dir", "state"], arguments].concat());
        assert_eq!((status, error.as_str()), (Some(0), ""));
        said
    };
    let alice = explain(&["user=alice", "plan=gold"]);
    // What the override replaces is not named.
    let lines = format!(
        "search (line 3) counts user=alice\n  by override {alice_id}, until 2999-01-01T00:00:00Z\n  takes 1 of 500/1m, "
    );
    assert!(alice_id.starts_with("search:=") && alice.contains(&lines), "{alice}");
    assert!(alice.contains("all (line 7) counts all requests\n  takes 1 of 1000/1m, "), "{alice}");
    let later = explain(&["user=alice", "plan=gold", "--at", "2999-01-01T00:00:00Z"]);
    assert!(later.contains("uses the quotas in line 6") && !later.contains("by override"), "{later}");

    let mallory = explain(&["user=mallory"]);
    assert!(mallory.starts_with("denied: an override of `search` denies the request"), "{mallory}");
    let lines = format!("search (line 3) denies the request\n  by override {mallory_id}\n");
    assert!(mallory.contains(&lines), "{mallory}");
    assert!(mallory.contains("all (line 7) matches and counts nothing: `search` decides"), "{mallory}");
    let bot = explain(&["user=bot-7"]);
    assert!(
        bot.contains("search (line 3) counts user=bot-7\n  by override search:user^bot-\n  unlimited\n"),
        "{bot}"
    );
    let bob = explain(&["user=bob"]);
    assert!(bob.contains("takes 1 of 5/1m") && !bob.contains("by override"), "{bob}");

    let report: Value = serde_json::from_str(&explain(&["user=alice", "--json"])).expect("JSON");
    assert_eq!(report["policies"][0]["override"], json!({ "id": alice_id, "until": 32_472_144_000_000_i64 }));
    assert_eq!(report["policies"][1]["override"], Value::Null);
    assert_eq!(report["overrides"]["count"], 3);
    assert!(report["overrides"]["version"].as_str().is_some_and(|version| version.ends_with(".3")));
}

/// A reader would take the limits of the file for those of the service.
#[test]
fn overrides_that_are_not_read_are_said_to_be_unknown() {
    let site = Site::start();
    let (_, said, _) = site.explain(&["user=alice"]);
    assert!(
        said.ends_with("\noverrides of a running service are not known: see --store and --state-dir\n"),
        "{said}"
    );
    let (_, said, _) = site.explain(&["user=alice", "--json"]);
    let report: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(report["overrides"], Value::Null);
    let (_, said, _) = site.explain(&["user=alice", "--state-dir", "state"]);
    assert!(said.ends_with("\nthere are no overrides\n"), "{said}");
}

#[test]
fn overrides_that_cannot_be_read_are_an_error() {
    let site = Site::start();
    let (status, said, error) = site.explain(&["user=alice", "--state-dir", "nowhere"]);
    assert_eq!((status, said.as_str()), (Some(2), ""));
    assert!(error.contains("`--state-dir`") && error.contains("nowhere/overrides.journal"), "{error}");

    let journal = site.folder.path("state/overrides.journal");
    let text = fs::read_to_string(&journal).expect("it is there");
    fs::create_dir(site.folder.path("damaged")).expect("it can be made");
    site.folder.write("damaged/overrides.journal", &text.replace("epoch", "epoc"));
    let (status, said, error) = site.explain(&["user=alice", "--state-dir", "damaged"]);
    assert_eq!((status, said.as_str()), (Some(2), ""));
    assert!(error.contains("is damaged: line 1"), "{error}");

    let closed = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let store = format!("redis://{}", closed.expect("a port"));
    let (status, said, error) = site.explain(&["user=alice", "--store", &store]);
    assert_eq!((status, said.as_str()), (Some(3), ""));
    assert!(error.contains("cannot read the overrides of `--store`"), "{error}");
    let (status, _, error) = site.explain(&["user=alice", "--store", &store, "--state-dir", "state"]);
    assert!(status == Some(2) && error.contains("cannot be used with"), "{error}");
}
