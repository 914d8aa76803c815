//! Metrics of TLS: failed handshakes, and the state of the certificate.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::tls::{Refusal, ServerTls};

/// Failed handshakes of a listener, by reason. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Handshakes {
    listener: &'static str,
    failed: Arc<[AtomicU64; Refusal::ALL.len()]>,
}

impl Handshakes {
    pub(super) fn new(listener: &'static str) -> Self {
        Self { listener, failed: Arc::default() }
    }

    pub(crate) fn listener(&self) -> &'static str {
        self.listener
    }

    pub(crate) fn refused(&self, refusal: Refusal) {
        // Relaxed, like all metrics.
        if let Some(count) = self.failed.get(refusal as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

pub(super) fn encode(
    tls: &ServerTls,
    listeners: &[Handshakes],
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let (name, help) = ("tollgate_tls_handshakes_failed", "Failed TLS handshakes, by listener and reason");
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for Handshakes { listener, failed } in listeners {
        for (refusal, count) in Refusal::ALL.into_iter().zip(failed.iter()) {
            let labels = [("listener", *listener), ("reason", refusal.name())];
            let count = count.load(Ordering::Relaxed);
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
    }

    let (name, help) =
        ("tollgate_tls_certificate_expiry_timestamp", "When the live certificate expires, in Unix time");
    let expiry = tls.expiry().as_unix_millis() / 1000;
    encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Gauge)?.encode_gauge(&expiry)?;

    let (name, help) = ("tollgate_tls_reloads", "Reloads of the certificate files, by outcome");
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (outcome, count) in tls.reloads().counts() {
        let labels = [("outcome", outcome)];
        metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
    }
    let help = "1 if the certificate files as last read are live, 0 if they could not be used";
    let in_step = i64::from(tls.reloads().are_in_step());
    encoder.encode_descriptor("tollgate_tls_in_step", help, None, MetricType::Gauge)?.encode_gauge(&in_step)
}
