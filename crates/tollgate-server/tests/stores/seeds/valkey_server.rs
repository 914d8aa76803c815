//! user-rate-limit, the Valkey server, with its environment.

use std::time::Duration;

use tollgate_testkit::servers::published::{self, PublishedWindow};
use tollgate_testkit::servers::{self, Software};

use super::{example, keys, log, refused, serve, still};
use crate::support::Server;

/// Noon, which is the start of a minute.
const NOON: i64 = 1_700_006_400;
const ASK: &str = "/v1/check?user=user_val";

/// The variables of the example, with the address of this store.
fn start(store: &servers::Server, more: &[&str]) -> Server {
    let text = std::fs::read_to_string(example("valkey-server/limits.env")).expect("the example");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut variables: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once('=')).collect();
    assert_eq!(variables.len(), 4);
    let (host, port) = (store.address().ip().to_string(), store.address().port().to_string());
    variables.extend([("VALKEY_HOST", host.as_str()), ("VALKEY_PORT", port.as_str())]);
    serve(&variables, &[&["--import", "valkey-env"], more].concat())
}

/// The requests of its diagram: at 12:00:10, :30, :45 and :55 under a limit of 3; the window ends at 12:01:00.
#[test]
fn its_diagram_is_answered_200_200_200_429() {
    let store = still(Software::Valkey, NOON);
    let server = start(&store, &[]);
    let status_after = |seconds: i64| {
        store.clock().step(seconds * 1_000);
        server.get(ASK).status
    };
    assert_eq!([10, 20, 15, 10].map(status_after), [200, 200, 200, 429]);
    let bucket = NOON / 60;
    assert_eq!(keys(&store), [format!("rate_limit:user_val:{bucket}")]);
    // What it would count next, and Tollgate after it.
    let window = PublishedWindow::now(&store, Duration::from_secs(60));
    let mut connection = store.connection();
    assert_eq!(published::user_rate_limit(&mut connection, "user_val", window), 5);
    assert_eq!(server.get(ASK).status, 429);
    assert_eq!(store.command::<u64>(["GET", &format!("rate_limit:user_val:{bucket}")]), 6);
    assert_eq!(status_after(5), 200);
    assert_eq!(keys(&store).len(), 2);
    server.get("/v1/check").assert_problem(400, Some("query.user"));
}

#[test]
fn admits_everybody_during_an_outage_and_logs_it() {
    let store = still(Software::Valkey, NOON);
    let server = start(&store, &[]);
    store.kill();
    for _ in 0..5 {
        let reply = server.get(ASK);
        assert_eq!((reply.status, reply.json()["source"].as_str()), (200, Some("fallback")));
    }
    let fallback = r#"tollgate_fallback_decisions_total{policy="user-rate-limit",verdict="allowed"}"#;
    assert_eq!(server.metric(fallback), Some(5.0));
    assert!(log(server).contains("on_store_failure is `open`"));
    let closed = start(&store, &["--on-store-failure", "closed"]);
    closed.get(ASK).assert_problem(503, None);
    // An environment has one format for all: a list is separated by commas.
    let by_variable = serve(&[("TOLLGATE_IMPORT", "valkey-env"), ("VALKEY_PORT", "1")], &[]);
    assert!(by_variable.said[0].contains("5/1m for each user"), "{:?}", by_variable.said);
}

/// The service started, and told every caller that `user` is missing.
#[test]
fn refuses_a_format_without_the_key_attribute() {
    for system in ["spring-starter", "rlaas"] {
        let said = refused(&[], &["--import", "valkey-env", "--answers", system]);
        let expected = format!(
            "error: `--answers {system}` does not supply `user`, which the key of policy `user-rate-limit` needs: no \
             request in this format could be answered\n"
        );
        assert_eq!(said, expected);
    }
    let flags = ["--limit", "5/1m", "--key", "name,user", "--answers", "spring-starter"];
    assert!(refused(&[], &flags).contains("does not supply `user`, which the key of policy `default` needs"));
    let by_variable = refused(&[("TOLLGATE_ANSWERS", "rlaas")], &["--import", "valkey-env"]);
    assert!(by_variable.starts_with("error: `TOLLGATE_ANSWERS=rlaas` does not supply"), "{by_variable}");
    let store = servers::Server::start(Software::Valkey);
    let server = start(&store, &["--answers", "leetdezine"]);
    assert_eq!(server.get("/api/v1/rate_limit?user_id=alice&endpoint=/").status, 200);
}

#[test]
fn refuses_an_invalid_variable_by_name() {
    for (variable, value) in
        [("RATE_LIMIT_REQUESTS", "five"), ("RATE_LIMIT_WINDOW_SECONDS", "0"), ("VALKEY_PORT", "70000")]
    {
        let said = refused(&[(variable, value)], &["--import", "valkey-env"]);
        assert!(said.starts_with(&format!("error: `--import`: {variable}: expected a ")), "{said}");
        assert!(said.contains(&format!("found `{value}`")), "{said}");
    }
    let said = refused(&[("VALKEY_HOST", "valkey://:sesame@h")], &["--import", "valkey-env"]);
    assert!(said.contains("`--import`: VALKEY_HOST: expected a host") && !said.contains("sesame"), "{said}");
    let said = refused(&[], &["--import", "valkey-env", "--limit", "5/1m"]);
    assert!(said.contains("cannot be used with"), "{said}");
}
