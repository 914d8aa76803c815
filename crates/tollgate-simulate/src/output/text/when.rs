//! When requests come, and when they are denied.

use crate::output::number::{DAY, counted, grouped, lasting, moment};
use crate::output::screen::Screen;
use crate::output::style::Paint;
use crate::output::width::COLUMNS;
use crate::report::{Report, TimeShare, Timeline};

/// Bars of one to eight eighths.
const EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Lines of the charts of requests and of denied ones.
const HEIGHTS: [usize; 2] = [4, 2];

/// Columns before a chart.
const MARGIN: usize = 2;

/// Times that this is shorter than have no pattern of a week.
const WEEKLY: f64 = 2.0 * DAY;

pub(super) fn section(screen: &mut Screen, report: &Report) {
    if let Some(timeline) = &report.timeline {
        chart(screen, report, timeline);
    }
    if report.seconds >= WEEKLY {
        week(screen, report);
    }
}

/// The requests over the period, and below them the denied ones.
fn chart(screen: &mut Screen, report: &Report, timeline: &Timeline) {
    let joined = timeline.bars.len().div_ceil(COLUMNS - MARGIN).max(1);
    let sum = |bars: &[TimeShare], of: fn(&TimeShare) -> u64| bars.iter().map(of).sum();
    let values = |of| -> Vec<u64> { timeline.bars.chunks(joined).map(|bars| sum(bars, of)).collect() };
    let (requests, denied) = (values(|share| share.requests), values(|share| share.denied));
    if requests.len() < 2 {
        return;
    }
    let step = lasting(timeline.step_seconds as f64 * joined as f64);
    screen.section(format_args!("Over time, in steps of {step} from {}", moment(&timeline.start)));
    let [height, denied_height] = HEIGHTS;
    bars(screen, None, ("request", &requests), height);
    if report.denied > 0 {
        bars(screen, Some(Paint::Red), ("denied request", &denied), denied_height);
    }
}

/// Writes a chart of bars that stand side by side.
fn bars(screen: &mut Screen, paint: Option<Paint>, (name, values): (&str, &[u64]), height: usize) {
    let most = values.iter().copied().max().unwrap_or(0);
    screen.line(MARGIN, format_args!("at most {}:", counted(most, name)));
    for row in (0..height).rev() {
        let line: String = values.iter().map(|value| part_of_bar(*value, most, height, row)).collect();
        screen.chart(paint, "  ", &line);
    }
}

/// The part of a bar in a row, counted from the bottom.
fn part_of_bar(value: u64, most: u64, height: usize, row: usize) -> char {
    let eighths = (u128::from(value) * height as u128 * 8).div_ceil(u128::from(most.max(1)));
    match usize::try_from(eighths).unwrap_or(0).saturating_sub(row * 8) {
        0 if row == 0 => '·',
        0 => ' ',
        eighths => EIGHTHS.get(eighths - 1).copied().unwrap_or('█'),
    }
}

fn week(screen: &mut Screen, report: &Report) {
    let shares = || report.week.iter().flatten();
    let is_denied = report.denied > 0;
    let value = |share: &TimeShare| if is_denied { share.denied } else { share.requests };
    let Some(most) = shares().map(value).max().filter(|most| *most > 0) else { return };
    let what = if is_denied { "Denied requests" } else { "Requests" };
    screen.section(format_args!(
        "{what} by hour of the week, in {}; {} in the busiest",
        report.zone,
        grouped(most)
    ));
    screen.chart(None, "       ", "0     6     12    18");
    let paint = is_denied.then_some(Paint::Red);
    for (name, day) in WEEKDAYS.iter().zip(&report.week) {
        let hours: String = day.iter().map(|share| part_of_bar(value(share), most, 1, 0)).collect();
        screen.chart(paint, &format!("  {name}  "), &hours);
    }
}
