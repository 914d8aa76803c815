//! The answers of `grpc.health.v1`: whether calls are decided, as for `/readyz`.

use std::sync::Arc;
use std::time::Duration;

use tonic_health::ServingStatus;
use tonic_health::pb::health_server::{Health as _, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_health::server::{HealthReporter, HealthService};

use super::method::{MAX_MESSAGE, Tonic};
use crate::answer::rejection::Rejection;
use crate::answer::rejection_kind::RejectionKind;
use crate::decide::decider::Decider;
use crate::net::drain::Phase;

/// The services that can be asked about: the whole server, Envoy's and Kuadrant's by their names, and the name that the
/// checks of envoyproxy/ratelimit have.
const SERVICES: [&str; 4] = [
    "",
    "envoy.service.ratelimit.v3.RateLimitService",
    "kuadrant.service.ratelimit.v1.RateLimitService",
    "ratelimit",
];

/// The interval at which the store is checked.
const LOOK: Duration = Duration::from_secs(1);

/// Answers single questions. Tonic's service answers streams of them.
pub(super) struct Health(HealthService);

impl Health {
    pub(super) async fn answer(&self, asked: HealthCheckRequest) -> Result<HealthCheckResponse, Rejection> {
        let answer = self.0.check(tonic::Request::new(asked)).await;
        let unknown = |_| Rejection::new(RejectionKind::NotFound, "there is no service with this name");
        answer.map(tonic::Response::into_inner).map_err(unknown)
    }
}

/// Returns the services, and the handle that reports their state. Before the first report, none of them serves.
pub(super) async fn services() -> (Health, Tonic, HealthReporter) {
    let reporter = HealthReporter::new();
    tell(&reporter, ServingStatus::NotServing).await;
    let service = || HealthService::from_health_reporter(reporter.clone());
    let server = HealthServer::new(service()).max_decoding_message_size(MAX_MESSAGE);
    (Health(service()), Tonic::new("/grpc.health.v1.Health/", None, server), reporter)
}

/// Reports how things are until the service stops.
pub(crate) async fn report(reporter: HealthReporter, decider: Arc<Decider>, phase: Phase) {
    let mut reported = None;
    loop {
        // Asked before the look at the store, which may take a while: the last report must be one of leaving.
        let is_leaving = phase.is_leaving();
        let is_ready = !is_leaving && decider.is_ready().await;
        // Whoever watches is sent each report, so only changes are reported.
        if reported != Some(is_ready) {
            tell(&reporter, if is_ready { ServingStatus::Serving } else { ServingStatus::NotServing }).await;
            reported = Some(is_ready);
        }
        if is_leaving {
            return;
        }
        tokio::select! {
            () = phase.leaving() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

async fn tell(reporter: &HealthReporter, status: ServingStatus) {
    for service in SERVICES {
        reporter.set_service_status(service, status).await;
    }
}
