//! Every metric of the service, in the order in which they are exported. A key never becomes a label, except in
//! `aliases/envoy_ratelimit.rs`, if a file requests it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use tollgate_envoy::DomainVerdicts;

use super::aliases;
use super::checks::CheckSource;
use super::family::{Family, FamilyKind, MetricSample, Samples, labelled, single};
use super::policies;
use super::snapshot::{OverridesFigures, Snapshot};
use crate::args::MetricAliases;

/// One metric, and how its values are read.
struct Metric {
    /// Without the unit, and without the suffix of its samples.
    name: &'static str,
    help: &'static str,
    kind: FamilyKind,
    unit: Option<&'static str>,
    /// Returns the values; `None` if a service with these flags has no such metric.
    read: ReadSamples,
}

type ReadSamples = for<'a> fn(&'a Snapshot) -> Option<Samples<'a>>;

/// Returns all metrics with their values.
pub(super) fn families(snapshot: &Snapshot) -> impl Iterator<Item = Family<'_>> {
    let own = METRICS.iter().filter_map(|metric| metric.family(snapshot));
    let aliases = match (snapshot.aliases, &snapshot.envoy) {
        (Some(MetricAliases::SpringStarter), _) => aliases::spring_starter(snapshot),
        (Some(MetricAliases::EnvoyRatelimit), Some(envoy)) => aliases::envoy_ratelimit(envoy, snapshot),
        (Some(MetricAliases::EnvoyRatelimit) | None, _) => Vec::new(),
    };
    own.chain(aliases).chain(GENERATION.family(snapshot)).chain(BUILD.family(snapshot))
}

