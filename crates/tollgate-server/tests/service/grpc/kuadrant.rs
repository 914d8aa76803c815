//! The service of Kuadrant, as limitador's clients call it.

use tonic::{Code, Status};

use crate::grpc_client::messages::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use crate::grpc_client::messages::kuadrant::service::ratelimit::v1::{
    CommitRequest, CommitResponse, ReserveRequest, ReserveResponse,
};
use crate::grpc_client::{
    OK, OVER_LIMIT, RateLimitRequest, RateLimitResponse, Wire, descriptor, request, start, statuses,
};
use crate::support::folder::Folder;
use crate::support::{Server, quotas};

const POLICIES: &str = "
policies:
  - { name: tokens, match: { model: '*' }, key: [domain, user], quotas: [10/1d] }
  - { name: requests, match: { model: '*' }, key: [domain, user], quotas: [5/1d], cost: 1 }
unmatched: allow
";

const CHECK: &str = "/kuadrant.service.ratelimit.v1.RateLimitService/CheckRateLimit";
const REPORT: &str = "/kuadrant.service.ratelimit.v1.RateLimitService/Report";
const RESERVE: &str = "/kuadrant.service.ratelimit.v1.RateLimitService/Reserve";
const COMMIT: &str = "/kuadrant.service.ratelimit.v1.RateLimitService/Commit";

const ALICE: &[(&str, &str)] = &[("model", "large"), ("user", "alice")];
const BOB: &[(&str, &str)] = &[("model", "large"), ("user", "bob")];

fn with_policies(more: &[&str]) -> (Folder, Server) {
    let folder = Folder::new();
    let file = folder.write("p.yaml", POLICIES);
    let server = start(&[&["--config", &file], more].concat());
    (folder, server)
}

fn hits(hits_addend: u32, descriptors: &[&[(&str, &str)]]) -> RateLimitRequest {
    RateLimitRequest { hits_addend, ..request(descriptors) }
}

async fn check(wire: &Wire, request: RateLimitRequest) -> Result<RateLimitResponse, Status> {
    wire.call_kuadrant(CHECK, request, &[]).await
}

async fn report(wire: &Wire, request: RateLimitRequest) -> Result<RateLimitResponse, Status> {
    wire.call_kuadrant(REPORT, request, &[]).await
}

fn reservation(amount: u64, descriptors: &[&[(&str, &str)]]) -> ReserveRequest {
    let RateLimitRequest { domain, descriptors, .. } = request(descriptors);
    ReserveRequest { domain, descriptors, amount, ttl: None }
}

async fn reserve(wire: &Wire, request: ReserveRequest) -> Result<ReserveResponse, Status> {
    wire.call_kuadrant(RESERVE, request, &[]).await
}

fn commitment(reservation: &str, actual_amount: u64, descriptors: &[&[(&str, &str)]]) -> CommitRequest {
    let RateLimitRequest { domain, descriptors, .. } = request(descriptors);
    CommitRequest { domain, descriptors, reservation_id: reservation.to_owned(), actual_amount }
}

async fn commit(wire: &Wire, request: CommitRequest) -> Result<CommitResponse, Status> {
    wire.call_kuadrant(COMMIT, request, &[]).await
}

fn code<T>(answer: Result<T, Status>) -> Code {
    answer.map_or_else(|status| status.code(), |_| Code::Ok)
}

/// The usage of each quota of a user.
fn used(server: &Server, user: &str) -> Vec<u64> {
    let asked = serde_json::json!({ "attributes": { "domain": "shop", "model": "large", "user": user } });
    let peeked = server.post("/v1/peek", &asked.to_string()).json();
    quotas(&peeked).iter().filter_map(|quota| quota["used"].as_u64()).collect()
}

#[tokio::test]
async fn a_check_charges_nothing_and_a_report_charges_what_has_no_room() {
    let (_folder, server) = with_policies(&[]);
    let wire = Wire::open(&server).await;
    for _ in 0..3 {
        let checked = check(&wire, hits(10, &[ALICE])).await.expect("an answer");
        assert_eq!((checked.overall_code, statuses(&checked)), (OK, vec![(OK, 10)]));
    }
    let reported = report(&wire, hits(12, &[ALICE])).await.expect("an answer");
    assert_eq!((reported.overall_code, reported.statuses), (OK, vec![]));
    let checked = check(&wire, hits(1, &[ALICE, BOB])).await.expect("an answer");
    assert_eq!((checked.overall_code, statuses(&checked)), (OVER_LIMIT, vec![(OVER_LIMIT, 0), (OK, 10)]));
    // The requests of this policy cost 1, whatever is reported.
    assert_eq!(used(&server, "alice"), [12, 1]);
    // Nobody is denied whom no policy limits.
    assert_eq!(check(&wire, hits(1, &[&[("user", "alice")]])).await.expect("an answer").overall_code, OK);
}

