//! Bars over time: requests, with the denied ones on top.

use std::fmt::Write as _;

use super::scale::Scale;
use super::{across, below, key, open, room, short};
use crate::output::html::escape::HtmlText;
use crate::report::{Report, TimeShare};

const HEIGHT: u32 = 150;

/// Names the colours of bars.
pub(crate) fn shades(report: &Report) -> String {
    match report.denied {
        _ if report.is_overview() => "No policy was given, so none is denied.".to_owned(),
        0 => "None of them is denied.".to_owned(),
        _ => format!("{}, with {} ones on top.", key("admitted", "Admitted"), key("denied", "denied")),
    }
}

/// Bars from left to right.
pub(crate) struct BarChart<'a> {
    pub(crate) id: &'a str,
    pub(crate) title: &'a str,
    /// A sentence that says the same.
    pub(crate) description: &'a str,
    /// What one bar counts.
    pub(crate) unit: &'a str,
    /// What is written from left to right.
    pub(crate) along: &'a str,
    /// How a bar is read out, as a point of other charts.
    pub(crate) says: &'a str,
    pub(crate) bars: &'a [TimeShare],
    /// Texts below bars: each at the start or the middle of one.
    pub(crate) ticks: &'a [(f64, String)],
}

impl BarChart<'_> {
    pub(crate) fn html(&self) -> String {
        let count = self.bars.len().max(1) as f64;
        let most = self.bars.iter().map(|bar| bar.requests).max().unwrap_or(0);
        let scale = Scale::linear(most);
        let longest = scale.ticks().iter().map(|tick| short(*tick).len()).max().unwrap_or(0);
        let places: Vec<String> = (0..self.bars.len())
            .map(|place| format!("{:.2}", (place as f64 + 0.5) / count * 100.0))
            .collect();
        let mut html = format!(
            "<div class=\"{}\" data-at=\"{}\" data-from=\"0\" data-says=\"{}\">\n",
            room(longest),
            places.join(" "),
            HtmlText(self.says)
        );
        // Writing into a string does not fail.
        let _ = writeln!(html, "<p class=\"unit\">{}</p>", HtmlText(self.unit));
        open(&mut html, self.id, "plot", HEIGHT, self.title, self.description);
        let y = |value: u64| f64::from(HEIGHT) * (1.0 - scale.place(value));
        for tick in scale.ticks().iter().skip(1) {
            across(&mut html, "grid", y(*tick), &short(*tick));
        }
        let (mut admitted, mut denied) = (String::new(), String::new());
        for (place, bar) in self.bars.iter().enumerate() {
            let left = place as f64 + 0.1;
            let all = y(bar.requests);
            // A single denied request is seen as well.
            let edge = match bar.denied {
                0 => all,
                _ => y(bar.requests.saturating_sub(bar.denied)).max(all + 2.0).min(f64::from(HEIGHT)),
            };
            if bar.denied > 0 {
                let _ = write!(denied, "M{left:.1} {edge:.1}V{all:.1}h.8V{edge:.1}z");
            }
            if bar.requests > bar.denied {
                let _ = write!(admitted, "M{left:.1} {HEIGHT}V{edge:.1}h.8V{HEIGHT}z");
            }
        }
        let _ = writeln!(
            html,
            "<svg viewBox=\"0 0 {count} {HEIGHT}\" preserveAspectRatio=\"none\" height=\"{HEIGHT}\">\
             <path class=\"admitted\" d=\"{admitted}\"/><path class=\"denied\" d=\"{denied}\"/></svg>"
        );
        across(&mut html, "base", f64::from(HEIGHT), "0");
        below(&mut html, HEIGHT, self.ticks.iter().map(|(place, text)| (place / count, text.clone())));
        let _ = writeln!(html, "</svg>\n<p class=\"unit along\">{}</p>\n</div>", HtmlText(self.along));
        html
    }
}