const METRICS: &[Metric] = &[
    counter("tollgate_checks", "Checks, each counted once, by the source of the answer", |snapshot| {
        Some(labelled("source", snapshot.metrics.checks.counts()))
    }),
    counter("tollgate_decisions", "Checks that were decided, by deciding policy and verdict", |snapshot| {
        Some(policies::decisions(&snapshot.policies.live))
    }),
    counter(
        "tollgate_fallback_decisions",
        "Decisions made while the store could not answer or was full, by deciding policy and verdict",
        |snapshot| Some(policies::fallback_decisions(&snapshot.policies.live)),
    ),
    counter(
        "tollgate_failed_checks",
        "Checks without a decision, counted for each of their policies with on_store_failure: closed",
        |snapshot| Some(policies::failed_checks(&snapshot.policies.live)),
    ),
    counter("tollgate_trials", "Verdicts that shadow policies and candidates would have given", |snapshot| {
        Some(policies::trials(&snapshot.policies.live))
    }),
    counter(
        "tollgate_holds",
        "Holds by policy: admitted, settled, or answered as lost or expired. A repeated call counts again only for lost and expired",
        |snapshot| Some(policies::holds(&snapshot.policies.live)),
    ),
    counter(
        "tollgate_hold_overrun_units",
        "Units by which costs exceeded their estimates, by policy: charged or forgiven. A repeated settlement counts once",
        |snapshot| Some(policies::overrun_units(&snapshot.policies.live)),
    ),
    counter(
        "tollgate_hold_expired_units",
        "Units in flight that expired because no caller settled or renewed them, by policy, as far as later requests found them",
        |snapshot| Some(policies::expired_units(&snapshot.policies.live)),
    ),
    counter("tollgate_unlimited_checks", "Checks that no policy limits", |snapshot| {
        Some(single(snapshot.policies.live.unlimited()))
    }),
    counter(
        "tollgate_unmatched_denials",
        "Checks denied because no policy matches (unmatched: deny)",
        |snapshot| Some(single(snapshot.policies.live.unmatched())),
    ),
    gauge("tollgate_policies_version", "Version of the live policies, from 1", |snapshot| {
        Some(single(snapshot.policies.live.version()))
    }),
    counter(
        "tollgate_policies_reloads",
        "Reloads of the policies, from files or over xDS, by outcome",
        |snapshot| Some(labelled("outcome", snapshot.policies.reloads.as_ref()?.counts())),
    ),
    gauge(
        "tollgate_policies_in_step",
        "1 if the limits as last read or received are live, 0 if they were invalid or none has arrived yet",
        |snapshot| {
            let has_none = snapshot.xds.as_ref().is_some_and(|(_, accepted)| accepted.is_none());
            Some(single(!has_none && snapshot.policies.reloads.as_ref()?.failure().is_none()))
        },
    ),
    gauge(
        "tollgate_policies_age",
        "Time since the live limits last matched the file, or those of the xDS server",
        |snapshot| Some(single(snapshot.policies.reloads.as_ref()?.age().as_secs_f64())),
    )
    .in_unit("seconds"),
    gauge(
        "tollgate_overrides",
        "Overrides that this process has, those that have ended or are inert included",
        |snapshot| Some(single(snapshot.overrides.as_ref()?.overrides)),
    ),
    gauge(
        "tollgate_overrides_version",
        "Number of the live version of the overrides; absent if there was never a change",
        |snapshot| {
            let version = snapshot.overrides.as_ref()?.version;
            Some(Box::new(version.into_iter().map(|version| MetricSample::new([], version.number))))
        },
    ),
    gauge(
        "tollgate_overrides_age",
        "Time since the overrides were last read from the store; absent until then",
        |snapshot| {
            let OverridesFigures { loads: Some(_), age, .. } = snapshot.overrides.as_ref()? else {
                return None;
            };
            Some(Box::new(age.iter().map(|age| MetricSample::new([], age.as_secs_f64()))))
        },
    )
    .in_unit("seconds"),
    gauge(
        "tollgate_overrides_stale",
        "1 if the overrides could not be read from the store for a second, else 0",
        |snapshot| Some(single(snapshot.overrides.as_ref()?.is_stale)),
    ),
    counter(
        "tollgate_overrides_loads",
        "How often all overrides were read from the store: at the start, and after a loss of data",
        |snapshot| Some(single(snapshot.overrides.as_ref()?.loads?)),
    ),
    counter(
        "tollgate_override_changes",
        "Changes of overrides that this process was asked for, by outcome",
        |snapshot| Some(labelled("outcome", snapshot.overrides.as_ref()?.changes)),
    ),
    counter(
        "tollgate_domain_decisions",
        "Requests to Envoy's service that were decided, by domain and verdict",
        |snapshot| Some(domain_decisions(snapshot.envoy.as_ref()?.live.verdicts().collect())),
    ),
    counter(
        "tollgate_unknown_domain_checks",
        "Requests to Envoy's service that were allowed because their domain has no limits",
        |snapshot| Some(single(snapshot.envoy.as_ref()?.unknown_domains)),
    ),
    gauge("tollgate_xds_connected", "1 if the xDS server is connected, else 0", |snapshot| {
        Some(single(snapshot.xds.as_ref()?.0.is_connected()))
    }),
    counter(
        "tollgate_xds_updates",
        "Updates of the limits over xDS, by outcome: accepted (ACK) or rejected (NACK)",
        |snapshot| Some(labelled("outcome", snapshot.xds.as_ref()?.0.updates())),
    ),
    gauge(
        "tollgate_xds_accepted_timestamp",
        "When the last update over xDS was accepted, in Unix time; absent until then",
        |snapshot| {
            let accepted = snapshot.xds.as_ref()?.1.as_ref();
            Some(Box::new(
                accepted.into_iter().map(|update| MetricSample::new([], update.at.as_unix_millis() / 1000)),
            ))
        },
    )
    .in_unit("seconds"),
    Metric {
        kind: FamilyKind::Info,
        ..counter(
            "tollgate_xds_version",
            "The server's version of the last update that was accepted; absent until then",
            |snapshot| {
                let accepted = snapshot.xds.as_ref()?.1.as_ref();
                Some(labelled("version", accepted.into_iter().map(|update| (&*update.version, true))))
            },
        )
    },
    gauge(
        "tollgate_principal_last_used",
        "When a principal was last recognised, in Unix time; absent until then",
        |snapshot| Some(labelled("name", snapshot.principals.as_ref()?.0.last_used())),
    )
    .in_unit("seconds"),
    counter("tollgate_principals_reloads", "Reloads of the file of principals, by outcome", |snapshot| {
        Some(labelled("outcome", snapshot.principals.as_ref()?.1.counts()))
    }),
    gauge(
        "tollgate_principals_in_step",
        "1 if the file of principals as last read is live, 0 if it was invalid",
        |snapshot| Some(single(snapshot.principals.as_ref()?.1.failure().is_none())),
    ),
    histogram(
        "tollgate_decision_duration",
        "Time from attributes to decision; for a batch, to its last decision",
        |snapshot| Some(single(&snapshot.metrics.duration)),
    ),
    counter("tollgate_local_denials", "Denials repeated without asking the store", |snapshot| {
        snapshot.shared.as_ref().map(|_| single(snapshot.metrics.checks.of(CheckSource::Local)))
    }),
    gauge("tollgate_store_up", "1 if the store answered the last step, else 0", |snapshot| {
        Some(single(snapshot.shared.as_ref()?.0.is_up()))
    }),
    gauge(
        "tollgate_store_server_connected",
        "1 if calls are sent to this server of the store, 0 while it is silent or unreachable",
        |snapshot| {
            let servers = snapshot.shared.as_ref()?.1.servers().iter();
            Some(labelled("server", servers.map(|server| (server.name(), server.is_connected()))))
        },
    ),
    histogram(
        "tollgate_store_duration",
        "Time that the store takes for a step; a batch is one step",
        |snapshot| Some(single(snapshot.shared.as_ref()?.0.duration())),
    ),
    counter(
        "tollgate_store_late_replies",
        "Replies of the store that arrived after their deadline",
        |snapshot| Some(single(snapshot.shared.as_ref()?.1.late_replies())),
    ),
    counter("tollgate_store_errors", "Requests that the store did not count, by kind of error", |snapshot| {
        Some(labelled("kind", snapshot.shared.as_ref()?.0.errors()))
    }),
    gauge(
        "tollgate_store_counters",
        "Counters in memory; those of closed windows count until their space is reused",
        |snapshot| Some(single(snapshot.memory.counters)),
    ),
    gauge(
        "tollgate_store_max_counters",
        "Maximum number of counters in memory (--max-counters)",
        |snapshot| Some(single(snapshot.memory.max_counters)),
    ),
    gauge(
        "tollgate_store_holds",
        "Ids of holds in memory: of those that live, and of settled ones that are still remembered",
        |snapshot| Some(single(snapshot.memory.holds)),
    ),
    counter(
        "tollgate_store_expired_holds",
        "Holds in memory that expired before they were settled",
        |snapshot| Some(single(snapshot.memory.expired_holds)),
    ),
    counter("tollgate_store_full", "Requests that got no counter because memory was full", |snapshot| {
        Some(single(snapshot.policies.store_full))
    }),
    counter("tollgate_http_requests_rejected", "Requests without a decision, by status", |snapshot| {
        Some(Box::new(snapshot.metrics.rejections.samples()))
    }),
    gauge("tollgate_http_connections", "Open connections, by listener", |snapshot| {
        let listeners = snapshot.metrics.connections.iter();
        Some(labelled("listener", listeners.map(|open| (open.listener(), open.count()))))
    }),
    counter(
        "tollgate_http_connections_full",
        "Connections that had to wait because --max-connections were open, by listener",
        |snapshot| {
            let listeners = snapshot.metrics.connections.iter();
            Some(labelled("listener", listeners.map(|open| (open.listener(), open.full_count()))))
        },
    ),
    counter(
        "tollgate_http_connections_refused",
        "Connections closed because their client had --max-connections-per-peer open, by listener",
        |snapshot| {
            let listeners = snapshot.metrics.connections.iter();
            Some(labelled("listener", listeners.map(|open| (open.listener(), open.refused_count()))))
        },
    ),
    counter(
        "tollgate_http_connections_cut",
        "Connections that ended before the client had received its answers, by reason",
        |snapshot| Some(labelled("reason", snapshot.metrics.cuts.counts())),
    ),
    gauge(
        "tollgate_http_body_memory",
        "Memory of requests and answers in flight, limited by --body-memory",
        |snapshot| Some(single(snapshot.body_memory.held_bytes)),
    )
    .in_unit("bytes"),
    counter(
        "tollgate_http_body_memory_refused",
        "Requests answered 503 because --body-memory was used up",
        |snapshot| Some(single(snapshot.body_memory.refused)),
    ),
    counter("tollgate_tls_handshakes_failed", "Failed TLS handshakes, by listener and reason", |snapshot| {
        snapshot.tls.map(|_| failed_handshakes(snapshot))
    }),
    gauge(
        "tollgate_tls_certificate_expiry_timestamp",
        "When the live certificate expires, in Unix time",
        |snapshot| Some(single(snapshot.tls?.expiry.as_unix_millis() / 1000)),
    )
    .in_unit("seconds"),
    counter("tollgate_tls_reloads", "Reloads of the certificate files, by outcome", |snapshot| {
        Some(labelled("outcome", snapshot.tls?.reloads))
    }),
    gauge(
        "tollgate_tls_in_step",
        "1 if the certificate files as last read are live, 0 if they could not be used",
        |snapshot| Some(single(snapshot.tls?.is_in_step)),
    ),
];

