//! What each policy does, also to each class of clients, and what another version of the policies changes.

use crate::output::number::{counted, grouped};
use crate::output::section::{Block, Cell, Column, Table};
use crate::output::share::percent;
use crate::report::{PolicyReport, Report};

/// The columns of requests and of clients.
pub(super) const FIGURES: [Column; 4] = [
    Column::figure("requests"),
    Column::part("denied", "share denied").denials(),
    Column::figure("clients"),
    Column::part("denied", "share of clients").long("denied clients").denials(),
];

pub(super) fn blocks(report: &Report) -> Vec<Block> {
    let mut blocks = vec![Block::Table(policies(report))];
    let Report { requests, undecided, unlimited, .. } = *report;
    if unlimited > 0 && !report.is_overview() {
        let share = percent(unlimited, requests);
        blocks
            .push(Block::Sentence(format!("No policy limits {} ({share}).", counted(unlimited, "request"))));
    }
    if undecided > 0 {
        let share = percent(undecided, requests);
        let requests = counted(undecided, "request");
        blocks.push(Block::Sentence(format!(
            "{requests} ({share}) cannot be decided, and would be answered with errors:"
        )));
        let reasons = report.undecided_reasons.iter();
        blocks.extend(
            reasons.map(|reason| Block::Detail(format!("{}: {}", grouped(reason.requests), reason.reason))),
        );
    }
    blocks
}

fn policies(report: &Report) -> Table {
    let columns = [Column::name("policy"), Column::name("key")].into_iter().chain(FIGURES).collect();
    let mut table = Table::new("Policies", columns)
        .about("A request counts for each policy that matches it. Trials deny nothing yet.")
        .things("policies", 70_000);
    for policy in &report.policies {
        let PolicyReport { key, requests, denied, clients, denied_clients, .. } = policy;
        let mut cells = vec![
            Cell::Policy(policy.policy.clone(), policy.role),
            Cell::Name(key.clone()),
            Cell::Count(*requests),
            Cell::Part(*denied, *requests),
        ];
        // Some policies count no client, and some nothing at all.
        cells.extend(match clients {
            0 => [Cell::Empty, Cell::Empty],
            _ => [Cell::Count(*clients), Cell::Part(*denied_clients, *clients)],
        });
        table.denial_row(*denied, *requests, cells);
    }
    table
}

/// The differences from the policies to compare with.
pub(super) fn compared(report: &Report) -> Option<Table> {
    let compared = report.compared.as_ref()?;
    let columns = vec![
        Column::name("").long("difference"),
        Column::figure("requests"),
        Column::figure("share of all").of_page(),
        Column::figure("clients"),
    ];
    let mut table = Table::new("Compared with the policies of --baseline", columns);
    let mut row = |name: &str, requests: u64, clients: Option<u64>| {
        table.row(vec![
            Cell::Words(name.to_owned()),
            Cell::Count(requests),
            Cell::Share(requests, report.requests),
            clients.map_or(Cell::Empty, Cell::Count),
        ]);
    };
    row("newly denied", compared.newly_denied, Some(compared.newly_denied_clients));
    row("newly allowed", compared.newly_allowed, Some(compared.newly_allowed_clients));
    row("the same", compared.same, None);
    row("denied before", compared.denied_before, None);
    if compared.incomparable > 0 {
        row("only one can decide", compared.incomparable, None);
    }
    Some(table)
}
