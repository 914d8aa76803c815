//! The names of the [Spring Boot Redis rate limiter
//! starter](https://github.com/V4run-Sharma/spring-boot-starter-redis-rate-limiter), as Micrometer gives them to
//! Prometheus.

use tollgate_policy::{Identity, Policy};

use super::super::family::{Family, FamilyKind, MetricSample, single};
use super::super::policies::deciding;
use super::super::snapshot::Snapshot;

/// Returns the figures of policies.
pub(in super::super) fn spring_starter(snapshot: &Snapshot) -> Vec<Family<'_>> {
    let live = &*snapshot.policies.live;
    let requests = deciding(live).flat_map(|(policy, tally)| {
        [("allowed", tally.allowed), ("blocked", tally.denied)].map(|(outcome, count)| {
            MetricSample::new(
                [("name", policy.name()), ("scope", scope(policy)), ("outcome", outcome)],
                count,
            )
        })
    });
    let errors = deciding(live).map(|(policy, tally)| {
        // The starter counts no other exception.
        let exception = ("exception", "RateLimiterBackendException");
        MetricSample::new([("name", policy.name()), ("scope", scope(policy)), exception], tally.failed)
    });
    vec![
        Family {
            name: "ratelimiter_requests".into(),
            help: "The same as tollgate_decisions_total",
            kind: FamilyKind::Counter,
            unit: None,
            samples: Box::new(requests),
        },
        Family {
            name: "ratelimiter_errors".into(),
            help: "The same as tollgate_failed_checks_total",
            kind: FamilyKind::Counter,
            unit: None,
            samples: Box::new(errors),
        },
        Family {
            name: "ratelimiter_evaluate_latency".into(),
            help: "The same as tollgate_decision_duration_seconds",
            kind: FamilyKind::Histogram,
            unit: Some("seconds"),
            samples: single(&snapshot.metrics.duration),
        },
    ]
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
