//! The time line: requests of the whole period, with the denied ones on top.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::cell::HtmlCell;
use super::chart::Figure;
use super::chart::bars::{BarChart, shades};
use super::table::HtmlTable;
use crate::output::number::{counted, grouped};
use crate::report::{Report, Timeline};

/// Bytes that the rows of the table may take: enough for all bars.
const MAX_BYTES: usize = 40_000;

/// Bars that are a time line.
const FEW_BARS: usize = 3;

/// Ticks, at most.
const MOST_TICKS: usize = 7;

const DAY: i64 = 86_400;
const YEAR: i64 = 256 * DAY;

/// `16 Nov`
pub(crate) const DAY_OF_MONTH: &str = "%-d %b";

/// Seconds between ticks: each at most 2.5 times the one before, so that there are never too few.
const STEPS: [i64; 32] = [
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1_800,
    3_600,
    7_200,
    10_800,
    21_600,
    43_200,
    DAY,
    2 * DAY,
    4 * DAY,
    8 * DAY,
    16 * DAY,
    32 * DAY,
    64 * DAY,
    128 * DAY,
    256 * DAY,
    512 * DAY,
    1_024 * DAY,
    2_048 * DAY,
    4_096 * DAY,
    8_192 * DAY,
    16_384 * DAY,
];

/// The chart, if there is more than a moment.
pub(crate) fn figure(report: &Report) -> String {
    let Some(timeline) = report.timeline.as_ref().filter(|timeline| timeline.bars.len() >= FEW_BARS) else {
        return String::new();
    };
    let Some(times) = times(timeline, &report.zone) else { return String::new() };
    let title = "Requests over time";
    let step = bar_length(timeline.step_seconds);
    let description = timeline.bars.iter().zip(&times).max_by_key(|(bar, _)| bar.requests);
    let description = description.map_or_else(String::new, |(bar, time)| {
        let requests = counted(bar.requests, "request");
        format!(
            "{requests} in the busiest bar, from {}; {} of them denied.",
            written(*time),
            grouped(bar.denied)
        )
    });
    let day = times.first().map(|time| time.date().to_string()).unwrap_or_default();
    let bars = BarChart {
        id: "timeline",
        title,
        description: &description,
        unit: &format!("requests in {step}"),
        along: &format!("time from {day}, {}", report.zone),
        says: if report.is_overview() {
            "From {0}: {1} requests"
        } else {
            "From {0}: {1} requests, {2} denied ({3})"
        },
        bars: &timeline.bars,
        ticks: &ticks(&times, i64::try_from(timeline.step_seconds).unwrap_or(i64::MAX)),
    };
    let mut table =
        HtmlTable::new(title, &["from", "requests", "denied", "share"], 1).things("bars", MAX_BYTES);
    for (bar, time) in timeline.bars.iter().zip(&times) {
        let share = HtmlCell::text(crate::output::share::percent(bar.denied, bar.requests));
        table.row(&[
            HtmlCell::text(written(*time)),
            HtmlCell::number(bar.requests),
            HtmlCell::number(bar.denied),
            share,
        ]);
    }
    Figure { title, about: shades(report), chart: bars.html(), table }.html()
}

/// The starts of all bars by the clock of the zone.
fn times(timeline: &Timeline, zone: &str) -> Option<Vec<DateTime>> {
    let start: Timestamp = timeline.start.parse().ok()?;
    let zone = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
    let step = i64::try_from(timeline.step_seconds).ok()?;
    let time = |place: usize| {
        let later = SignedDuration::from_secs(step.checked_mul(i64::try_from(place).ok()?)?);
        Some(zone.to_datetime(start.checked_add(later).ok()?))
    };
    (0..timeline.bars.len()).map(time).collect()
}

fn written(time: DateTime) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S").to_string().trim_end_matches(":00").to_owned()
}

/// Round times below some bars, each with its place in bars.
fn ticks(times: &[DateTime], bar: i64) -> Vec<(f64, String)> {
    let at = |step: i64| -> Vec<(f64, i64)> {
        let starts = times.iter().map(|time| seconds(*time)).enumerate();
        let rounds = starts.map(|(place, start)| (place, start, (start + step - 1).div_euclid(step) * step));
        let inside = rounds.filter(|(_, start, round)| round - start < bar);
        inside
            .map(|(place, start, round)| (place as f64 + (round - start) as f64 / bar as f64, round))
            .collect()
    };
    let few = STEPS.into_iter().map(|step| (step, at(step))).find(|(_, ticks)| ticks.len() <= MOST_TICKS);
    let (step, ticks) = few.unwrap_or_default();
    let text = |second: i64| {
        let format = match step {
            ..60 => "%H:%M:%S",
            60..DAY if second % DAY != 0 => "%H:%M",
            YEAR.. => "%Y-%m",
            _ => DAY_OF_MONTH,
        };
        let time = Timestamp::from_second(second).unwrap_or_default();
        TimeZone::UTC.to_datetime(time).strftime(format).to_string()
    };
    ticks.into_iter().map(|(place, second)| (place, text(second))).collect()
}

/// Seconds since 1970 by the clock.
fn seconds(time: DateTime) -> i64 {
    time.duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0)).as_secs()
}

/// Writes the length of a bar.
fn bar_length(seconds: u64) -> String {
    let units = [(86_400, "day"), (3_600, "hour"), (60, "minute")];
    let unit = units.into_iter().find(|(unit, _)| seconds.is_multiple_of(*unit) && seconds > 0);
    let (unit, name) = unit.unwrap_or((1, "second"));
    match seconds / unit {
        1 if name == "hour" => "an hour".to_owned(),
        1 => format!("a {name}"),
        number => format!("{number} {name}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the length of a bar is, there are three ticks or more, and few enough to be read.
    #[test]
    fn every_time_line_has_several_ticks() {
        let start = DateTime::constant(2026, 11, 16, 9, 45, 0, 0);
        for step in STEPS.into_iter().take(22) {
            for bars in [12, 40, 100, 168, 240] {
                let start = seconds(start).div_euclid(step) * step;
                let times: Vec<DateTime> = (0..bars)
                    .map(|bar| {
                        let second = start + bar * step;
                        TimeZone::UTC.to_datetime(Timestamp::from_second(second).unwrap())
                    })
                    .collect();
                let ticks = ticks(&times, step).len();
                assert!((3..=MOST_TICKS).contains(&ticks), "{bars} bars of {step} s: {ticks}");
            }
        }
    }

    #[test]
    fn lengths_are_in_whole_units() {
        assert_eq!(
            [1, 30, 60, 7_200, 86_400].map(bar_length),
            ["a second", "30 seconds", "a minute", "2 hours", "a day"]
        );
    }
}
