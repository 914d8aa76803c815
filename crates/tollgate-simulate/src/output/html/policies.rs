//! What each policy does.

use super::cell::Cell;
use super::quotas::tightness;
use super::table::HtmlTable;
use super::weight;
use crate::report::{PolicyReport, Report};

/// Bytes that the rows may take.
const MAX_BYTES: usize = 70_000;

pub(crate) fn section(report: &Report) -> String {
    if report.policies.is_empty() {
        return String::new();
    }
    let titles = [
        "policy",
        "key",
        "requests",
        "denied",
        "share denied",
        "clients",
        "denied clients",
        "share of clients",
    ];
    let mut table = HtmlTable::new("What each policy does", &titles, 2)
        .about("A request counts for each policy that matches it. Trials deny nothing yet.")
        .of("policies", MAX_BYTES);
    for policy in &report.policies {
        let PolicyReport { key, requests, denied, clients, denied_clients, .. } = policy;
        let mut cells = vec![
            Cell::policy(policy),
            Cell::name(key),
            Cell::number(*requests),
            Cell::number(*denied),
            Cell::denied(*denied, *requests),
        ];
        // Some policies count no client, and some nothing at all.
        if *clients > 0 {
            let share = Cell::denied(*denied_clients, *clients);
            cells.extend([Cell::number(*clients), Cell::number(*denied_clients), share]);
        } else {
            cells.resize_with(titles.len(), Cell::default);
        }
        table.weighty_row(weight(*denied, *requests), &cells);
    }
    table.html() + &tightness(report)
}
