//! `cargo run --package tollgate-tower --features tonic --example tonic`: limits in front of gRPC, and what its
//! client sees.

use std::error::Error;

use tokio::net::TcpListener;
use tollgate::{Limiter, Quota};
use tollgate_tower::key::PeerAddress;
use tollgate_tower::{RateLimitLayer, Rule};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Endpoint, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A method is a route.
    let layer = RateLimitLayer::builder(Rule::unlimited())
        .route(
            "POST /grpc.health.v1.Health/Check",
            Rule::new(Limiter::new(Quota::per_minute(2))).key(PeerAddress::new()),
        )
        .build()?;

    let (_, health) = tonic_health::server::health_reporter();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = Server::builder().layer(layer).add_service(health);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));

    let mut client = HealthClient::new(Endpoint::new(format!("http://{address}"))?.connect().await?);
    for _ in 0..3 {
        match client.check(HealthCheckRequest::default()).await {
            Ok(response) => println!("allowed: {:?}", response.metadata().get("ratelimit")),
            Err(status) => {
                let wait = status.get_details_retry_info().and_then(|info| info.retry_delay);
                println!("{:?}: {}; to wait: {wait:?}", status.code(), status.message());
            }
        }
    }
    Ok(())
}