const GENERATION: Metric = Metric {
    kind: FamilyKind::Info,
    ..counter(
        "tollgate_generation",
        "Hash of the live limits, the same for every process with the same limits",
        |snapshot| Some(generation(snapshot)),
    )
};

const BUILD: Metric = Metric {
    kind: FamilyKind::Info,
    ..counter("tollgate_build", "Version of the service", |_| {
        Some(labelled("version", [(env!("CARGO_PKG_VERSION"), true)]))
    })
};

fn generation(snapshot: &Snapshot) -> Samples<'_> {
    let generation = match &snapshot.envoy {
        Some(envoy) => envoy.generation,
        None => Some(snapshot.policies.live.policies().generation()),
    };
    Box::new(generation.into_iter().map(|generation| {
        let labels = vec![("generation", Cow::Owned(generation.to_string()))];
        MetricSample { labels, value: true.into() }
    }))
}

fn domain_decisions<'a>(verdicts: BTreeMap<&'a str, DomainVerdicts>) -> Samples<'a> {
    Box::new(verdicts.into_iter().flat_map(|(domain, verdicts)| {
        [("allowed", verdicts.allowed), ("denied", verdicts.denied)]
            .map(|(verdict, count)| MetricSample::new([("domain", domain), ("verdict", verdict)], count))
    }))
}

