//! The names of the [Spring Boot Redis rate limiter
//! starter](https://github.com/V4run-Sharma/spring-boot-starter-redis-rate-limiter), as Micrometer gives them to Prometheus.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use tollgate_policy::{Identity, Policy, PolicySet};

use super::super::histogram::Histogram;
use super::super::policies::deciding;

/// Exports the figures of policies.
pub(in super::super) fn spring_starter(
    live: &PolicySet,
    duration: &Histogram,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let (name, help) = ("ratelimiter_requests", "The same as tollgate_decisions_total");
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (policy, tally) in deciding(live) {
        for (outcome, count) in [("allowed", tally.allowed), ("blocked", tally.denied)] {
            let labels = [("name", policy.name()), ("scope", scope(policy)), ("outcome", outcome)];
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
    }

    let (name, help) = ("ratelimiter_errors", "The same as tollgate_failed_checks_total");
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (policy, tally) in deciding(live) {
        // The starter counts no other exception.
        let exception = ("exception", "RateLimiterBackendException");
        let labels = [("name", policy.name()), ("scope", scope(policy)), exception];
        metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&tally.failed, None)?;
    }

    let (name, help) = ("ratelimiter_evaluate_latency", "The same as tollgate_decision_duration_seconds");
    duration.encode(encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?)
}

/// Returns the label `scope`. The starter reads it from the annotation; here it follows from the policy's key.
fn scope(policy: &Policy) -> &'static str {
    match policy.identity() {
        Identity::Global => "GLOBAL",
        identity if counts_addresses(identity) => "IP",
        _ => "USER",
    }
}

fn counts_addresses(identity: &Identity) -> bool {
    match identity {
        Identity::Address(..) => true,
        Identity::Attribute(name) => &**name == "ip",
        _ => false,
    }
}
