//! Requests by the status in the log.

use super::load::calendar::RequestCounts;
use crate::report::{DeniedStatus, StatusReport};

/// Requests of each status that the log has for them.
#[derive(Debug, Default)]
pub(super) struct Statuses {
    without: RequestCounts,
    /// By status, up to the greatest one.
    of_status: Vec<RequestCounts>,
}

/// Denied requests of each status. Policies may be many, statuses are few.
#[derive(Debug, Default)]
pub(super) struct DeniedStatuses(Vec<DeniedStatus>);

impl Statuses {
    pub(super) fn note(&mut self, status: Option<u16>, is_denied: bool) {
        let share = match status.map(usize::from) {
            None => &mut self.without,
            Some(status) => {
                if status >= self.of_status.len() {
                    self.of_status.resize(status + 1, RequestCounts::default());
                }
                let Some(share) = self.of_status.get_mut(status) else { return };
                share
            }
        };
        share.requests += 1;
        share.denied += u64::from(is_denied);
    }

    /// Those with requests, by ascending status, and the requests without one last.
    pub(super) fn reports(&self) -> Vec<StatusReport> {
        let known = (0..).zip(&self.of_status).map(|(status, share)| (Some(status), share));
        let all = known.chain([(None, &self.without)]).filter(|(_, share)| share.requests > 0);
        all.map(|(status, share)| StatusReport { status, requests: share.requests, denied: share.denied })
            .collect()
    }
}

impl DeniedStatuses {
    /// Notes a denied request.
    pub(super) fn note(&mut self, status: Option<u16>) {
        match self.0.iter_mut().find(|noted| noted.status == status) {
            Some(noted) => noted.denied += 1,
            None => self.0.push(DeniedStatus { status, denied: 1 }),
        }
    }

    /// By ascending status, the requests without one last.
    pub(super) fn reports(&self) -> Vec<DeniedStatus> {
        let mut reports = self.0.clone();
        reports.sort_unstable_by_key(|noted| (noted.status.is_none(), noted.status));
        reports
    }
}
