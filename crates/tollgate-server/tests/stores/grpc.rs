//! Envoy's rate-limit service on a shared store.

#![allow(clippy::expect_used, reason = "this is a test")]

use std::time::Duration;

use tollgate_testkit::servers::{self, Software};
use tonic::Code;

use crate::grpc_client::messages::kuadrant::service::ratelimit::v1::{
    CommitRequest, CommitResponse, ReserveRequest, ReserveResponse,
};
use crate::grpc_client::{OK, OVER_LIMIT, RateLimitRequest, Wire, request, start, statuses};
use crate::support::folder::Folder;
use crate::support::{HANG, Server};

const USER: &[(&str, &str)] = &[("user", "alice")];

fn serve(store: &servers::Server, more: &[&str]) -> Server {
    let url = format!("redis://{}", store.address());
    start(&[&["--store", &url], more].concat())
}

#[tokio::test]
async fn two_processes_share_counters_and_decide_on_all_descriptors_at_once() {
    let (folder, store) = (Folder::new(), servers::Server::start(Software::Redis));
    let policies = "
policies:
  - { name: users, match: { user: '*' }, key: [user], quotas: [3/1d], on_store_failure: closed }
  - { name: search, match: { path: /search }, key: global, quotas: [10/1d], on_store_failure: closed }
";
    let file = folder.write("p.yaml", policies);
    let patient = ["--config", &file, "--store-timeout", "30s", "--store-connect-timeout", "30s"];
    let servers = [serve(&store, &patient), serve(&store, &patient)];
    let both = || request(&[USER, &[("path", "/search")]]);
    let mut asked = Vec::new();
    for server in servers.iter().cycle().take(4) {
        let response = Wire::open(server).await.call(both()).await.expect("an answer");
        asked.push((response.overall_code, statuses(&response)));
    }
    let expected = [
        (OK, vec![(OK, 2), (OK, 9)]),
        (OK, vec![(OK, 1), (OK, 8)]),
        (OK, vec![(OK, 0), (OK, 7)]),
        (OVER_LIMIT, vec![(OVER_LIMIT, 0), (OK, 7)]),
    ];
    assert_eq!(asked, expected);
}

/// A gateway sends the end of a stream to whichever process its load balancer chooses.
#[tokio::test]
async fn another_process_commits_a_reservation() {
    let (folder, store) = (Folder::new(), servers::Server::start(Software::Redis));
    let policies = "policies: [{ name: tokens, key: [user], quotas: [10/1d, '1~in_flight'] }]";
    let (file, secret) = (folder.write("p.yaml", policies), folder.write("secret", &"s".repeat(32)));
    let patient = ["--store-timeout", "30s", "--store-connect-timeout", "30s"];
    let flags = [&["--config", &file, "--hold-secret-file", &secret], &patient[..]].concat();
    let (one, other) = (serve(&store, &flags), serve(&store, &flags));
    let (one, other) = (Wire::open(&one).await, Wire::open(&other).await);
    let reserve = async |wire: &Wire, amount| {
        let RateLimitRequest { domain, descriptors, .. } = request(&[USER]);
        let asked = ReserveRequest { domain, descriptors, amount, ttl: None };
        let path = "/kuadrant.service.ratelimit.v1.RateLimitService/Reserve";
        let answer: ReserveResponse = wire.call_kuadrant(path, asked, &[]).await.expect("an answer");
        (answer.code, answer.reservation_id)
    };
    let commit = async |reservation_id: &str, actual_amount| {
        let asked = CommitRequest {
            reservation_id: reservation_id.to_owned(),
            actual_amount,
            ..CommitRequest::default()
        };
        let path = "/kuadrant.service.ratelimit.v1.RateLimitService/Commit";
        let answer: CommitResponse = other.call_kuadrant(path, asked, &[]).await.expect("an answer");
        answer.reservation_released
    };
    let (code, first) = reserve(&one, 8).await;
    assert_eq!((code, reserve(&other, 1).await.0), (OK, OVER_LIMIT), "one is in flight");
    // A lost reply is asked for again.
    assert_eq!([commit(&first, 3).await, commit(&first, 3).await], [true; 2]);
    assert_eq!(reserve(&other, 8).await.0, OVER_LIMIT);
    let (code, second) = reserve(&other, 7).await;
    assert_eq!((code, commit(&second, 9).await), (OK, true));
    assert_eq!(reserve(&one, 1).await.0, OVER_LIMIT, "12 of 10 are used");
}

