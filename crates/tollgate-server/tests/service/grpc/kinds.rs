//! What Envoy learns about quotas that are not fixed windows.

use serde_json::json;

use crate::grpc_client::{OK, OVER_LIMIT, RateLimitRequest, Wire, request, start};
use crate::support::Server;
use crate::support::folder::Folder;

const POLICIES: &str = r#"
policies:
  - { name: burst, match: { kind: burst }, key: [user], quotas: ["100/1m~burst:20"] }
  - { name: sliding, match: { kind: sliding }, key: [user], quotas: [20/1h~sliding] }
  - { name: log, match: { kind: log }, key: [user], quotas: ["20/1m~log"], headers: draft-06 }
  - { name: odd, match: { kind: odd }, key: [user], quotas: ["20/7m~log:1s"] }
"#;

const HOUR: u64 = 3_600_000;

/// Numbers of Envoy's units.
const NONE: i32 = 0;
const MINUTES: i32 = 2;
const HOURS: i32 = 3;

/// What a status says: the code, the limit and its unit, the remaining units, and the seconds to wait.
type Said = (i32, (u32, i32), u32, i64);

/// Starts a service whose clock stands still at the beginning of an hour.
async fn begin() -> (Folder, Server, Wire) {
    let folder = Folder::new();
    let file = folder.write("kinds.yaml", POLICIES);
    let server = start(&["--config", &file, "--test-clock", "--grpc-limit-headers"]);
    let now = server.admin_post("/v1/clock", r#"{"advance_ms": 0}"#).json()["now"].as_u64().expect("a time");
    advance(&server, HOUR - now % HOUR);
    let wire = Wire::open(&server).await;
    (folder, server, wire)
}

fn advance(server: &Server, millis: u64) {
    let moved = server.admin_post("/v1/clock", &json!({ "advance_ms": millis }).to_string());
    assert_eq!(moved.status, 200);
}

/// Asks for this many units. Returns what the status says, and the headers for the client.
async fn ask(wire: &Wire, kind: &str, units: u32) -> (Said, Vec<(String, String)>) {
    let asked = RateLimitRequest { hits_addend: units, ..request(&[&[("kind", kind), ("user", "alice")]]) };
    let response = wire.call(asked).await.expect("an answer");
    let [status] = &*response.statuses else { panic!("not one status: {response:?}") };
    assert_eq!(response.overall_code, status.code);
    let limit = status.current_limit.as_ref().expect("a limit");
    assert_eq!(limit.name, kind);
    let wait = status.duration_until_reset.expect("a time to wait");
    assert_eq!(wait.nanos, 0);
    let headers = response.response_headers_to_add.into_iter().map(|header| (header.key, header.value));
    let limit = (limit.requests_per_unit, limit.unit);
    ((status.code, limit, status.limit_remaining, wait.seconds), headers.collect())
}

async fn said(wire: &Wire, kind: &str, units: u32) -> Said {
    ask(wire, kind, units).await.0
}

/// One unit comes back in 600 ms.
#[tokio::test]
async fn a_bucket_is_named_by_its_limit_and_remains_by_its_burst() {
    let (_folder, server, wire) = begin().await;
    let limit = (100, MINUTES);
    assert_eq!(said(&wire, "burst", 15).await, (OK, limit, 5, 1), "one more in 600 ms");
    // Twenty units are there when all 15 are back, in 9 s.
    assert_eq!(said(&wire, "burst", 20).await, (OVER_LIMIT, limit, 0, 9));
    advance(&server, 8_999);
    assert_eq!(said(&wire, "burst", 20).await, (OVER_LIMIT, limit, 0, 1));
    advance(&server, 1);
    assert_eq!(said(&wire, "burst", 20).await, (OK, limit, 0, 1));
    // Above the burst, it never fits: the time is that of one more unit.
    assert_eq!(said(&wire, "burst", 21).await, (OVER_LIMIT, limit, 0, 1));
}

/// Twenty units of an hour leave one by one in the next hour, one every three minutes.
#[tokio::test]
async fn a_sliding_window_waits_into_the_next_one() {
    let (_folder, server, wire) = begin().await;
    let limit = (20, HOURS);
    assert_eq!(said(&wire, "sliding", 20).await, (OK, limit, 0, 3_600 + 180));
    // Five are free a quarter into the next hour.
    assert_eq!(said(&wire, "sliding", 5).await, (OVER_LIMIT, limit, 0, 3_600 + 900));
    advance(&server, 3_600_000 + 899_999);
    assert_eq!(said(&wire, "sliding", 5).await, (OVER_LIMIT, limit, 0, 1));
    advance(&server, 1);
    assert_eq!(said(&wire, "sliding", 5).await, (OK, limit, 0, 180));
}

/// The units of a charge are free a minute after it.
#[tokio::test]
async fn a_log_waits_for_its_oldest_charge() {
    let (_folder, server, wire) = begin().await;
    let limit = (20, MINUTES);
    assert_eq!(said(&wire, "log", 15).await, (OK, limit, 5, 60));
    advance(&server, 20_000);
    assert_eq!(said(&wire, "log", 5).await, (OK, limit, 0, 40));
    // Fifteen are free when the first charge leaves, sixteen when the second one does.
    assert_eq!(said(&wire, "log", 15).await, (OVER_LIMIT, limit, 0, 40));
    assert_eq!(said(&wire, "log", 16).await, (OVER_LIMIT, limit, 0, 60));
    advance(&server, 39_999);
    assert_eq!(said(&wire, "log", 15).await, (OVER_LIMIT, limit, 0, 1));
    advance(&server, 1);
    assert_eq!(said(&wire, "log", 15).await, (OK, limit, 0, 20));
}

/// Envoy has no unit of seven minutes. Units leave seven minutes after the last millisecond of their step.
#[tokio::test]
async fn a_log_of_a_length_without_a_name_has_no_unit() {
    let (_folder, server, wire) = begin().await;
    advance(&server, 400);
    assert_eq!(said(&wire, "odd", 20).await, (OK, (20, NONE), 0, 421));
    advance(&server, 420_598);
    assert_eq!(said(&wire, "odd", 1).await, (OVER_LIMIT, (20, NONE), 0, 1));
    advance(&server, 1);
    assert_eq!(said(&wire, "odd", 1).await, (OK, (20, NONE), 19, 420));
}

#[tokio::test]
async fn headers_for_the_client_say_the_same() {
    let (_folder, _server, wire) = begin().await;
    let header = |headers: &[(String, String)], name: &str| {
        headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.clone())
    };
    let (_, headers) = ask(&wire, "burst", 15).await;
    assert_eq!(
        header(&headers, "ratelimit-policy").as_deref(),
        Some(r#""burst";q=100;w=60;tollgate-burst=20"#)
    );
    assert_eq!(header(&headers, "ratelimit").as_deref(), Some(r#""burst";r=5;t=1"#));
    let (_, headers) = ask(&wire, "burst", 20).await;
    assert_eq!(header(&headers, "retry-after").as_deref(), Some("9"));
    let (_, headers) = ask(&wire, "sliding", 20).await;
    assert_eq!(header(&headers, "ratelimit-policy").as_deref(), Some(r#""sliding";q=20;w=3600"#));
    assert_eq!(header(&headers, "ratelimit").as_deref(), Some(r#""sliding";r=0;t=3780"#));
    let (_, headers) = ask(&wire, "log", 20).await;
    let older = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"];
    assert_eq!(older.map(|name| header(&headers, name).expect("a header")), ["20", "0", "60"]);
}

/// Envoy's clients were told a limit that nobody had written.
#[tokio::test]
async fn an_outage_does_not_change_the_limit_that_envoy_is_told() {
    let folder = Folder::new();
    let policies = POLICIES.replace("key: [user]", "key: [user], on_store_failure: local, local_share: 1/4");
    let server =
        start(&["--config", &folder.write("kinds.yaml", &policies), "--store", "redis://127.0.0.1:1"]);
    let wire = Wire::open(&server).await;
    for (kind, limit) in [("burst", (100, MINUTES)), ("sliding", (20, HOURS)), ("log", (20, MINUTES))] {
        // The share of 20 is 5, of which one is used.
        let (code, said, left, _) = said(&wire, kind, 1).await;
        assert_eq!((code, said, left), (OK, limit, 4), "{kind}");
    }
}
