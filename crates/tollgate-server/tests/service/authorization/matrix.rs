//! Every principal, operation and listener.

use std::net::SocketAddr;

use super::{
    ALICE, ALL_SCOPES, COUNT, Concerns, OPERATIONS, POLICIES, Principal, ask, assert_published, expected,
    new_token,
};
use crate::support::Server;
use crate::support::folder::Folder;

/// What a client of a proxy sends, in the words of the proxy.
const FORWARDED: &str = r#"{"attributes": {"header.x-name": "search", "header.x-key": "alice"}}"#;

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
}

impl Watched {
    /// Returns the used units of the counters, and the number of reloads of the policy file with the version of the
    /// overrides.
    fn state(&self) -> (u64, Option<String>) {
        let used = |body| {
            let peek = ask(self.server.public, "POST", "/v1/peek", &["Host: x", &self.root], body).json();
            peek["used"].as_u64().expect("a count")
        };
        let metrics = ask(self.metrics(), "GET", "/metrics", &["Host: x"], "").body;
        let metrics = String::from_utf8(metrics).expect("text");
        let is_read =
            |line: &&str| line.starts_with("tollgate_policies_reloads_total{outcome=\"unchanged\"}");
        let get = COUNT.replace("\"policy\"", "\"operation\": \"get\", \"policy\"");
        let count = ask(self.server.public, "POST", "/v1/count", &["Host: x", &self.root], &get).json();
        let counted = count["used"].as_u64().expect("a count");
        let overrides = ask(self.server.admin, "GET", "/v1/overrides", &["Host: x", &self.root], "").json();
        let reloads = metrics.lines().find(is_read);
        let changes = reloads.map(|reloads| format!("{reloads} {}", overrides["overrides_version"]));
        (used(ALICE) + used(FORWARDED) + counted, changes)
    }

    fn metrics(&self) -> SocketAddr {
        self.server.metrics.expect("it listens for metrics")
    }
}

/// Every principal uses every operation on every listener.
#[test]
fn every_principal_may_do_what_it_is_granted_and_nothing_else() {
    let folder = Folder::new();
    let (principals, file) = principals();
    let (policies, tokens) = (folder.write("p.yaml", POLICIES), folder.write("tokens.jsonl", &file));
    let state = folder.path("state");
    let server = Server::start(&[
        "--state-dir",
        &state,
        "--config",
        &policies,
        "--tokens",
        &tokens,
        "--metrics-listen",
        "127.0.0.1:0",
        "--answers",
        "spring-starter",
        "--caller-quotas",
    ]);
    let root = principals.iter().find(|principal| principal.name == "root").expect("it is there");
    let watched = Watched { server, root: root.shown[0].clone() };
    let listeners =
        [("checks", watched.server.public), ("admin", watched.server.admin), ("metrics", watched.metrics())];
    let (mut cells, mut wrong) = (0, String::new());
    let mut before = watched.state();
    for principal in &principals {
        for (listener, address) in listeners {
            for operation in &OPERATIONS {
                cells += 1;
                let cell =
                    format!("{} {} {} on {listener}", principal.name, operation.method, operation.path);
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
                        &lists.map(|list| &body[list]).into_iter().find(|it| it.is_array()).expect("a list")
                            [0];
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
                let after = watched.state();
                if inner != 200 && after != before {
                    note(&format!("refused, and yet {before:?} became {after:?}"));
                }
                let takes = matches!(operation.scopes.first(), Some(&("check" | "count")));
                if inner == 200 && takes && after.0 != before.0 + 1 {
                    note(&format!("allowed, and yet {before:?} became {after:?}"));
                }
                before = after;
            }
        }
    }
    assert!(wrong.is_empty(), "of {cells} cells:\n{wrong}");
    assert_published(cells, "cells checked against");
}
