//! Metrics of principals. The labels are their names, so the operator bounds their number.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::access::principals::SharedPrincipals;
use crate::live::reload::ReloadState;

/// The live principals, and the outcomes of reloads.
pub(crate) struct PrincipalFigures {
    pub(crate) live: SharedPrincipals,
    pub(crate) reloads: Arc<ReloadState>,
}

impl PrincipalFigures {
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "When a principal was last recognised, in Unix time; absent until then";
        let name = "tollgate_principal_last_used";
        let mut metric = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Gauge)?;
        for (name, seconds) in self.live.load().last_used() {
            metric.encode_family(&[("name", name)])?.encode_gauge(&seconds)?;
        }

        let help = "Reloads of the file of principals, by outcome";
        let mut metric =
            encoder.encode_descriptor("tollgate_principals_reloads", help, None, MetricType::Counter)?;
        for (outcome, count) in self.reloads.counts() {
            let labels = [("outcome", outcome)];
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }

        let help = "1 if the file of principals as last read is live, 0 if it was invalid";
        let in_step = i64::from(self.reloads.failure().is_none());
        encoder
            .encode_descriptor("tollgate_principals_in_step", help, None, MetricType::Gauge)?
            .encode_gauge(&in_step)
    }
}
