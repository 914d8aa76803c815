//! The names of [envoyproxy/ratelimit](https://github.com/envoyproxy/ratelimit), as it gives them to Prometheus by default.
//!
//! Its counters do not end in `_total`, as counters of OpenMetrics do. So they are exported without a type.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use tollgate_envoy::{HitCounts, Series};

use super::super::envoy::EnvoyFigures;
use super::super::histogram::Histogram;
use crate::live::reload::ReloadState;

/// The method of Envoy's service. Requests at `/json` are counted under it as well.
const METHOD: [(&str, &str); 1] = [("grpc_method", "ShouldRateLimit")];

/// How long decisions took, and how often files were read.
pub(in super::super) struct Asked<'a> {
    pub(in super::super) duration: &'a Histogram,
    pub(in super::super) reloads: Option<&'a ReloadState>,
}

/// A counter of hits: its name, its help and its figure.
type Kind = (&'static str, &'static str, fn(&HitCounts) -> u64);

const KINDS: [Kind; 5] = [
    ("total_hits", "Units requested under a limit", |hits| hits.total_hits),
    ("within_limit", "Units of descriptors whose limit had room", |hits| hits.within_limit),
    ("over_limit", "Units that a limit had no room for", |hits| hits.over_limit),
    ("near_limit", "Units between NEAR_LIMIT_RATIO and the limit", |hits| hits.near_limit),
    ("shadow_mode", "Units over a limit in shadow mode, which were admitted", |hits| hits.shadow_mode),
];

pub(in super::super) fn envoy_ratelimit(
    envoy: &EnvoyFigures,
    asked: &Asked<'_>,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    for (kind, help, figure) in KINDS {
        let name = format!("ratelimit_service_rate_limit_{kind}");
        let mut metric = counter(encoder, &name, help)?;
        for (series, hits) in &envoy.hits {
            let mut labels = vec![("domain", &*series.domain), ("key1", &*series.key1)];
            labels.extend(series.key2.as_deref().map(|key| ("key2", key)));
            metric.encode_family(&labels)?.encode_gauge(&figure(hits))?;
        }
    }

    // Its mapping for Prometheus has no rule for these, so their names hold what would be labels.
    let named = |series: &Series| {
        let keys = [Some(&series.domain), Some(&series.key1), series.key2.as_ref()];
        keys.into_iter().flatten().map(AsRef::as_ref).collect::<Vec<_>>().join("_")
    };
    let without_store =
        envoy.hits.iter().map(|(series, hits)| (named(series), hits.over_limit_with_local_cache));
    let help = "Units that were denied without asking the store";
    unmapped(encoder, "over_limit_with_local_cache", help, without_store)?;
    let not_found = envoy.domains_not_found.iter().map(|(domain, count)| (domain.to_string(), *count));
    let help = "Descriptors that were allowed because no file has their domain";
    unmapped(encoder, "domain_not_found", help, not_found)?;

    let (name, help) =
        ("ratelimit_service_global_shadow_mode", "Requests that were admitted only because of SHADOW_MODE");
    counter(encoder, name, help)?.encode_gauge(&envoy.hidden_denials)?;

    let (name, help) =
        ("ratelimit_service_total_requests", "Requests to Envoy's service and to /json that could be read");
    counter(encoder, name, help)?.encode_family(&METHOD)?.encode_gauge(&envoy.requests)?;

    let (name, help) = ("ratelimit_service_response_time", "The same as tollgate_decision_duration_seconds");
    let mut metric = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
    asked.duration.encode(metric.encode_family(&METHOD)?)?;

    let (name, help) = ("ratelimit_service_should_rate_limit_error", "Requests without a decision, by cause");
    let mut metric = counter(encoder, name, help)?;
    for (cause, count) in [("redis_error", envoy.store_errors), ("service_error", envoy.invalid)] {
        metric.encode_family(&[("err_type", cause)])?.encode_gauge(&count)?;
    }

    let reloads = asked.reloads.map(ReloadState::counts).unwrap_or_default();
    let of = |failed| reloads.iter().filter(move |(outcome, _)| (*outcome == "failed") == failed);
    let sum = |failed| of(failed).map(|(_, count)| count).sum::<u64>();
    // The files that the service started with were read as well.
    for (outcome, help, count) in [
        ("success", "Number of times that the files were read and valid", 1 + sum(false)),
        ("error", "Number of times that the files were read and invalid", sum(true)),
    ] {
        let name = format!("ratelimit_service_config_load_{outcome}");
        counter(encoder, &name, help)?.encode_gauge(&count)?;
    }
    Ok(())
}

/// Exports counters that have a metric each, from their first unit on.
fn unmapped(
    encoder: &mut DescriptorEncoder<'_>,
    kind: &str,
    help: &str,
    counts: impl Iterator<Item = (String, u64)>,
) -> fmt::Result {
    let mut metrics = BTreeMap::<String, u64>::new();
    for (mut name, count) in counts.filter(|(_, count)| *count > 0) {
        // As there, several `-` become one `_`, and so does any other character.
        let mut previous = None;
        name.retain(|c| previous.replace(c) != Some('-') || c != '-');
        let name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        *metrics.entry(format!("ratelimit_service_rate_limit_{name}_{kind}")).or_default() += count;
    }
    metrics.iter().try_for_each(|(name, count)| counter(encoder, name, help)?.encode_gauge(count))
}

fn counter<'a>(
    encoder: &'a mut DescriptorEncoder<'_>,
    name: &'a str,
    help: &str,
) -> Result<MetricEncoder<'a>, fmt::Error> {
    encoder.encode_descriptor(name, help, None, MetricType::Unknown)
}