/// A report with a mistake in one descriptor charged those before it.
#[tokio::test]
async fn a_report_with_a_mistake_charges_nothing() {
    let (_folder, server) = with_policies(&["--caller-quotas"]);
    let wire = Wire::open(&server).await;
    let mut limited = hits(3, &[ALICE, BOB]);
    limited.descriptors[1].limit = Some(RateLimitOverride { requests_per_unit: 5, unit: 4 });
    let mut negative = hits(3, &[ALICE, BOB]);
    negative.descriptors[1].is_negative_hits = true;
    let mut empty = hits(3, &[ALICE]);
    empty.descriptors.push(descriptor(&[]));
    for wrong in [limited, negative, empty, hits(3, &[ALICE, &[("model", "large")]]), hits(3, &[])] {
        assert_eq!(code(report(&wire, wrong).await), Code::InvalidArgument);
    }
    let nobody = RateLimitRequest { domain: String::new(), ..hits(3, &[ALICE]) };
    assert_eq!(code(check(&wire, nobody).await), Code::InvalidArgument);
    assert_eq!(statuses(&check(&wire, hits(1, &[ALICE])).await.expect("an answer")), [(OK, 10)]);
}

#[tokio::test]
async fn the_files_of_envoyproxy_ratelimit_do_not_answer() {
    let folder = Folder::new();
    folder.write("a.yaml", "domain: shop\n");
    let path = folder.root().to_str().expect("text");
    let server = start(&["--import", "envoy-ratelimit", path]);
    let wire = Wire::open(&server).await;
    let refused = check(&wire, hits(1, &[ALICE])).await.expect_err("it has no policies");
    assert_eq!(refused.code(), Code::Unimplemented);
    assert!(refused.message().contains("policies"), "{refused}");
}

#[tokio::test]
async fn a_commit_replaces_the_estimate() {
    let (_folder, server) = with_policies(&[]);
    let wire = Wire::open(&server).await;
    let first = reserve(&wire, reservation(6, &[ALICE])).await.expect("an answer");
    assert_eq!((first.code, first.reservation_id.is_empty()), (OK, false));
    let denied = reserve(&wire, reservation(6, &[ALICE])).await.expect("an answer");
    assert_eq!((denied.code, &*denied.reservation_id), (OVER_LIMIT, ""));
    assert_eq!(used(&server, "alice"), [6, 1], "a denial takes nothing");

    // The descriptors are not needed again. Each commit may be repeated.
    for _ in 0..2 {
        let committed = commit(&wire, commitment(&first.reservation_id, 2, &[])).await.expect("an answer");
        assert!(committed.reservation_released);
        assert_eq!(used(&server, "alice"), [2, 1], "a request stays one request");
    }
    let second = reserve(&wire, reservation(8, &[ALICE])).await.expect("an answer");
    assert_eq!(second.code, OK);
    assert!(
        commit(&wire, commitment(&second.reservation_id, 11, &[ALICE]))
            .await
            .expect("an answer")
            .reservation_released
    );
    assert_eq!(used(&server, "alice"), [13, 2], "an overrun is charged without room");
}

#[tokio::test]
async fn the_example_of_the_manual_reserves_and_commits() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/grpc.md"));
    let page = page.expect("the page is there");
    let policies = page.split("```").find(|block| block.starts_with("yaml\n# kuadrant.yaml\n"));
    let policies = policies.expect("the example is there").trim_start_matches("yaml");
    for call in [r#""amount": 400, "ttl": "30s""#, r#""actual_amount": 250"#, "150 tokens are given back"] {
        assert!(page.contains(call), "{call}");
    }
    let folder = Folder::new();
    // No window ends during the test.
    let file = folder.write("kuadrant.yaml", &policies.replace("1000/1d", "1000/1d@first_hit"));
    let server = start(&["--config", &file]);
    let wire = Wire::open(&server).await;
    let ttl = Some(prost_types::Duration { seconds: 30, nanos: 0 });
    let asked = |amount| ReserveRequest {
        domain: "llm".to_owned(),
        ttl,
        ..reservation(amount, &[&[("user", "alice")]])
    };
    let first = reserve(&wire, asked(400)).await.expect("an answer");
    assert!(
        commit(&wire, commitment(&first.reservation_id, 250, &[]))
            .await
            .expect("an answer")
            .reservation_released
    );
    // 750 are left for two streams.
    let codes = [asked(751), asked(700), asked(50), asked(0)];
    let mut answered = Vec::new();
    for asked in codes {
        answered.push(reserve(&wire, asked).await.expect("an answer").code);
    }
    assert_eq!(answered, [OVER_LIMIT, OK, OK, OVER_LIMIT]);
}

