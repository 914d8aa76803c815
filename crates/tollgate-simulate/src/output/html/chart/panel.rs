//! Lines over limits: one picture for each thing that is counted, above one axis of limits.

use std::fmt::Write as _;

use super::scale::Scale;
use super::{across, below, open, room, short};
use crate::output::html::escape::HtmlText;
use crate::output::number::grouped;

const HEIGHT: u32 = 132;

/// The height of a text with the room around it.
const HIGH: f64 = 20.0;

/// One picture.
pub(crate) struct Panel {
    /// What is counted.
    pub(crate) unit: &'static str,
    pub(crate) values: Vec<u64>,
    /// What all policies together do with the same limit, if it is known.
    pub(crate) totals: Option<Vec<u64>>,
}

/// A limit that is marked in every picture.
pub(crate) struct LimitMark {
    pub(crate) limit: u64,
    pub(crate) name: &'static str,
    /// The class of its line.
    pub(crate) class: &'static str,
}

/// Pictures above one another.
pub(crate) struct Panels<'a> {
    pub(crate) id: &'a str,
    pub(crate) title: &'a str,
    /// The limits of all values, in order.
    pub(crate) limits: &'a [u64],
    pub(crate) panels: &'a [Panel],
    pub(crate) marks: &'a [LimitMark],
    /// The unit of limits.
    pub(crate) unit: &'a str,
    /// Whether only these limits were tried, so that points between them are not known.
    pub(crate) has_dots: bool,
    /// How a point is read out, with `{0}` for the first cell of its row in the table, and so on.
    pub(crate) says: &'a str,
    /// How many rows of the table come before the first limit.
    pub(crate) skipped: usize,
}

impl Panels<'_> {
    pub(crate) fn html(&self) -> String {
        let (Some(first), Some(last)) = (self.limits.first(), self.limits.last()) else {
            return String::new();
        };
        let across = Scale::limits(*first, *last);
        let upwards: Vec<Scale> = self.panels.iter().map(Panel::scale).collect();
        let longest = upwards.iter().flat_map(Scale::ticks).map(|tick| short(*tick).len()).max().unwrap_or(0);
        let places: Vec<String> =
            self.limits.iter().map(|limit| format!("{:.2}", across.place(*limit) * 100.0)).collect();
        let replayed = self.marks.iter().find(|mark| mark.name == "replayed").map(|mark| mark.limit);
        let start = self.limits.iter().position(|limit| Some(*limit) == replayed);
        let mut html = format!(
            "<div class=\"{}{}\" data-at=\"{}\" data-from=\"{}\" data-says=\"{}\"",
            room(longest),
            ["", " one", " two"].get(self.marks.len()).copied().unwrap_or_default(),
            places.join(" "),
            self.skipped,
            HtmlText(self.says)
        );
        // Writing into a string does not fail.
        let _ = start.map(|start| write!(html, " data-start=\"{start}\""));
        html.push_str(">\n");
        for (number, (panel, upwards)) in self.panels.iter().zip(&upwards).enumerate() {
            self.picture(&mut html, number, panel, upwards, &across);
        }
        let logarithmic = if across.is_logarithmic() { ", logarithmic" } else { "" };
        let _ = writeln!(html, "<p class=\"unit along\">{}{logarithmic}</p>\n</div>", HtmlText(self.unit));
        html
    }

    fn picture(
        &self,
        html: &mut String,
        number: usize,
        panel: &Panel,
        upwards: &Scale,
        across_scale: &Scale,
    ) {
        let logarithmic = if upwards.is_logarithmic() { ", logarithmic" } else { "" };
        let _ = writeln!(html, "<p class=\"unit\">{}{logarithmic}</p>", panel.unit);
        let y = |value: u64| f64::from(HEIGHT) * (1.0 - upwards.place(value));
        let x = |limit: u64| across_scale.place(limit);
        let at = |limit: u64| self.limits.iter().position(|other| *other == limit);
        let value = |limit: u64| at(limit).and_then(|place| panel.values.get(place)).copied();
        let known = self.marks.iter().filter_map(|mark| Some((mark, value(mark.limit)?)));
        let said: Vec<String> = known
            .map(|(mark, value)| format!("at {} ({}): {}", grouped(mark.limit), mark.name, grouped(value)))
            .collect();
        let description = format!("{} by limit; {}.", panel.unit, said.join("; "));
        let id = format!("{}-{number}", self.id);
        open(html, &id, "plot", HEIGHT, &format!("{}: {}", self.title, panel.unit), &description);
        for tick in upwards.ticks() {
            across(html, if *tick == 0 { "base" } else { "grid" }, y(*tick), &short(*tick));
        }
        if number + 1 == self.panels.len() {
            below(html, HEIGHT, across_scale.ticks().iter().map(|limit| (x(*limit), short(*limit))));
        }
        for (row, mark) in self.marks.iter().enumerate() {
            mark.line(html, x(mark.limit), row, number == 0);
        }
        let places: Vec<f64> = self.limits.iter().map(|limit| x(*limit)).collect();
        if let Some(totals) = &panel.totals {
            line(html, "all", &places, totals, upwards);
        }
        line(html, "line", &places, &panel.values, upwards);
        if self.has_dots {
            for (place, value) in places.iter().zip(&panel.values) {
                dot(html, *place, y(*value), 3.0);
            }
        }
        // One limit may have both marks.
        let mut limits: Vec<u64> = self.marks.iter().map(|mark| mark.limit).collect();
        limits.dedup();
        let mut labels = Vec::new();
        for limit in limits {
            let Some(value) = value(limit) else { continue };
            dot(html, x(limit), y(value), 4.0);
            // Names of marks are above the picture, and lines fall: below a point, there is room to its left.
            let is_high = y(value) < HIGH;
            let is_taken = labels.iter().any(|(left, top): &(f64, f64)| {
                (x(limit) - left).abs() < 0.2 && (y(value) - top).abs() < HIGH
            });
            let is_below = is_high || (is_taken && y(value) + HIGH < f64::from(HEIGHT));
            let is_left = if is_below { x(limit) > 0.2 } else { x(limit) > 0.8 && value > 9 };
            let (anchor, gap) = if is_left { ("end", -7) } else { ("start", 7) };
            labels.push((x(limit), y(value)));
            let _ = writeln!(
                html,
                "<text class=\"strong\" x=\"{:.2}%\" dx=\"{gap}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
                x(limit) * 100.0,
                y(value) + if is_below { 16.0 } else { -6.0 },
                grouped(value)
            );
        }
        html.push_str("</svg>\n");
    }
}

