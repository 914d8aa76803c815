//! The differences from the policies before.

use super::cell::Cell;
use super::clients::client_table;
use super::table::HtmlTable;
use crate::output::text::NEWLY_ALLOWED;
use crate::report::Report;

pub(crate) fn section(report: &Report) -> String {
    let Some(compared) = &report.compared else { return String::new() };
    let mut table = HtmlTable::new("Differences", &["difference", "requests", "share of all", "clients"], 1);
    let mut row = |name: &str, requests: u64, clients: Option<u64>| {
        let clients = clients.map(Cell::number).unwrap_or_default();
        let share = Cell::part(requests, report.requests);
        table.row(&[Cell::text(name), Cell::number(requests), share, clients]);
    };
    row("newly denied", compared.newly_denied, Some(compared.newly_denied_clients));
    row("newly allowed", compared.newly_allowed, Some(compared.newly_allowed_clients));
    row("the same", compared.same, None);
    row("denied before", compared.denied_before, None);
    if compared.incomparable > 0 {
        row("only one can decide", compared.incomparable, None);
    }
    let newly_denied = &compared.most_newly_denied;
    let newly_allowed = &compared.most_newly_allowed;
    table.html()
        + &client_table("Clients that are newly denied", newly_denied, |client| client.denied)
        + &client_table(NEWLY_ALLOWED, newly_allowed, |client| client.denied_before)
}
