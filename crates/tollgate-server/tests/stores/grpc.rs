//! Envoy's rate-limit service on a store that others share.

#![allow(clippy::expect_used, reason = "this is a test")]

use tollgate_testkit::servers::{self, Software};
use tonic::Code;

use crate::grpc_client::{OK, OVER_LIMIT, RateLimitRequest, Wire, request, start, statuses};
use crate::support::Server;
use crate::support::folder::Folder;

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

async fn code(server: &Server, headers: &[(&'static str, &str)]) -> Code {
    let asked: RateLimitRequest = request(&[USER]);
    let answer = Wire::open(server).await.call_with(asked, headers).await;
    answer.map_or_else(|status| status.code(), |_| Code::Ok)
}

#[tokio::test]
async fn a_store_that_hangs_is_given_up_when_the_caller_does() {
    let store = servers::Server::start(Software::Redis);
    let closed = ["--limit", "5/1d", "--on-store-failure", "closed"];
    let patient = ["--store-timeout", "30s", "--store-connect-timeout", "30s"];
    let patient = serve(&store, &[&closed[..], &patient].concat());
    let hasty = serve(&store, &closed);
    assert_eq!(code(&patient, &[]).await, Code::Ok);
    store.pause();
    assert_eq!(code(&patient, &[("grpc-timeout", "50m")]).await, Code::DeadlineExceeded);
    assert_eq!(code(&patient, &[("grpc-timeout", "soon")]).await, Code::InvalidArgument);
    assert_eq!(code(&hasty, &[]).await, Code::Unavailable);
    store.resume();
    assert_eq!(code(&patient, &[("grpc-timeout", "20S")]).await, Code::Ok);
}
