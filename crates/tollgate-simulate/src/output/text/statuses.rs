//! What the denied requests had been answered when the log was written.

use crate::output::number::shares;
use crate::output::screen::Screen;
use crate::output::table::Table;
use crate::report::Report;

pub(super) fn section(screen: &mut Screen, report: &Report) {
    let has_status = report.statuses.iter().any(|status| status.status.is_some());
    if report.denied == 0 || !has_status {
        return;
    }
    screen.section("Denied requests by their status in the log");
    let mut table = Table::new(["status", "requests", "denied", ""]).denials([2, 3]);
    for status in &report.statuses {
        let name = status.status.map_or("none".to_owned(), |status| status.to_string());
        let [requests, denied, share] = shares(status.denied, status.requests);
        table.row([name, requests, denied, share]);
    }
    screen.table(&table);
}