/// The estimate of a late commit stays charged, and only what exceeds it is charged then.
#[tokio::test]
async fn a_late_commit_charges_what_exceeds_the_estimate() {
    let (_folder, server) = with_policies(&["--test-clock"]);
    let wire = Wire::open(&server).await;
    let short = |seconds, nanos| ReserveRequest {
        ttl: Some(prost_types::Duration { seconds, nanos }),
        ..reservation(4, &[ALICE])
    };
    let [less, more] = [
        reserve(&wire, short(5, 0)).await.expect("an answer").reservation_id,
        reserve(&wire, short(5, 0)).await.expect("an answer").reservation_id,
    ];
    let moved = server.admin_post("/v1/clock", r#"{"advance_ms": 5001}"#);
    assert_eq!(moved.status, 200, "{moved:?}");
    for (reservation, amount, expected) in [(&less, 1, [8, 2]), (&more, 7, [11, 2])] {
        let late = commit(&wire, commitment(reservation, amount, &[ALICE])).await.expect("an answer");
        assert_eq!((late.reservation_released, used(&server, "alice")), (false, expected.to_vec()));
    }
    assert_eq!(code(reserve(&wire, short(0, 0)).await), Code::InvalidArgument);
    assert_eq!(code(reserve(&wire, short(-1, 0)).await), Code::InvalidArgument);
}

/// Nothing was reserved, so all of it is charged.
#[tokio::test]
async fn a_commit_without_a_reservation_is_a_report() {
    let (_folder, server) = with_policies(&[]);
    let wire = Wire::open(&server).await;
    let unlimited = reserve(&wire, reservation(6, &[&[("user", "alice")]])).await.expect("an answer");
    assert_eq!((unlimited.code, &*unlimited.reservation_id), (OK, ""));
    let committed = commit(&wire, commitment("", 3, &[ALICE])).await.expect("an answer");
    assert!(!committed.reservation_released);
    assert_eq!(used(&server, "alice"), [3, 1]);
    assert_eq!(code(commit(&wire, commitment("", 0, &[ALICE])).await), Code::Ok);
    assert_eq!(used(&server, "alice"), [3, 1]);
}

#[tokio::test]
async fn an_invalid_reservation_charges_nothing() {
    let (_folder, server) = with_policies(&[]);
    let wire = Wire::open(&server).await;
    let mut own_hits = reservation(1, &[ALICE]);
    own_hits.descriptors[0].hits_addend = Some(2);
    let nobody = ReserveRequest { domain: String::new(), ..reservation(1, &[ALICE]) };
    for wrong in [
        reservation(1, &[]),
        reservation(1, &[ALICE, BOB]),
        reservation(1, &[&[("model", "large")]]),
        reservation(u64::from(u32::MAX) + 1, &[ALICE]),
        own_hits,
        nobody,
    ] {
        assert_eq!(code(reserve(&wire, wrong).await), Code::InvalidArgument);
    }
    let mut report = commitment("", 1, &[ALICE, BOB]);
    report.descriptors[1].hits_addend = Some(2);
    let refused = commit(&wire, report).await.expect_err("the units are in the call");
    assert!(refused.message().contains("descriptors[1].hits_addend"), "{refused}");
    let held = reserve(&wire, reservation(1, &[ALICE])).await.expect("an answer").reservation_id;
    for reservation in ["never-reserved", &held[1..], &format!("{held}A")] {
        assert_eq!(code(commit(&wire, commitment(reservation, 3, &[ALICE])).await), Code::InvalidArgument);
    }
    let too_many = commitment(&held, u64::from(u32::MAX) + 1, &[ALICE]);
    assert_eq!(code(commit(&wire, too_many).await), Code::InvalidArgument);
    assert_eq!(used(&server, "alice"), [1, 1]);
    // A cost that never fits is a denial, as a check of it is.
    assert_eq!(reserve(&wire, reservation(11, &[BOB])).await.expect("an answer").code, OVER_LIMIT);
}

/// A value in a header that is not UTF-8 made a message that could not be decoded, and the caller let the request
/// through.
#[tokio::test]
async fn values_of_a_reservation_may_have_any_bytes() {
    #[derive(Clone, PartialEq, prost::Message)]
    struct AnyEntry {
        #[prost(string, tag = "1")]
        key: String,
        #[prost(bytes = "vec", tag = "2")]
        value: Vec<u8>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    struct AnyDescriptor {
        #[prost(message, repeated, tag = "1")]
        entries: Vec<AnyEntry>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    struct AnyReservation {
        #[prost(string, tag = "1")]
        domain: String,
        #[prost(message, repeated, tag = "2")]
        descriptors: Vec<AnyDescriptor>,
        #[prost(uint64, tag = "3")]
        amount: u64,
    }
    let (_folder, server) = with_policies(&[]);
    let wire = Wire::open(&server).await;
    let entry = |key: &str, value: &[u8]| AnyEntry { key: key.to_owned(), value: value.to_vec() };
    let entries = vec![entry("model", b"large"), entry("user", b"caf\xe9")];
    let message =
        AnyReservation { domain: "shop".to_owned(), descriptors: vec![AnyDescriptor { entries }], amount: 6 };
    let ask = async || {
        let answer: Result<ReserveResponse, Status> = wire.call_kuadrant(RESERVE, message.clone(), &[]).await;
        answer.expect("an answer").code
    };
    assert_eq!([ask().await, ask().await], [OK, OVER_LIMIT]);
}

const IN_FLIGHT: &str = "
policies:
  - { name: streams, match: { model: '*' }, key: [domain, user], quotas: [100/1d, '2~in_flight:30s'],
      on_store_failure: open }
  - { name: others, match: { other: '*' }, key: [other], quotas: [5/1d] }
unmatched: allow
";

/// A check cannot give back a unit in flight, so it must not seem to take one.
#[tokio::test]
async fn units_in_flight_are_taken_by_reservations_only() {
    let folder = Folder::new();
    let server = start(&["--config", &folder.write("p.yaml", IN_FLIGHT)]);
    let wire = Wire::open(&server).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push(reserve(&wire, reservation(3, &[ALICE])).await.expect("an answer"));
    }
    assert!(held.iter().all(|held| held.code == OK));
    assert_eq!(reserve(&wire, reservation(3, &[ALICE])).await.expect("an answer").code, OVER_LIMIT);
    assert!(
        commit(&wire, commitment(&held[0].reservation_id, 1, &[]))
            .await
            .expect("an answer")
            .reservation_released
    );
    assert_eq!(reserve(&wire, reservation(3, &[ALICE])).await.expect("an answer").code, OK);

    // Next to a descriptor that has no such limit, too, and nothing is charged.
    let other: &[(&str, &str)] = &[("other", "1")];
    for asked in [hits(1, &[ALICE]), hits(1, &[other, ALICE])] {
        for refused in [wire.call(asked.clone()).await, check(&wire, asked.clone()).await] {
            let refused = refused.expect_err("it needs a hold");
            assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
            assert!(refused.message().contains("streams") && refused.message().contains("hold"), "{refused}");
        }
        assert_eq!(code(report(&wire, asked).await), Code::FailedPrecondition);
    }
    assert_eq!(statuses(&wire.call(hits(1, &[other])).await.expect("an answer")), [(OK, 4)]);
}

/// With the store down, the same check was `UNAVAILABLE` or admitted.
#[tokio::test]
async fn a_check_needs_a_hold_whatever_the_store_says() {
    let folder = Folder::new();
    for when_down in ["open", "closed"] {
        let policies = IN_FLIGHT.replace("on_store_failure: open", &format!("on_store_failure: {when_down}"));
        let server =
            start(&["--config", &folder.write("p.yaml", &policies), "--store", "redis://127.0.0.1:1"]);
        let wire = Wire::open(&server).await;
        assert_eq!(code(check(&wire, hits(1, &[ALICE])).await), Code::FailedPrecondition, "{when_down}");
    }
}

/// Nobody got its id, and the cost that a policy sets stayed charged.
#[tokio::test]
async fn a_reservation_whose_id_would_be_too_long_takes_nothing() {
    let (_folder, server) = with_policies(&["--max-attribute-bytes", "20000"]);
    let wire = Wire::open(&server).await;
    let user = "x".repeat(8_000);
    let refused = reserve(&wire, reservation(3, &[&[("model", "large"), ("user", &user)]])).await;
    assert_eq!(code(refused), Code::InvalidArgument);
    assert_eq!(used(&server, &user), [0, 0]);
}
