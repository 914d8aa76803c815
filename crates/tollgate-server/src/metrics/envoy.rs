//! Metrics of Envoy's service by files of envoyproxy/ratelimit. The labels are names of domains in these files, so the
//! operator bounds their number.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use tollgate_envoy::{Domains, HitCounts, Series};

/// The figures of Envoy's service at the time of a scrape.
pub(crate) struct EnvoyFigures {
    pub(crate) live: Arc<Domains>,
    /// Requests to Envoy's service, over every protocol.
    pub(crate) requests: u64,
    /// Requests of domains that no file has.
    pub(crate) unknown_domains: u64,
    /// Requests without a decision because of the store.
    pub(crate) store_errors: u64,
    /// Invalid requests.
    pub(crate) invalid: u64,
    /// Descriptors in domains that no file has.
    pub(crate) domains_not_found: Vec<(Box<str>, u64)>,
    /// Requests that were admitted only because of `SHADOW_MODE`.
    pub(crate) hidden_denials: u64,
    /// The hits of each limit, if they are counted.
    pub(crate) hits: Vec<(Series, HitCounts)>,
}

impl EnvoyFigures {
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (name, help) = (
            "tollgate_domain_decisions",
            "Requests to Envoy's service that were decided, by domain and verdict",
        );
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (domain, verdicts) in self.live.verdicts().collect::<BTreeMap<_, _>>() {
            for (verdict, count) in [("allowed", verdicts.allowed), ("denied", verdicts.denied)] {
                let labels = [("domain", domain), ("verdict", verdict)];
                metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
            }
        }

        let (name, help) = (
            "tollgate_unknown_domain_checks",
            "Requests to Envoy's service that were allowed because no file has their domain",
        );
        encoder
            .encode_descriptor(name, help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, u64>(&self.unknown_domains, None)
    }
}
