//! How tight each limit is.

use tollgate::QuotaKind;

use super::cell::HtmlCell;
use super::moment::length;
use super::table::HtmlTable;
use super::{quotas, weight};
use crate::output::number::grouped;
use crate::report::Report;

/// Bytes that the rows may take.
const MAX_BYTES: usize = 80_000;

/// What the columns are.
const ABOUT_WINDOWS: &str = "Half of all clients ask for at most p50 in their busiest window, 99 of 100 for at most p99, and none for more than max. Burst: \
     the most admitted in any interval as long as a window, in times the limit.";

/// The same where a bucket or a log has no windows.
const ABOUT_OTHERS: &str = "Half of all clients ask for at most p50 in their busiest window, 99 of 100 for at most p99, and none for more than max. Burst: \
     the most admitted in any interval as long as a window, in times the limit. Buckets and logs have no windows; for them, the \
     figures are those of intervals of the same length by the clock.";

/// The table, if a quota was asked for anything.
pub(crate) fn tightness(report: &Report) -> String {
    if quotas(report).all(|(_, quota)| quota.requests == 0) {
        return String::new();
    }
    let has_above_limit = quotas(report).any(|(_, quota)| quota.above_limit > 0);
    let has_bursts = quotas(report).any(|(_, quota)| quota.burst.is_some());
    let mut titles = vec!["policy", "quota", "denied"];
    let has_buckets = quotas(report).any(|(_, quota)| quota.kind == QuotaKind::Burst);
    let above = if has_buckets { "above the limit or burst" } else { "above the limit" };
    titles.extend(has_above_limit.then_some(above));
    titles.extend(["windows with denials", "longest wait", "p50", "p90", "p99", "p99.9", "max"]);
    titles.extend(has_bursts.then_some("burst"));
    let mut table = HtmlTable::new("How tight each limit is", &titles, 2)
        .about(if quotas(report).all(|(_, quota)| quota.has_windows()) {
            ABOUT_WINDOWS
        } else {
            ABOUT_OTHERS
        })
        .things("quotas", MAX_BYTES);
    for (policy, quota) in quotas(report) {
        let spread =
            quota.most.map(|most| [most.p50, most.p90, most.p99, most.p999, most.max].map(HtmlCell::number));
        let mut cells = vec![
            HtmlCell::policy(&policy.policy, policy.role),
            HtmlCell::name(&quota.title()),
            HtmlCell::number(quota.denied),
        ];
        cells.extend(has_above_limit.then(|| HtmlCell::number(quota.above_limit)));
        // Those above the limit wait in vain.
        let wait = (quota.denied > quota.above_limit).then(|| HtmlCell::text(length(quota.longest_wait)));
        cells.extend([
            HtmlCell {
                html: format!("{} of {}", grouped(quota.denied_windows), grouped(quota.windows)),
                is_zero: quota.denied_windows == 0,
            },
            wait.unwrap_or_default(),
        ]);
        cells.extend(spread.unwrap_or_default());
        let burst =
            quota.burst.filter(|_| quota.requests > 0).map(|burst| HtmlCell::text(format!("{burst:.2} ×")));
        cells.extend(has_bursts.then(|| burst.unwrap_or_default()));
        table.weighty_row(weight(quota.denied, quota.requests), &cells);
    }
    table.html()
}
