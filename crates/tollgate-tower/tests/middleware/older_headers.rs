//! The older headers of a service's answers, read by npm's `ratelimit-header-parser`.
//!
//! `cargo xtask test` installs the parser, sets `TOLLGATE_READ_HEADERS` to the folder of its `read.mjs`, and runs this.

use std::process::Command;

use axum::Router;
use axum::routing::get;
use serde_json::{Value, json};
use tollgate_tower::headers::HeaderFormat;
use tollgate_tower::key::PeerAddress;
use tollgate_tower::{RateLimitLayer, Rule};

use crate::support::{limiter, serve};

/// The time of the limiter's clock.
const NOW: &str = "1700000058400";

/// Returns what the parser reads from this many answers.
async fn read(format: HeaderFormat, answers: usize) -> Vec<Value> {
    let script = std::env::var("TOLLGATE_READ_HEADERS").unwrap();
    let rule = Rule::new(limiter("search", "2/1m")).key(PeerAddress::new());
    let layer = RateLimitLayer::builder(rule).header_format(format).build().unwrap();
    let address = serve(Router::new().route("/", get(|| async { "here you are" })).layer(layer)).await;
    let mut node = Command::new("node");
    node.args([script, format!("http://{address}/"), answers.to_string(), NOW.to_owned()]);
    let output = tokio::task::spawn_blocking(move || node.output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The minute ends 41.6 seconds later. Delta seconds are rounded up; an instant is exact.
#[tokio::test]
#[ignore = "needs node and a parser from npm; `cargo xtask test` has them"]
async fn are_read_as_they_are_meant() {
    for (format, reset) in [
        (HeaderFormat::Draft06, "2023-11-14T22:15:00.400Z"),
        (HeaderFormat::XRateLimit, "2023-11-14T22:15:00.000Z"),
    ] {
        let answer = |status: u16, used: u64| json!({ "status": status, "limit": 2, "used": used, "remaining": 2 - used, "reset": reset });
        assert_eq!(read(format, 3).await, [answer(200, 1), answer(200, 2), answer(429, 2)], "{format}");
    }
}
