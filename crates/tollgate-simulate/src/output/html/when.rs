//! When requests came: along the whole period, by the hour of the week, and by day.

use jiff::civil::Date;

use super::cell::HtmlCell;
use super::chart::bars::{BarChart, shades};
use super::chart::{Figure, heat};
use super::escape::HtmlText;
use super::table::HtmlTable;
use super::timeline::{self, DAY_OF_MONTH};
use crate::output::number::grouped;
use crate::report::{DayReport, Report, TimeShare};

const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Bytes that the rows of days may take: enough for all that are in the chart.
const OF_DAYS: usize = 50_000;

/// Days of a chart, the last ones.
const MAX_DAYS: usize = 366;

/// Days from which on the hours of the week are compared.
const FEW_DAYS: usize = 3;

/// Seconds of a bar of the time line that says nearly the same as one of a day.
const HALF_A_DAY: u64 = 43_200;

/// The charts, if there are requests.
pub(crate) fn section(report: &Report) -> String {
    let charts = [week(report), days(report)].concat();
    let charts = match charts.is_empty() {
        true => charts,
        false => format!("<div class=\"charts\">\n{charts}</div>\n"),
    };
    timeline::figure(report) + &charts
}

fn week(report: &Report) -> String {
    if report.days.len() < FEW_DAYS {
        return String::new();
    }
    let (title, shades, value): (&str, &str, fn(&TimeShare) -> u64) = match report.denied {
        0 => ("Requests by hour of the week", "calm", |share| share.requests),
        _ => ("Denied requests by hour of the week", "denials", |share| share.denied),
    };
    let known = weekdays(&report.days);
    let rows = WEEKDAYS.iter().copied().zip(&report.week).zip(known).filter(|(_, is_known)| *is_known);
    let values: Vec<(&str, Vec<u64>)> =
        rows.map(|((name, day), _)| (name, day.iter().map(value).collect())).collect();
    // One square says less than the time line.
    if values.iter().flat_map(|(_, day)| day).filter(|value| **value > 0).count() < 2 {
        return String::new();
    }
    let hours: Vec<String> = (0..24).map(|hour: u8| hour.to_string()).collect();
    let titles: Vec<&str> = ["day"].into_iter().chain(hours.iter().map(String::as_str)).collect();
    let mut table = HtmlTable::new(title, &titles, 1);
    for (name, day) in &values {
        let cells: Vec<HtmlCell> = [HtmlCell::text(name)]
            .into_iter()
            .chain(day.iter().map(|value| HtmlCell::number(*value)))
            .collect();
        table.row(&cells);
    }
    let about = format!("The stronger the colour, the more. Hours are in {}.", HtmlText(&report.zone));
    Figure { title, about, chart: heat::week("week", title, &values, shades), table }.html()
}

/// Which days of the week the log has: those that it lacks are not days without requests.
fn weekdays(days: &[DayReport]) -> [bool; 7] {
    let mut known = [false; 7];
    let date = |day: Option<&DayReport>| day.and_then(|day| day.day.parse::<Date>().ok());
    let Some((first, last)) = date(days.first()).zip(date(days.last())) else { return [true; 7] };
    for date in first.series(jiff::Span::new().days(1)).take(7).take_while(|date| *date <= last) {
        let place = usize::try_from(date.weekday().to_monday_zero_offset()).unwrap_or(0);
        if let Some(known) = known.get_mut(place) {
            *known = true;
        }
    }
    known
}

fn days(report: &Report) -> String {
    let days = report.days.get(report.days.len().saturating_sub(MAX_DAYS)..).unwrap_or_default();
    let has_daily_bars = report.timeline.as_ref().is_some_and(|timeline| timeline.step_seconds >= HALF_A_DAY);
    if days.len() < 2 || has_daily_bars {
        return String::new();
    }
    let title = "Requests by day";
    let most = days.iter().map(|day| day.requests).max().unwrap_or(0);
    let shares: Vec<TimeShare> =
        days.iter().map(|day| TimeShare { requests: day.requests, denied: day.denied }).collect();
    let bars = BarChart {
        id: "days",
        title,
        description: &format!("Requests of each day, and denied ones; {} on the busiest.", grouped(most)),
        unit: "requests in a day",
        along: &format!("day from {}, {}", days.first().map_or("", |day| &day.day), report.zone),
        says: if report.is_overview() { "{0}: {1} requests" } else { "{0}: {1} requests, {2} denied ({3})" },
        bars: &shares,
        ticks: &ticks(days),
    };
    let mut table = HtmlTable::new(title, &["day", "requests", "denied", "share"], 1).things("days", OF_DAYS);
    for DayReport { day, requests, denied } in days {
        let share = HtmlCell::text(crate::output::share::percent(*denied, *requests));
        table.row(&[HtmlCell::text(day), HtmlCell::number(*requests), HtmlCell::number(*denied), share]);
    }
    Figure { title, about: shades(report), chart: bars.html(), table }.html()
}

/// Dates below some days.
fn ticks(days: &[DayReport]) -> Vec<(f64, String)> {
    let step = days.len().div_ceil(6).max(1);
    let text = |day: &str| {
        day.parse::<Date>().map_or_else(|_| day.to_owned(), |day| day.strftime(DAY_OF_MONTH).to_string())
    };
    days.iter().enumerate().step_by(step).map(|(place, day)| (place as f64 + 0.5, text(&day.day))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(day: &str) -> DayReport {
        DayReport { day: day.to_owned(), requests: 1, denied: 0 }
    }

    /// The days that a log of three days lacks were shown as days without requests.
    #[test]
    fn days_that_the_log_lacks_are_not_in_the_week() {
        let few = weekdays(&[day("2026-03-09"), day("2026-03-11")]);
        assert_eq!(few, [true, true, true, false, false, false, false]);
        assert_eq!(weekdays(&[day("2026-03-09"), day("2026-04-11")]), [true; 7]);
        assert_eq!(weekdays(&[]), [true; 7]);
    }
}
