//! Charts, as SVG that needs no script: each has a title and a description, and lines differ by more than their colour.

use std::fmt::Write as _;

use super::escape::Text;
use crate::output::curve::legend;
use crate::output::number::{counted, grouped};
use crate::report::{DayReport, TimeShare};
use crate::{Curve, Point};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 40.0;

pub(super) const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Days of a chart, the last ones.
pub(super) const MAX_DAYS: usize = 366;

/// Begins a picture of this height.
fn open(id: &str, height: f64, title: &str, description: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\n\
         <title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>\n",
        Text(title),
        Text(description)
    )
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    // Writing into a string does not fail.
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>", Text(text));
}

fn line(svg: &mut String, class: &str, points: &[(f64, f64)]) {
    let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(svg, "<polyline class=\"{class}\" points=\"{}\"/>", path.join(" "));
}

/// Powers of ten up to this value, and the next one after it.
fn powers(max: u64) -> Vec<u64> {
    let mut powers = vec![1_u64];
    while let Some(last) = powers.last().copied().filter(|last| *last < max) {
        powers.push(last.saturating_mul(10));
    }
    powers
}

/// Draws the denials of other limits: limits from left to right, requests and clients upwards, both on logarithmic
/// axes.
pub(super) fn curve(id: &str, title: &str, curve: &Curve) -> String {
    let points: Vec<&Point> = curve.points.iter().filter(|point| point.limit > 0).collect();
    let max_limit = points.iter().map(|point| point.limit).max().unwrap_or(1).max(2);
    let max = points.iter().map(|point| point.denied.max(point.denied_clients)).max().unwrap_or(0).max(1);
    let top = powers(max).last().copied().unwrap_or(1);
    let x = |limit: u64| LEFT + (WIDTH - LEFT - RIGHT) * (limit.max(1) as f64).ln() / (max_limit as f64).ln();
    // One more than the number, so that 0 has a place.
    let y = |number: u64| {
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * ((number + 1) as f64).ln() / ((top + 1) as f64).ln()
    };
    let description = format!(
        "Denied requests and clients, by limit. At the policy's limit, {}: {}.",
        grouped(curve.today),
        curve.at(curve.today).map_or("not known".to_owned(), |point| {
            format!("{} of {}", counted(point.denied, "request"), counted(point.denied_clients, "client"))
        })
    );
    let mut svg = open(id, HEIGHT, title, &description);
    for number in [0].into_iter().chain(powers(max)) {
        line(&mut svg, "axis", &[(LEFT, y(number)), (WIDTH - RIGHT, y(number))]);
        text(&mut svg, LEFT - 6.0, y(number) + 4.0, "end", &grouped(number));
    }
    for limit in powers(max_limit).into_iter().filter(|limit| *limit <= max_limit) {
        line(&mut svg, "axis", &[(x(limit), HEIGHT - BOTTOM), (x(limit), HEIGHT - BOTTOM + 5.0)]);
        text(&mut svg, x(limit), HEIGHT - BOTTOM + 18.0, "middle", &grouped(limit));
    }
    text(&mut svg, WIDTH - RIGHT, HEIGHT - 4.0, "end", "limit");
    let marks = [(Some(curve.today), "today"), (curve.suggested, "suggested"), (curve.knee, "knee")];
    for (place, (limit, name)) in marks.into_iter().enumerate() {
        let Some(limit) = limit.filter(|limit| (1..=max_limit).contains(limit)) else { continue };
        line(&mut svg, "mark", &[(x(limit), TOP - 4.0), (x(limit), HEIGHT - BOTTOM)]);
        let right = x(limit) > WIDTH - 120.0;
        let (anchor, gap) = if right { ("end", -4.0) } else { ("start", 4.0) };
        text(
            &mut svg,
            x(limit) + gap,
            12.0 + 12.0 * place as f64,
            anchor,
            &format!("{name}: {}", grouped(limit)),
        );
    }
    let series = |value: fn(&Point) -> u64| -> Vec<(f64, f64)> {
        points.iter().map(|point| (x(point.limit), y(value(point)))).collect()
    };
    // The script moves it to where the slider is.
    line(&mut svg, "here", &[(0.0, TOP - 4.0), (0.0, HEIGHT - BOTTOM)]);
    line(&mut svg, "one", &series(|point| point.denied));
    line(&mut svg, "two", &series(|point| point.denied_clients));
    let _ = write!(
        svg,
        "</svg>\n<p class=\"soft\">Solid line: denied requests. Dashed line: clients with a denied request.{}</p>\n",
        explained(curve)
    );
    svg
}

