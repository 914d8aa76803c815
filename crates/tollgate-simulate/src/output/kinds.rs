//! Other kinds of quotas as tables.

use super::section::{Cell, Column, Table};
use crate::report::{PolicyReport, QuotaReport, Report, TriedKind};

/// Where the figures are from.
pub(super) const BASIS: &str = "replayed, with all other quotas unchanged";

/// Returns a table of the other kinds of a quota, with the replayed one first.
pub(super) fn table(policy: &PolicyReport, quota: &QuotaReport) -> Table {
    let columns = vec![
        // Without its middle, it would be another quota.
        Column::words("quota"),
        Column::part("requests", "share of requests").long("denied").denials().without_bar(),
        Column::part("clients", "share of clients")
            .long("denied clients")
            .denials()
            .without_bar()
            .spare_share(1),
        Column::figure("in total").long("total denied").denials(),
        Column::words("").of_terminal().spare(0),
        Column::words("").long("mark"),
    ];
    let mut table = Table::new(&format!("Other kinds than {} {}", policy.title(), quota.title()), columns);
    let rows = rows(quota);
    let greatest = rows.iter().map(|(kind, _)| kind.denied).max().unwrap_or(0);
    // Otherwise the total is what this quota denies.
    let has_others = rows.iter().any(|(kind, _)| kind.total_denied.is_some_and(|total| total != kind.denied));
    for (kind, mark) in rows {
        let TriedKind { quota, denied, denied_clients, total_denied, .. } = kind;
        table.row(vec![
            Cell::Name(quota),
            Cell::Part(denied, policy.requests),
            Cell::Part(denied_clients, policy.clients),
            total_denied.filter(|_| has_others).map_or(Cell::Empty, Cell::Count),
            Cell::Bar(denied, greatest),
            Cell::Words(mark.to_owned()),
        ]);
    }
    table
}

/// Returns one table of the other kinds of all quotas, those that deny most first if not all are listed.
pub(super) fn table_of_all(report: &Report, max_bytes: usize) -> Table {
    let columns = vec![
        Column::name("policy"),
        Column::name("quota"),
        Column::part("requests", "share of requests").long("denied").denials(),
        Column::part("clients", "share of clients").long("denied clients").denials().without_bar(),
        Column::figure("in total").long("total denied").denials(),
        Column::figure("total denied clients"),
        Column::words("").long("mark"),
    ];
    let about = "What each quota would deny if it counted in another way. Each request was decided under it, with all other \
                 quotas unchanged.";
    let mut table = Table::new("Other kinds of quotas", columns).about(about).things("kinds", max_bytes);
    let quotas =
        report.policies.iter().flat_map(|policy| policy.quotas.iter().map(move |quota| (policy, quota)));
    for (policy, quota) in quotas.filter(|(_, quota)| has_kinds(quota)) {
        for (kind, mark) in rows(quota) {
            let cells = vec![
                Cell::Policy(policy.policy.clone(), policy.role),
                Cell::Name(kind.quota),
                Cell::Part(kind.denied, policy.requests),
                Cell::Part(kind.denied_clients, policy.clients),
                kind.total_denied.map_or(Cell::Empty, Cell::Count),
                kind.total_denied_clients.map_or(Cell::Empty, Cell::Count),
                Cell::Words(mark.to_owned()),
            ];
            // Rows of one quota stay together.
            table.denial_row(quota.denied, quota.requests, cells);
        }
    }
    table
}

/// Whether other kinds were tried on requests.
pub(super) const fn has_kinds(quota: &QuotaReport) -> bool {
    quota.requests > 0 && !quota.kinds.is_empty()
}

/// The kinds that were tried, after the quota as it was replayed, if what it denies is known in the same way.
fn rows(quota: &QuotaReport) -> Vec<(TriedKind, &'static str)> {
    let replayed = quota.curve.at(quota.curve.replayed).map(|point| TriedKind {
        quota: quota.quota.clone(),
        denied: point.denied,
        denied_clients: point.denied_clients,
        total_denied: point.total_denied,
        total_denied_clients: point.total_denied_clients,
    });
    let replayed = replayed.map(|kind| (kind, "replayed"));
    replayed.into_iter().chain(quota.kinds.iter().map(|kind| (kind.clone(), ""))).collect()
}
