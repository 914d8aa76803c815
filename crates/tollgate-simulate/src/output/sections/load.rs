//! What the log answered to denied requests, and the load with the limits and without them.

use crate::output::opening::ended_in_log;
use crate::output::section::{Cell, Column, Table};
use crate::report::{Report, StatusReport};

/// What the denied requests had been answered when the log was written.
pub(super) fn statuses(report: &Report) -> Option<Table> {
    if report.denied == 0 || report.statuses.iter().all(|status| status.status.is_none()) {
        return None;
    }
    let columns = vec![
        Column::name("status"),
        Column::words("meaning").of_page(),
        Column::figure("requests"),
        Column::part("denied", "share denied").denials(),
        Column::figure("share of all denied").of_page(),
    ];
    let mut table = Table::new("Denied requests by their status in the log", columns)
        .about(&ended_in_log(report).unwrap_or_default());
    for StatusReport { status, requests, denied } in &report.statuses {
        let cells = vec![
            Cell::Words(status.map_or("none".to_owned(), |status| status.to_string())),
            status.map_or(Cell::Empty, |status| Cell::Words(meaning(status).to_owned())),
            Cell::Count(*requests),
            Cell::Part(*denied, *requests),
            Cell::Share(*denied, report.denied),
        ];
        table.denial_row(*denied, *requests, cells);
    }
    Some(table)
}

/// A status in words, where a number says little.
const fn meaning(status: u16) -> &'static str {
    match status {
        401 => "unauthorized",
        403 => "forbidden",
        404 => "not found",
        429 => "too many requests",
        503 => "not available",
        100..=199 => "upgrade",
        200..=299 => "success",
        300..=399 => "redirect",
        400..=499 => "client error",
        _ => "server error",
    }
}

/// The busiest second and minute, of all requests and of the admitted ones.
pub(super) fn peaks(report: &Report) -> Option<Table> {
    if report.peaks.is_empty() {
        return None;
    }
    let is_limited = !report.is_overview();
    let mut columns = vec![Column::name("in one"), Column::figure("requests")];
    if is_limited {
        columns.extend([Column::figure("admitted"), Column::figure("less by").of_page()]);
    }
    columns.push(Column::words("begins"));
    if is_limited {
        columns.push(Column::words("that of the admitted begins").of_page());
    }
    let mut table = Table::new("Peak load", columns);
    for peak in &report.peaks {
        let (all, admitted) = (&peak.requests, &peak.admitted);
        let mut cells = vec![Cell::Words(peak.length.name().to_owned()), Cell::Count(all.requests)];
        if is_limited {
            let less = all.requests.saturating_sub(admitted.requests);
            cells.extend([Cell::Count(admitted.requests), Cell::Share(less, all.requests)]);
        }
        cells.push(Cell::Time(all.start.clone()));
        if is_limited {
            cells.push(Cell::Time(admitted.start.clone()));
        }
        table.row(cells);
    }
    Some(table)
}