impl Panel {
    fn scale(&self) -> Scale {
        Scale::amounts(self.values.iter().chain(self.totals.iter().flatten()).copied())
    }
}

impl LimitMark {
    fn line(&self, html: &mut String, x: f64, row: usize, is_named: bool) {
        let Self { limit, name, class } = self;
        let top = if is_named { -4 - 15 * row as i32 } else { 0 };
        let _ = writeln!(
            html,
            "<line class=\"{class}\" x1=\"{0:.2}%\" x2=\"{0:.2}%\" y1=\"{top}\" y2=\"{HEIGHT}\"/>",
            x * 100.0
        );
        if is_named {
            let (anchor, gap) = if x > 0.6 { ("end", "-5") } else { ("start", "5") };
            let _ = writeln!(
                html,
                "<text class=\"strong of-{class}\" x=\"{:.2}%\" dx=\"{gap}\" y=\"{}\" text-anchor=\"{anchor}\">{name} {}</text>",
                x * 100.0,
                top + 4,
                grouped(*limit)
            );
        }
    }
}

fn dot(html: &mut String, x: f64, y: f64, radius: f64) {
    let _ = writeln!(html, "<circle class=\"dot\" cx=\"{:.2}%\" cy=\"{y:.1}\" r=\"{radius}\"/>", x * 100.0);
}

/// A line that stretches from left to right.
fn line(html: &mut String, class: &str, places: &[f64], values: &[u64], upwards: &Scale) {
    let points = places.iter().zip(values);
    let points: Vec<String> = points
        .map(|(x, value)| {
            format!("{:.1},{:.1}", x * 1_000.0, f64::from(HEIGHT) * (1.0 - upwards.place(*value)))
        })
        .collect();
    let _ = writeln!(
        html,
        "<svg viewBox=\"0 0 1000 {HEIGHT}\" preserveAspectRatio=\"none\" height=\"{HEIGHT}\">\
         <polyline class=\"{class}\" points=\"{}\"/></svg>",
        points.join(" ")
    );
}