/// Envoy's calls cannot take units in flight, and `open` admitted them while the store was down.
#[tokio::test]
async fn a_call_that_needs_a_hold_is_refused_while_the_store_is_down() {
    let (folder, store) = (Folder::new(), servers::Server::start(Software::Redis));
    let policies =
        "policies: [{ name: streams, key: [user], quotas: [5~in_flight], on_store_failure: open }]";
    let server = serve(&store, &["--config", &folder.write("p.yaml", policies)]);
    for _ in 0..2 {
        assert_eq!(code(&server, &[]).await, Code::FailedPrecondition);
        store.kill();
    }
}

/// Envoy waits 20 ms for an answer, and the service waited 100 ms for the store. Such calls were in no metric, and no
/// policy decided them.
#[tokio::test]
async fn the_policies_decide_while_the_caller_still_waits() {
    let store = servers::Server::start(Software::Redis);
    let patient = ["--store-timeout", "30s", "--store-connect-timeout", "30s"];
    let open = serve(&store, &[&["--limit", "5/1d"], &patient[..]].concat());
    assert_eq!(code(&open, &[]).await, Code::Ok);
    store.pause();
    assert_eq!(code(&open, &[("grpc-timeout", "500m")]).await, Code::Ok);
    assert_eq!(open.metric(r#"tollgate_checks_total{source="fallback_open"}"#), Some(1.0));
    assert_eq!(open.metric(r#"tollgate_checks_total{source="none"}"#), Some(0.0));
    let given_up = tokio::time::timeout(Duration::from_secs(1), code(&open, &[])).await;
    assert!(given_up.is_err(), "nobody answers");
    // The client's task has to run meanwhile, to reset the stream.
    let counted = async {
        while open.metric(r#"tollgate_checks_total{source="none"}"#) != Some(1.0) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(HANG, counted).await.expect("the call is counted");
    store.resume();
}

/// What a full memory admits uncounted was labelled as counted here.
#[tokio::test]
async fn admissions_by_a_full_memory_in_an_outage_are_not_counted() {
    let (folder, store) = (Folder::new(), servers::Server::start(Software::Redis));
    folder.write(
        "shop.yaml",
        "domain: shop\ndescriptors: [{ key: user, rate_limit: { unit: year, requests_per_unit: 9 } }]\n",
    );
    let path = folder.root().to_str().expect("text");
    let local = ["--on-store-failure", "local", "--local-share", "1/1", "--max-counters", "1"];
    let import = ["--import", "envoy-ratelimit", path, "--when-full", "allow"];
    let server = serve(&store, &[&import[..], &local].concat());
    store.kill();
    let wire = Wire::open(&server).await;
    for user in 0..200 {
        let user = user.to_string();
        wire.call(request(&[&[("user", &user)]])).await.expect("an answer");
    }
    let of = |source: &str| {
        server.metric(&format!("tollgate_checks_total{{source=\"{source}\"}}")).expect("it is there")
    };
    let (local, open) = (of("fallback_local"), of("fallback_open"));
    assert_eq!(local + open, 200.0);
    let full = server.metric("tollgate_store_counters").expect("it is there");
    assert_eq!(local, full, "each has a counter of its own");
    assert!(open > 0.0);
    assert_eq!(server.metric("tollgate_store_full_total"), Some(open));
}

async fn code(server: &Server, headers: &[(&'static str, &str)]) -> Code {
    let asked: RateLimitRequest = request(&[USER]);
    let answer = Wire::open(server).await.call_with(asked, headers).await;
    answer.map_or_else(|status| status.code(), |_| Code::Ok)
}

#[tokio::test]
async fn gives_a_hanging_store_up_before_the_caller_does() {
    let store = servers::Server::start(Software::Redis);
    let closed = ["--limit", "5/1d", "--on-store-failure", "closed"];
    let patient = ["--store-timeout", "30s", "--store-connect-timeout", "30s"];
    let patient = serve(&store, &[&closed[..], &patient].concat());
    let hasty = serve(&store, &closed);
    assert_eq!(code(&patient, &[]).await, Code::Ok);
    store.pause();
    // The policy decides while the caller still waits.
    assert_eq!(code(&patient, &[("grpc-timeout", "500m")]).await, Code::Unavailable);
    // On a machine that stands still just then, the store is given up in the same moment.
    let at_once = code(&patient, &[("grpc-timeout", "1n")]).await;
    assert!(matches!(at_once, Code::DeadlineExceeded | Code::Unavailable), "{at_once:?}");
    assert_eq!(code(&patient, &[("grpc-timeout", "soon")]).await, Code::InvalidArgument);
    assert_eq!(code(&hasty, &[]).await, Code::Unavailable);
    store.resume();
    assert_eq!(code(&patient, &[("grpc-timeout", "20S")]).await, Code::Ok);
}
