//! Changes of overrides over HTTP on a shared store: two services, a lost answer, and a store that is down.

use serde_json::{Value, json};
use tollgate_testkit::servers::{ByteDirection, ConnectionEnd, FaultProxy};

use super::{Fleet, redis};
use crate::support::until;

#[test]
fn a_change_is_live_in_its_process_at_once_and_in_the_others_soon() {
    let (store, fleet) = (redis(), Fleet::new());
    let (one, other) = (fleet.serve(store.address()), fleet.serve(store.address()));
    let set = fleet.put(&one, "alice", "", &json!(["50/1d"]));
    assert_eq!((set.status, fleet.limit(&one, "alice")), (200, json!(50)), "{}", set.json());
    until("the other decides by it", || fleet.limit(&other, "alice") == 50);
    // The other has the version of the first, and names it in its condition.
    let tag = fleet.get(&other, "alice").header("etag").expect("a tag").to_owned();
    assert_eq!(Some(&*tag), set.header("etag"));
    let changed = fleet.put(&other, "alice", &format!("If-Match: {tag}\r\n"), &json!(["60/1d"]));
    assert_eq!((changed.status, fleet.limit(&other, "alice")), (200, json!(60)), "{}", changed.json());
    // The first may not have read it yet, and the store compares all the same.
    let late = fleet.put(&one, "alice", &format!("If-Match: {tag}\r\n"), &json!(["70/1d"]));
    late.assert_problem(412, None);
    assert_eq!(late.json()["current"]["quotas"], json!(["60/1d"]), "{}", late.json());
    until("the first decides by it", || fleet.limit(&one, "alice") == 60);
    let third = fleet.serve(store.address());
    until("one that starts decides by it", || fleet.limit(&third, "alice") == 60);

    fleet.delete(&one, "alice", &format!("If-Match: {tag}\r\n")).assert_problem(412, None);
    let tag = changed.header("etag").expect("a tag");
    let deleted = fleet.delete(&one, "alice", &format!("If-Match: {tag}\r\n"));
    assert_eq!((deleted.status, fleet.limit(&one, "alice")), (200, json!(5)), "{}", deleted.json());
}

/// Both have room for two, and count those of the other.
#[test]
fn the_maximum_is_that_of_all_processes_together() {
    let (store, fleet) = (redis(), Fleet::new());
    let url = super::url(&store);
    let [one, other] = [(); 2].map(|()| fleet.start(&url, &["--max-overrides", "2"]));
    let unlimited = json!("unlimited");
    for (server, user) in [(&one, "alice"), (&other, "bob")] {
        assert_eq!(fleet.put(server, user, "", &unlimited).status, 200);
    }
    for server in [&one, &other] {
        let refused = fleet.put(server, "carol", "", &unlimited);
        refused.assert_problem(409, None);
        assert_eq!(refused.json()["reason"], "too_many_overrides");
    }
    assert_eq!(fleet.put(&one, "bob", "", &json!(["7/1d"])).json()["replaced"], true);
    assert_eq!(fleet.delete(&other, "alice", "").status, 200);
    assert_eq!(fleet.put(&one, "carol", "", &unlimited).status, 200);
    fleet.put(&other, "alice", "", &unlimited).assert_problem(409, None);

    // A process without overrides decides without those of the others.
    let off = fleet.start(&url, &["--max-overrides", "0"]);
    assert_eq!((fleet.limit(&one, "bob"), fleet.limit(&off, "bob")), (json!(7), json!(5)));
    fleet.get(&off, "bob").assert_problem(409, None);
    assert_eq!(fleet.put(&off, "bob", "", &unlimited).json()["reason"], "overrides_off");
    assert!(!fleet.ready(&off).contains("overrides"), "{}", fleet.ready(&off));
}

/// A caller that is told to come back soon sets it a second time, perhaps over the change of another.
#[test]
fn a_change_without_an_answer_may_have_been_made_and_is_repeated_safely() {
    let (store, fleet) = (redis(), Fleet::new());
    let proxy = FaultProxy::before(store.address());
    let server = fleet.serve(proxy.address());
    until("it has read the overrides", || fleet.get(&server, "alice").status == 404);
    proxy.hold(ByteDirection::Reply);
    let lost = fleet.put(&server, "alice", "If-None-Match: *\r\n", &json!(["50/1d"]));
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
        let reply = fleet.put(&server, "alice", "If-None-Match: *\r\n", &json!(["50/1d"]));
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
    assert_eq!(fleet.put(&server, "alice", "", &json!(["50/1d"])).status, 200);
    proxy.refuse();
    proxy.sever(ConnectionEnd::Reset);
    until("the change is refused", || {
        let reply = fleet.put(&server, "alice", "", &json!(["60/1d"]));
        reply.status == 503 && reply.json()["reason"] == "store_unavailable"
    });
    let refused = fleet.put(&server, "alice", "", &json!(["60/1d"]));
    assert_eq!(refused.header("retry-after"), Some("1"));
    let kept = fleet.get(&server, "alice").json();
    assert_eq!(kept["quotas"], json!(["50/1d"]), "{kept}");
    proxy.heal();
    until("a change is made", || fleet.put(&server, "alice", "", &json!(["70/1d"])).status == 200);
    assert_eq!(fleet.limit(&server, "alice"), 70);
}
