//! Every principal, operation and listener.

use std::net::SocketAddr;

use super::{
    ALICE, ALL_SCOPES, COUNT, Concerns, OPERATIONS, Operation, POLICIES, Principal, RULE_OPERATIONS,
    RULED_POLICIES, ask, assert_published, expected, new_token,
};
use crate::support::Server;
use crate::support::folder::Folder;

/// What a client of a proxy sends, in the words of the proxy.
const FORWARDED: &str = r#"{"attributes": {"header.x-name": "search", "header.x-key": "alice"}}"#;

/// What a rule must not touch: it is for another tier.
const RULED: &str = r#"{"attributes": {"endpoint": "/search", "user": "alice", "tier": "free"}}"#;

/// Returns all principals, and the text of the file with the known ones.
fn principals() -> (Vec<Principal>, String) {
    let mut file = String::from("# Principals of the matrix.\n\n");
    let mut all = Vec::new();
    let nobody = |name, shown: &[&str]| Principal {
        name,
        shown: shown.iter().map(|header| (*header).to_owned()).collect(),
        is_known: false,
        scopes: &[],
        policy: None,
    };
    let unknown = format!("Authorization: Bearer {}", new_token("unknown", &["--scope", "check"]).0);
    all.push(nobody("none", &[]));
    all.push(nobody("unknown", &[&unknown]));
    all.push(nobody("not bearer", &["Authorization: Basic dGdfYTp0Z19h"]));
    let mut known = |name, scopes: &'static [&'static str], policy: Option<&'static str>, more: &[&str]| {
        let scopes_flag = scopes.join(",");
        let mut flags = vec!["--scope", &scopes_flag];
        flags.extend(policy.iter().flat_map(|policy| ["--policy", policy]));
        flags.extend(more);
        let (token, line) = new_token(name, &flags);
        file += &format!("{line}\n");
        let shown = vec![format!("Authorization: Bearer {token}")];
        all.push(Principal { name, shown, is_known: more.is_empty(), scopes, policy });
    };
    known("root", ALL_SCOPES, None, &[]);
    known("expired", ALL_SCOPES, None, &["--expires", "2020-01-01T00:00:00Z"]);
    known("check", &["check"], None, &[]);
    known("peek", &["peek"], None, &[]);
    known("count", &["count"], None, &[]);
    known("change", &["change"], None, &[]);
    known("read", &["read"], None, &[]);
    known("metrics", &["metrics"], None, &[]);
    known("policies", &["policies"], None, &[]);
    known("overrides", &["overrides"], None, &[]);
    known("keys", &["keys"], None, &[]);
    known("several", &["check", "change", "read"], None, &[]);
    known("own-policy", ALL_SCOPES, Some("search"), &[]);
    known("other-policy", ALL_SCOPES, Some("login"), &[]);
    known("peek-other", &["peek"], Some("login"), &[]);
    let twice = all[3].shown[0].clone();
    all.push(nobody("two tokens", &[&twice, &twice]));
    (all, file)
}

