//! When requests came: by the hour of the week and by day.

use std::fmt::Write as _;

use super::chart;
use super::escape::Text;
use super::table::Table;
use crate::output::number::grouped;
use crate::percent;
use crate::report::{Report, TimeShare};

/// Bytes that the rows of days may take: enough for all that are in the chart.
const OF_DAYS: usize = 60_000;

/// The section, if there are requests.
pub(super) fn section(page: &mut String, report: &Report) {
    if report.days.is_empty() {
        return;
    }
    let (what, value): (&str, fn(&TimeShare) -> u64) = if report.denied > 0 {
        ("Denied requests by hour of the week", |share| share.denied)
    } else {
        ("Requests by hour of the week", |share| share.requests)
    };
    // Writing into a string does not fail.
    let _ =
        writeln!(page, "<h2>When</h2>\n<p class=\"soft\">Hours and days are in {}.</p>", Text(&report.zone));
    page.push_str(&chart::week("week", what, &report.week, value));
    let hours: Vec<String> = (0..24).map(|hour: u8| hour.to_string()).collect();
    let titles: Vec<&str> = ["day"].into_iter().chain(hours.iter().map(String::as_str)).collect();
    let mut table = Table::new(what, &titles, 1);
    for (name, day) in chart::WEEKDAYS.iter().zip(&report.week) {
        let cells: Vec<String> =
            [(*name).to_owned()].into_iter().chain(day.iter().map(|share| grouped(value(share)))).collect();
        table.row(&cells);
    }
    page.push_str(&table.folded());
    page.push_str(&chart::days("days", &report.days));
    page.push_str("<p class=\"soft\">The lower part of each bar shows denied requests.</p>\n");
    let mut table =
        Table::new("Requests by day", &["day", "requests", "denied", "share"], 1).of("days", OF_DAYS);
    let listed = report.days.get(report.days.len().saturating_sub(chart::MAX_DAYS)..).unwrap_or_default();
    for day in listed {
        let share = percent(day.denied, day.requests);
        table.row(&[day.day.clone(), grouped(day.requests), grouped(day.denied), share]);
    }
    page.push_str(&table.folded());
}
