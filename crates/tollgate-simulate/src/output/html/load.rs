//! What the log answered to denied requests, and the load before and after.

use super::cell::Cell;
use super::escape::HtmlText;
use super::moment::clock;
use super::table::HtmlTable;
use super::weight;
use crate::output::number::{grouped, moment};
use crate::output::opening::ended_in_log;
use crate::report::{PeakLength, Report, StatusReport};

/// The tables, side by side.
pub(crate) fn section(report: &Report) -> String {
    let tables = [statuses(report), peaks(report)].concat();
    if tables.is_empty() {
        return tables;
    }
    format!("<div class=\"pair\">\n{tables}</div>\n")
}

pub(crate) const fn title(report: &Report) -> &'static str {
    if report.is_overview() { "Load" } else { "Losses and load" }
}

fn statuses(report: &Report) -> String {
    if report.denied == 0 || report.statuses.iter().all(|status| status.status.is_none()) {
        return String::new();
    }
    let about = ended_in_log(report).unwrap_or_default();
    let titles = ["answer in the log", "requests", "denied", "share of all denied"];
    let mut table = HtmlTable::new("Denied, by what the log answered", &titles, 1).about(&about);
    for StatusReport { status, requests, denied } in &report.statuses {
        let name = status.map_or("no status".to_owned(), |status| format!("{status} {}", meaning(status)));
        let cells = [Cell::text(name), Cell::number(*requests), Cell::number(*denied)];
        let share = Cell::denied(*denied, report.denied);
        table.weighty_row(weight(*denied, *requests), &[&cells[..], &[share]].concat());
    }
    table.html()
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

fn peaks(report: &Report) -> String {
    if report.peaks.is_empty() || (report.denied == 0 && !report.is_overview()) {
        return String::new();
    }
    if report.is_overview() {
        let mut table = HtmlTable::new("Peak load", &["busiest", "requests", "begins"], 1);
        for peak in &report.peaks {
            let begins = Cell::whole(&moment(&peak.requests.start));
            table.row(&[Cell::text(peak.length.name()), Cell::number(peak.requests.requests), begins]);
        }
        return table.html();
    }
    let titles = ["busiest", "all requests", "admitted", "less by"];
    let mut table = HtmlTable::new("Load at its peak", &titles, 1).about(
        "Before and after the limits. The busiest moment of the admitted requests may be another one.",
    );
    for peak in &report.peaks {
        let (before, after) = (peak.requests.requests, peak.admitted.requests);
        let at = |number: u64, start: &str| Cell {
            html: format!(
                "{}<br><span class=\"soft\">{}</span>",
                grouped(number),
                HtmlText(match peak.length {
                    PeakLength::Minute => clock(start, 16),
                    PeakLength::Second => clock(start, 19),
                })
            ),
            is_zero: number == 0,
        };
        table.row(&[
            Cell::text(peak.length.name()),
            at(before, &peak.requests.start),
            at(after, &peak.admitted.start),
            Cell::part(before.saturating_sub(after), before),
        ]);
    }
    table.html()
}
