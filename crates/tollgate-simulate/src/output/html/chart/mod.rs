//! Charts, as SVG that needs no script. Each has a title, units at its axes, and a table with the same values.
//!
//! Places from left to right are percentages, so text keeps its size while lines and areas stretch with the page.

pub(crate) mod bars;
pub(crate) mod heat;
pub(crate) mod panel;
pub(crate) mod scale;

use std::fmt::Write as _;

use super::escape::HtmlText;
use super::table::HtmlTable;

/// A chart with its title and its table.
pub(crate) struct Figure<'a> {
    pub(crate) title: &'a str,
    /// HTML below the title.
    pub(crate) about: String,
    /// HTML of the chart itself.
    pub(crate) chart: String,
    pub(crate) table: HtmlTable<'a>,
}

impl Figure<'_> {
    pub(crate) fn html(&self) -> String {
        let Self { title, about, chart, table } = self;
        format!(
            "<figure>\n<figcaption><h3>{}</h3><p>{about}</p></figcaption>\n{chart}{}</figure>\n",
            HtmlText(title),
            table.folded("The same as a table")
        )
    }
}

/// The name of a colour in a sentence, with a square of it.
pub(crate) fn key(class: &str, name: &str) -> String {
    format!("<span class=\"key\">{}{name}</span>", square(class))
}

/// The name of a line in a sentence, with a piece of it.
pub(crate) fn line_key(class: &str, name: &str) -> String {
    format!(
        "<span class=\"key\"><svg class=\"long\" viewBox=\"0 0 24 9\" aria-hidden=\"true\"><path class=\"{class}\" d=\"M0 \
         5h24\"/></svg>{name}</span>"
    )
}

/// A square of a colour.
pub(crate) fn square(class: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 9 9\" aria-hidden=\"true\"><rect class=\"{class}\" width=\"9\" height=\"9\"/></svg>"
    )
}

/// Begins a picture of this height in pixels.
fn open(svg: &mut String, id: &str, class: &str, height: u32, title: &str, description: &str) {
    // Writing into a string does not fail.
    let _ = writeln!(
        svg,
        "<svg class=\"{class}\" height=\"{height}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\
         <title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>",
        HtmlText(title),
        HtmlText(description)
    );
}

/// A line across the picture, with its value to the left.
fn across(svg: &mut String, class: &str, y: f64, text: &str) {
    let _ = writeln!(
        svg,
        "<line class=\"{class}\" x2=\"100%\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
         <text x=\"-8\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        y + 4.0,
        HtmlText(text)
    );
}

/// Values below the picture, each with a short line; a place is a share. A very narrow page has room for every other
/// one.
fn below(svg: &mut String, height: u32, values: impl Iterator<Item = (f64, String)>) {
    for (number, (x, text)) in values.enumerate() {
        let (x, class) = (x * 100.0, if number % 2 == 1 { "tick odd" } else { "tick" });
        let _ = writeln!(
            svg,
            "<line class=\"base\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"{height}\" y2=\"{}\"/>\
             <text class=\"{class}\" x=\"{x:.2}%\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            height + 4,
            height + 17,
            HtmlText(text)
        );
    }
}

/// Writes a large number at an axis in millions.
fn short(number: u64) -> String {
    match number {
        0..10_000_000 => crate::output::number::grouped(number),
        _ => format!("{} M", crate::output::number::grouped(number / 1_000_000)),
    }
}

/// The class that leaves room for the texts to the left.
fn room(longest: usize) -> &'static str {
    if longest > 4 { "chart wide" } else { "chart" }
}