fn failed_handshakes(snapshot: &Snapshot) -> Samples<'_> {
    Box::new(snapshot.metrics.handshakes.iter().flat_map(|handshakes| {
        let listener = handshakes.listener();
        handshakes.counts().map(move |(reason, count)| {
            MetricSample::new([("listener", listener), ("reason", reason)], count)
        })
    }))
}

const fn counter(name: &'static str, help: &'static str, read: ReadSamples) -> Metric {
    Metric { name, help, kind: FamilyKind::Counter, unit: None, read }
}

const fn gauge(name: &'static str, help: &'static str, read: ReadSamples) -> Metric {
    Metric { kind: FamilyKind::Gauge, ..counter(name, help, read) }
}

/// A histogram of durations in seconds.
const fn histogram(name: &'static str, help: &'static str, read: ReadSamples) -> Metric {
    Metric { kind: FamilyKind::Histogram, ..counter(name, help, read) }.in_unit("seconds")
}

impl Metric {
    const fn in_unit(self, unit: &'static str) -> Self {
        Self { unit: Some(unit), ..self }
    }

    fn family<'a>(&self, snapshot: &'a Snapshot) -> Option<Family<'a>> {
        let Self { name, help, kind, unit, read } = *self;
        Some(Family { name: name.into(), help, kind, unit, samples: read(snapshot)? })
    }
}
