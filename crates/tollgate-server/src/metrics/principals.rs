//! What the service counts of its principals. Labels are their names, so there are as many as the operator wrote.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::principals::SharedPrincipals;
use crate::reload::ReloadState;

/// The principals that are live, and what has come of reading their file again.
pub(crate) struct PrincipalFigures {
    pub(crate) live: SharedPrincipals,
    pub(crate) reloads: Arc<ReloadState>,
}

impl PrincipalFigures {
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "When a principal was recognised last, in Unix time; absent if not since the start";
        let name = "tollgate_principal_last_used";
        let mut metric = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Gauge)?;
        for (name, seconds) in self.live.load().last_used() {
            metric.encode_family(&[("name", name)])?.encode_gauge(&seconds)?;
        }

        let help = "Times that the file of principals was read again, by outcome";
        let mut metric =
            encoder.encode_descriptor("tollgate_principals_reloads", help, None, MetricType::Counter)?;
        for (outcome, count) in self.reloads.counts() {
            let labels = [("outcome", outcome)];
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }

        let help = "Whether the file of principals as it was read last is live; 0 while it is not valid";
        let in_step = i64::from(self.reloads.failure().is_none());
        encoder
            .encode_descriptor("tollgate_principals_in_step", help, None, MetricType::Gauge)?
            .encode_gauge(&in_step)
    }
}
