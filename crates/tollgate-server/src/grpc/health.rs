//! What `grpc.health.v1` answers: whether calls are decided, as `/readyz` does.

use std::sync::Arc;
use std::time::Duration;

use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};

use super::method::{MAX_MESSAGE, Tonic};
use crate::http::Edge;
use crate::phase::Phase;
use crate::store::ServedStore;

/// The services that can be asked about: the whole server, Envoy's by its name, and the name that the checks of
/// envoyproxy/ratelimit have.
const SERVICES: [&str; 3] = ["", "envoy.service.ratelimit.v3.RateLimitService", "ratelimit"];

/// How often the store is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// The service, and what tells it how things are.
pub(super) fn service() -> (Tonic, HealthReporter) {
    let reporter = HealthReporter::new();
    let server = HealthServer::new(HealthService::from_health_reporter(reporter.clone()));
    let server = server.max_decoding_message_size(MAX_MESSAGE);
    (Tonic::new("/grpc.health.v1.Health/", None, server), reporter)
}

/// Reports how things are until the service stops.
pub(crate) async fn report<S: ServedStore + 'static>(
    reporter: HealthReporter,
    edge: Arc<Edge<S>>,
    phase: Phase,
) {
    let mut reported = None;
    loop {
        let is_ready = edge.is_ready().await;
        // Whoever watches is sent each report, so only changes are reported.
        if reported != Some(is_ready) {
            let status = if is_ready { ServingStatus::Serving } else { ServingStatus::NotServing };
            for service in SERVICES {
                reporter.set_service_status(service, status).await;
            }
            reported = Some(is_ready);
        }
        if phase.is_leaving() {
            return;
        }
        tokio::select! {
            () = phase.leaving() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}
