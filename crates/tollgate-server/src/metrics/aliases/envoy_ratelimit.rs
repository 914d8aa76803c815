//! The names of [envoyproxy/ratelimit](https://github.com/envoyproxy/ratelimit), as it gives them to Prometheus by
//! default.
//!
//! Its counters do not end in `_total`, as counters of OpenMetrics do. So they are exported without a type.

use std::borrow::Cow;
use std::collections::BTreeMap;

use tollgate_envoy::{HitCounts, Series};

use super::super::family::{Family, FamilyKind, MetricSample, Samples, labelled, single};
use super::super::snapshot::{EnvoyFigures, Snapshot};

/// The method of Envoy's service. Requests at `/json` are counted under it as well.
const METHOD: (&str, &str) = ("grpc_method", "ShouldRateLimit");

/// A counter of hits: its name, its help, and how it is read.
type HitCounter = (&'static str, &'static str, fn(&HitCounts) -> u64);

const HIT_COUNTERS: [HitCounter; 5] = [
    ("total_hits", "Units requested under a limit", |hits| hits.total_hits),
    ("within_limit", "Units of descriptors whose limit had room", |hits| hits.within_limit),
    ("over_limit", "Units that a limit had no room for", |hits| hits.over_limit),
    ("near_limit", "Units between NEAR_LIMIT_RATIO and the limit", |hits| hits.near_limit),
    ("shadow_mode", "Units over a limit in shadow mode, which were admitted", |hits| hits.shadow_mode),
];

pub(in super::super) fn envoy_ratelimit<'a>(
    envoy: &'a EnvoyFigures,
    snapshot: &'a Snapshot,
) -> Vec<Family<'a>> {
    let mut families: Vec<Family<'a>> = HIT_COUNTERS
        .into_iter()
        .map(|(kind, help, read)| {
            let samples = envoy.hits.iter().map(move |(series, hits)| hit_sample(series, read(hits)));
            counter(format!("ratelimit_service_rate_limit_{kind}"), help, Box::new(samples))
        })
        .collect();

    // Its mapping for Prometheus has no rule for these two, so each domain or limit has a metric of its own.
    let denied_locally =
        envoy.hits.iter().map(|(series, hits)| (series_name(series), hits.over_limit_with_local_cache));
    let help = "Units that were denied without asking the store";
    families.extend(one_metric_each("over_limit_with_local_cache", help, denied_locally));
    let not_found = envoy.domains_not_found.iter().map(|(domain, count)| (domain.to_string(), *count));
    let help = "Descriptors that were allowed because no file has their domain";
    families.extend(one_metric_each("domain_not_found", help, not_found));

    let reloads = snapshot.policies.reloads.as_ref().map(|reloads| reloads.counts()).unwrap_or_default();
    let (failed, read): (Vec<_>, Vec<_>) = reloads.into_iter().partition(|(outcome, _)| *outcome == "failed");
    let sum = |counts: Vec<(&str, u64)>| counts.into_iter().map(|(_, count)| count).sum::<u64>();
    families.extend([
        counter(
            "ratelimit_service_global_shadow_mode",
            "Requests that were admitted only because of SHADOW_MODE",
            single(envoy.hidden_denials),
        ),
        counter(
            "ratelimit_service_total_requests",
            "Requests to Envoy's service and to /json that could be read",
            with_method(envoy.requests),
        ),
        Family {
            name: "ratelimit_service_response_time".into(),
            help: "The same as tollgate_decision_duration_seconds",
            kind: FamilyKind::Histogram,
            unit: Some("seconds"),
            samples: with_method(&snapshot.metrics.duration),
        },
        counter(
            "ratelimit_service_should_rate_limit_error",
            "Requests without a decision, by cause",
            labelled("err_type", [("redis_error", envoy.store_errors), ("service_error", envoy.invalid)]),
        ),
        counter(
            "ratelimit_service_config_load_success",
            "Number of times that the files were read and valid",
            // The files that the service started with were read as well.
            single(1 + sum(read)),
        ),
        counter(
            "ratelimit_service_config_load_error",
            "Number of times that the files were read and invalid",
            single(sum(failed)),
        ),
    ]);
    families
}

fn hit_sample(series: &Series, count: u64) -> MetricSample<'_> {
    let mut sample = MetricSample::new([("domain", &*series.domain), ("key1", &*series.key1)], count);
    sample.labels.extend(series.key2.as_deref().map(|key| ("key2", Cow::Borrowed(key))));
    sample
}

/// Returns what would be the labels of a series, as a part of a name.
fn series_name(series: &Series) -> String {
    let keys = [Some(&series.domain), Some(&series.key1), series.key2.as_ref()];
    keys.into_iter().flatten().map(AsRef::as_ref).collect::<Vec<_>>().join("_")
}

/// Returns a metric for each name whose count is not 0. Counts of names that look the same in a metric are added up.
fn one_metric_each<'a>(
    kind: &str,
    help: &'static str,
    counts: impl Iterator<Item = (String, u64)>,
) -> impl Iterator<Item = Family<'a>> {
    let mut metrics = BTreeMap::<String, u64>::new();
    for (name, count) in counts.filter(|(_, count)| *count > 0) {
        let name = format!("ratelimit_service_rate_limit_{}_{kind}", metric_name(name));
        *metrics.entry(name).or_default() += count;
    }
    metrics.into_iter().map(move |(name, count)| counter(name, help, single(count)))
}

/// Replaces what a name of Prometheus cannot contain by `_`, as the exporter of envoyproxy/ratelimit does: several `-`
/// in a row become one `_`, and every other character one each.
fn metric_name(mut name: String) -> String {
    let mut previous = None;
    name.retain(|c| previous.replace(c) != Some('-') || c != '-');
    name.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

fn with_method<'a>(value: impl Into<super::super::family::SampleValue<'a>>) -> Samples<'a> {
    Box::new(std::iter::once(MetricSample::new([METHOD], value)))
}

fn counter<'a>(name: impl Into<Cow<'a, str>>, help: &'static str, samples: Samples<'a>) -> Family<'a> {
    Family { name: name.into(), help, kind: FamilyKind::Unknown, unit: None, samples }
}
