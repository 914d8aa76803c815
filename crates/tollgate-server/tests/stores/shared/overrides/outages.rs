//! What a service says and does while it cannot read the overrides.

use serde_json::{Value, json};
use tollgate_testkit::servers::Data;

use super::{Fleet, redis, url};
use crate::support::{Connection, Server, get, until};

/// Returns the value of a metric at the listener for metrics, which asks for no token.
fn metric(server: &Server, name: &str) -> Option<f64> {
    let listener = server.metrics.expect("it listens for metrics");
    let text = String::from_utf8(Connection::open(listener).ask(&get("/metrics")).body).expect("text");
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn a_process_says_that_its_overrides_are_stale_and_keeps_them() {
    let (store, fleet) = (redis(), Fleet::new());
    let server = fleet.start_logging(&url(&store), &["--metrics-listen", "127.0.0.1:0"]);
    let metric = |name: &str| metric(&server, name);
    assert_eq!(fleet.put(&server, "alice", "", &json!("unlimited")).status, 200);
    let figures = ["tollgate_overrides", "tollgate_overrides_version", "tollgate_overrides_loads_total"];
    assert_eq!(figures.map(metric), [Some(1.0); 3]);
    assert_eq!(metric("tollgate_override_changes_total{outcome=\"made\"}"), Some(1.0));
    until("it is fresh", || metric("tollgate_overrides_stale") == Some(0.0));

    store.pause();
    until("it is stale", || fleet.ready(&server).contains("the overrides are stale: version "));
    assert_eq!(metric("tollgate_overrides_stale"), Some(1.0));
    assert!(metric("tollgate_overrides_age_seconds").is_some_and(|age| age >= 1.0));
    assert_eq!(fleet.ask(server.admin, "GET", "/v1/overrides", "", &Value::Null).json()["stale"], true);
    fleet.put(&server, "bob", "", &json!("denied")).assert_problem(503, None);
    let body = json!({ "attributes": { "user": "alice" } });
    let alice = fleet.ask(server.public, "POST", "/v1/check", "", &body).json();
    assert!(alice["ground"] == "unlimited" && alice["allowed"] == true, "{alice}");
    until("it is logged", || fleet.log().contains("the overrides are stale: they could not be read"));
    store.resume();
    until("it is fresh", || !fleet.ready(&server).contains("overrides"));
    until("the end is logged", || fleet.log().contains("the overrides are read from the store again"));
    let log = fleet.log();
    assert!(!log.contains("alice") && !log.contains("bob"), "{log}");
}

#[test]
fn a_service_starts_without_the_store_and_reads_overrides_once_it_is_there() {
    let (store, fleet) = (redis(), Fleet::new());
    let server = fleet.serve(store.address());
    assert_eq!(fleet.put(&server, "alice", "", &json!(["7/1d"])).status, 200);
    drop(server);
    store.pause();
    let server = fleet.serve(store.address());
    assert!(fleet.ready(&server).contains("the overrides could not be read yet: none is live"));
    store.resume();
    until("it has them", || fleet.limit(&server, "alice") == 7);
    // All data are gone, and the overrides with them.
    store.restart(Data::Lost);
    until("it has none", || fleet.limit(&server, "alice") == 5);
}