/// Explains the marks on the chart in sentences.
fn explained(curve: &Curve) -> String {
    legend(curve).iter().map(|legend| format!(" Marks: {legend}.")).collect()
}

/// A square for each hour of the week; the darker, the more.
pub(super) fn week(id: &str, what: &str, week: &[Vec<TimeShare>], value: fn(&TimeShare) -> u64) -> String {
    const CELL: f64 = 26.0;
    const EDGE: f64 = 48.0;
    let most = week.iter().flatten().map(value).max().unwrap_or(0).max(1);
    let description = format!("{what} in each hour of the week; {} in the busiest.", grouped(most));
    let mut svg = open(id, EDGE + CELL * 7.0, what, &description);
    for hour in (0..24_u32).step_by(3) {
        text(&mut svg, EDGE + CELL * (f64::from(hour) + 0.5), EDGE - 10.0, "middle", &hour.to_string());
    }
    for (row, (name, day)) in WEEKDAYS.iter().zip(week).enumerate() {
        let y = EDGE + CELL * row as f64;
        text(&mut svg, EDGE - 8.0, y + CELL * 0.65, "end", name);
        for (column, share) in day.iter().enumerate() {
            // A little is seen as well.
            let strength = match value(share) {
                0 => 0.0,
                number => 0.15 + 0.85 * number as f64 / most as f64,
            };
            let x = EDGE + CELL * column as f64;
            let _ = writeln!(
                svg,
                "<rect class=\"cell\" x=\"{x}\" y=\"{y}\" width=\"{CELL}\" height=\"{CELL}\" \
                 fill-opacity=\"{strength:.2}\"/>"
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// A bar for each day, its lower part the denied requests.
pub(super) fn days(id: &str, days: &[DayReport]) -> String {
    const TALL: f64 = 160.0;
    let days = days.get(days.len().saturating_sub(MAX_DAYS)..).unwrap_or(days);
    let most = days.iter().map(|day| day.requests).max().unwrap_or(0).max(1);
    let description = format!("Requests of each day, and denied ones; {} on the busiest.", grouped(most));
    let mut svg = open(id, TALL, "Requests by day", &description);
    let (bottom, top) = (TALL - 28.0, 12.0);
    let step = (WIDTH - LEFT - RIGHT) / days.len().max(1) as f64;
    let height = |number: u64| (bottom - top) * number as f64 / most as f64;
    for (number, day) in days.iter().enumerate() {
        let x = LEFT + step * number as f64;
        let mut bar = |class: &str, tall: f64| {
            let y = bottom - tall;
            let wide = (step * 0.85).max(0.5);
            let _ = writeln!(
                svg,
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{tall:.1}\"/>"
            );
        };
        bar("fill", height(day.requests));
        if day.denied > 0 {
            bar("bad", height(day.denied).max(1.0));
        }
    }
    line(&mut svg, "axis", &[(LEFT, bottom), (WIDTH - RIGHT, bottom)]);
    text(&mut svg, LEFT - 6.0, top + 4.0, "end", &grouped(most));
    text(&mut svg, LEFT - 6.0, bottom, "end", "0");
    if let (Some(first), Some(last)) = (days.first(), days.last()) {
        text(&mut svg, LEFT, TALL - 8.0, "start", &first.day);
        if days.len() > 1 {
            text(&mut svg, WIDTH - RIGHT, TALL - 8.0, "end", &last.day);
        }
    }
    svg.push_str("</svg>\n");
    svg
}
