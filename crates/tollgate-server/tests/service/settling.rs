//! Costs that are known only after the work: settling a check, and giving back a part of it.
//!
//! Windows are days that start at the first hit, so that none ends during a test.

#![allow(clippy::expect_used, reason = "this is a test")]

use serde_json::{Value, json};
use tollgate_testkit::manual::blocks;

use crate::support::folder::Folder;
use crate::support::{Server, quotas};

const REQUESTS_AND_TOKENS: &str = "policies:
  - { name: requests, key: [user], quotas: [5/1d@first_hit], cost: 1 }
  - { name: tokens, key: [user], quotas: [50000/2d@first_hit, 90000/3d@first_hit] }
";

fn check(server: &Server, cost: u32) -> Value {
    let body = json!({ "attributes": { "user": "u" }, "cost": cost, "receipt": true });
    server.post("/v1/check", &body.to_string()).json()
}

fn settle(server: &Server, receipt: &Value, cost: u32) -> Value {
    let reply = server.post("/v1/settle", &json!({ "receipt": receipt, "cost": cost }).to_string());
    assert_eq!(reply.status, 200, "{}", reply.json());
    reply.json()
}

fn used(server: &Server) -> Vec<u64> {
    let peeked = server.post("/v1/peek", r#"{"attributes": {"user": "u"}}"#).json();
    quotas(&peeked).iter().filter_map(|quota| quota["used"].as_u64()).collect()
}

fn start(folder: &Folder) -> Server {
    Server::start(&["--config", &folder.write("tollgate.yaml", REQUESTS_AND_TOKENS)])
}

/// A gateway to a model limits requests and tokens, reserves 1,000 tokens for each request, and gives back those that
/// an answer did not need. Each refund gave the request back as well: 30 of 30 were admitted where 5 may be.
#[test]
fn giving_back_tokens_does_not_give_back_the_request() {
    let folder = Folder::new();
    for give_back in ["refund", "settle"] {
        let server = start(&folder);
        let admitted = (0..30).filter(|_| {
            let checked = check(&server, 1_000);
            if checked["allowed"] != true {
                return false;
            }
            match give_back {
                "settle" => _ = settle(&server, &checked["receipt"], 400),
                _ => {
                    let refund = json!({ "receipt": checked["receipt"], "cost": 600 });
                    let refunded = server.post("/v1/refund", &refund.to_string()).json();
                    assert_eq!(
                        quotas(&refunded).iter().map(|quota| &quota["policy"]).collect::<Vec<_>>(),
                        ["tokens"; 2]
                    );
                }
            }
            true
        });
        assert_eq!((admitted.count(), used(&server)), (5, vec![5, 2_000, 2_000]), "{give_back}");
    }
}

#[test]
fn a_refund_of_everything_cancels_fixed_costs_and_can_be_narrowed() {
    let folder = Folder::new();
    let server = start(&folder);
    let refund = |receipt: &Value, more: Value| {
        let mut body = json!({ "receipt": receipt });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        server.post("/v1/refund", &body.to_string())
    };
    let receipt = check(&server, 1_000)["receipt"].clone();
    assert_eq!(refund(&receipt, json!({ "policy": "requests" })).json()["quotas"][0]["given"], 1);
    assert_eq!(used(&server), [0, 1_000, 1_000]);
    // The limit of a named quota is of no matter.
    let narrowed =
        refund(&receipt, json!({ "policy": "tokens", "quota": "1/3d@first_hit", "cost": 300 })).json();
    assert_eq!((quotas(&narrowed).len(), used(&server)), (1, vec![0, 1_000, 700]));
    let rest = narrowed["receipt"].clone();
    refund(&rest, json!({ "cost": 700 }));
    assert_eq!(used(&server), [0, 300, 0]);
    refund(&rest, json!({}));
    assert_eq!(used(&server), [0, 0, 0]);

    for (more, field) in [
        (json!({ "policy": "other" }), "policy"),
        (json!({ "policy": "requests", "cost": 1 }), "cost"),
        (json!({ "policy": "requests", "quota": "5/1d" }), "quota"),
    ] {
        refund(&receipt, more).assert_problem(409, Some(field));
    }
    let windows = json!({ "attributes": { "user": "u" }, "version": 1, "windows": [], "policy": "tokens" });
    server.admin_post("/v1/refund", &windows.to_string()).assert_problem(400, Some("policy"));
    let unversioned = json!({ "attributes": { "user": "u" }, "windows": [] });
    server.admin_post("/v1/refund", &unversioned.to_string()).assert_problem(400, Some("version"));
}

/// An answer grows: 400 tokens, then 1,300, which is more than was reserved, then the rest is cut off.
#[test]
fn a_check_is_settled_up_and_down_and_again() {
    let folder = Folder::new();
    let server = start(&folder);
    let first = check(&server, 1_000)["receipt"].clone();
    let mut receipt = first.clone();
    for (cost, given, charged) in [(400, 600, 0), (1_300, 0, 900), (1_200, 100, 0)] {
        let settled = settle(&server, &receipt, cost);
        let quota = json!({
            "policy": "tokens", "quota": "50000/2d@first_hit", "window": "open", "given": given, "charged": charged,
            "used": cost,
        });
        assert_eq!((&settled["quotas"][0], quotas(&settled).len()), (&quota, 2));
        assert_eq!(used(&server), [1, u64::from(cost), u64::from(cost)]);
        receipt = settled["receipt"].clone();
    }
    // The newest receipt settles at the same cost without a change, and takes everything back.
    assert!(quotas(&settle(&server, &receipt, 1_200)).is_empty());
    assert_eq!(server.post("/v1/refund", &json!({ "receipt": receipt }).to_string()).status, 200);
    assert_eq!(used(&server), [0, 0, 0]);
    // An old receipt starts from its own cost again.
    settle(&server, &first, 1_300);
    settle(&server, &first, 1_300);
    assert_eq!(used(&server), [0, 600, 600]);

    for (body, field) in [
        (json!({ "receipt": first }), "cost"),
        (json!({ "cost": 1 }), "receipt"),
        (json!({ "receipt": "x", "cost": 1 }), "receipt"),
        (json!({ "receipt": first, "cost": -1 }), "cost"),
    ] {
        server.post("/v1/settle", &body.to_string()).assert_problem(400, Some(field));
    }
    server
        .admin_post("/v1/settle", &json!({ "receipt": first, "cost": 1 }).to_string())
        .assert_problem(404, None);
}

/// Clients that cannot estimate the cost check with 0, which only peeks. There was no receipt then.
#[test]
fn a_check_without_a_cost_is_settled_at_the_whole_cost() {
    let folder = Folder::new();
    let server = start(&folder);
    let receipt = check(&server, 0)["receipt"].clone();
    let settled = settle(&server, &receipt, 60_000);
    assert_eq!((used(&server), quotas(&settled).len()), (vec![0, 60_000, 60_000], 2));
    assert_eq!(check(&server, 0)["allowed"], false);
}

/// The examples gave back requests together with tokens: a limit of 600 requests stood at 0 after 25 of them.
#[test]
fn the_example_counts_requests_and_the_tokens_that_were_used() {
    let recipe = include_str!("../../../../docs/policies.md").split("### Tokens of a language model").nth(1);
    let [recipe, ..] = blocks(recipe.expect("the recipe"))[..] else { panic!("a file") };
    let example = include_str!("../../../../examples/tokens.yaml");
    for (text, customer) in [(recipe.text, "customer"), (example, "tenant")] {
        let folder = Folder::new();
        // Windows that cannot end during the test.
        let text = text
            .replace("/1s", "/1d@first_hit")
            .replace("/1m,", "/2d@first_hit,")
            .replace("/1m]", "/2d@first_hit]");
        let server = Server::start(&["--config", &folder.write("tokens.yaml", &text)]);
        let request = json!({ customer: "acme", "path": "/v1/chat" });
        let check = json!({ "attributes": request, "cost": 2_000, "receipt": true }).to_string();
        let admitted = (0..30).filter(|_| {
            let checked = server.post("/v1/check", &check).json();
            let is_allowed = checked["allowed"] == true;
            if is_allowed {
                settle(&server, &checked["receipt"], 500);
            }
            is_allowed
        });
        let limit = if customer == "tenant" { 20 } else { 10 };
        assert_eq!(admitted.count(), limit, "{text}");
        let peeked = server.post("/v1/peek", &json!({ "attributes": request }).to_string()).json();
        for quota in quotas(&peeked) {
            let expected = if quota["policy"] == "requests" { limit } else { 500 * limit };
            assert_eq!(quota["used"], expected, "{quota}");
        }
    }
}