/// A service of the matrix, watched by a principal who may do everything.
struct Watched {
    server: Server,
    root: String,
    /// Requests for used units.
    used: Vec<(&'static str, String)>,
}

impl Watched {
    fn start(
        principals: &[Principal],
        files: [&str; 3],
        more: &[&str],
        used: &[(&'static str, &str)],
    ) -> Self {
        let [policies, tokens, state] = files;
        let flags = ["--state-dir", state, "--config", policies, "--tokens", tokens];
        let server = Server::start(&[&flags[..], &["--metrics-listen", "127.0.0.1:0"], more].concat());
        let root = principals.iter().find(|principal| principal.name == "root").expect("it is there");
        let used = used.iter().map(|(path, body)| (*path, (*body).to_owned())).collect();
        Self { server, root: root.shown[0].clone(), used }
    }

    /// Returns the used units of the counters, and the number of reloads of the policy file with the version of the
    /// overrides.
    fn state(&self) -> (u64, Option<String>) {
        let used = |(path, body): &(&str, String)| {
            let peek = ask(self.server.public, "POST", path, &["Host: x", &self.root], body).json();
            peek["used"].as_u64().expect("a count")
        };
        let metrics = ask(self.metrics(), "GET", "/metrics", &["Host: x"], "").body;
        let metrics = String::from_utf8(metrics).expect("text");
        let is_read =
            |line: &&str| line.starts_with("tollgate_policies_reloads_total{outcome=\"unchanged\"}");
        let overrides = ask(self.server.admin, "GET", "/v1/overrides", &["Host: x", &self.root], "").json();
        let reloads = metrics.lines().find(is_read);
        let changes = reloads.map(|reloads| format!("{reloads} {}", overrides["overrides_version"]));
        (self.used.iter().map(used).sum(), changes)
    }

    fn metrics(&self) -> SocketAddr {
        self.server.metrics.expect("it listens for metrics")
    }

    /// Lets every principal use every one of these operations on every listener. Returns the number of cells, and what is
    /// wrong in them.
    fn play(&self, principals: &[Principal], operations: &[Operation]) -> (usize, String) {
        let listeners =
            [("checks", self.server.public), ("admin", self.server.admin), ("metrics", self.metrics())];
        let (mut cells, mut wrong) = (0, String::new());
        let mut before = self.state();
        for principal in principals {
            for (listener, address) in listeners {
                for operation in operations {
                    cells += 1;
                    let (faults, after) = self.cell(principal, operation, (listener, address), &before);
                    wrong += &faults;
                    before = after;
                }
            }
        }
        (cells, wrong)
    }

    /// Plays a cell. Returns what is wrong in it, and the state after it.
    fn cell(
        &self,
        principal: &Principal,
        operation: &Operation,
        (listener, address): (&str, SocketAddr),
        before: &(u64, Option<String>),
    ) -> (String, (u64, Option<String>)) {
        let mut wrong = String::new();
        let cell = format!("{} {} {} on {listener}", principal.name, operation.method, operation.path);
        // Any name will do where principals are asked, and for metrics.
        let headers = ["Host: evil.example".to_owned()].into_iter().chain(principal.shown.clone());
        let headers: Vec<String> = headers.collect();
        let headers = headers.iter().map(String::as_str).chain(operation.headers.iter().copied());
        let headers: Vec<&str> = headers.collect();
        let reply = ask(address, operation.method, operation.path, &headers, operation.body);
        let (status, inner) = expected(principal, operation, listener);
        let mut note = |what: &str| wrong += &format!("{cell}: {what}\n");
        let is_right = reply.status == status;
        if !is_right {
            note(&format!("{} in place of {status}", reply.status));
        }
        if is_right && operation.concerns == Concerns::SearchInBatch && status == 200 {
            let body = reply.json();
            let lists = ["decisions", "records", "counts"];
            let entry =
                &lists.map(|list| &body[list]).into_iter().find(|it| it.is_array()).expect("a list")[0];
            let is_refused = entry["status"] == 403 && entry["allowed"].is_null();
            if is_refused != (inner == 403) {
                note(&format!("{entry} in place of {inner}"));
            }
        }
        let challenge = reply.header("www-authenticate");
        if challenge != (status == 401).then_some("Bearer") {
            note(&format!("the challenge is {challenge:?}"));
        }
        let lacks_scope = status == 401
            || status == 403 && !operation.scopes.iter().any(|it| principal.scopes.contains(it));
        if is_right && lacks_scope && operation.method != "HEAD" {
            let (body, needed) = (reply.json(), operation.scopes[0]);
            let said = body["detail"].as_str().unwrap_or_default();
            if body["scope"] != needed || !said.contains(&format!("`{needed}`")) {
                note(&format!("the problem does not name `{needed}`: {body}"));
            }
        }
        let after = self.state();
        if inner != 200 && after != *before {
            note(&format!("refused, and yet {before:?} became {after:?}"));
        }
        let takes = matches!(operation.scopes.first(), Some(&("check" | "count")));
        if inner == 200 && takes && after.0 != before.0 + 1 {
            note(&format!("allowed, and yet {before:?} became {after:?}"));
        }
        (wrong, after)
    }
}

/// Every principal uses every operation on every listener.
#[test]
fn every_principal_may_do_what_it_is_granted_and_nothing_else() {
    let folder = Folder::new();
    let (principals, file) = principals();
    let (policies, tokens) = (folder.write("p.yaml", POLICIES), folder.write("tokens.jsonl", &file));
    let ruled = folder.write("ruled.yaml", RULED_POLICIES);
    let [state, ruled_state] = ["state", "ruled-state"].map(|name| folder.path(name));
    let get = COUNT.replace("\"policy\"", "\"operation\": \"get\", \"policy\"");
    let used = [("/v1/peek", ALICE), ("/v1/peek", FORWARDED), ("/v1/count", &get)];
    let more = ["--answers", "spring-starter", "--caller-quotas"];
    let watched = Watched::start(&principals, [&policies, &tokens, &state], &more, &used);
    let (cells, wrong) = watched.play(&principals, &OPERATIONS);
    // A service has the operations of one such system.
    let (files, more) = ([&*ruled, &tokens, &ruled_state], ["--answers", "leetdezine"]);
    let watched = Watched::start(&principals, files, &more, &[("/v1/peek", RULED)]);
    let (more_cells, more_wrong) = watched.play(&principals, &RULE_OPERATIONS);
    let (cells, wrong) = (cells + more_cells, wrong + &more_wrong);
    assert!(wrong.is_empty(), "of {cells} cells:\n{wrong}");
    assert_published(cells, "cells checked against");
}
