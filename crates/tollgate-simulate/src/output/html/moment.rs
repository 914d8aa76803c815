//! Times and lengths of time, no more precise than logs are.

use super::escape::HtmlText;
use crate::output::number::lasting;
pub(crate) use crate::output::number::moment;
use crate::report::Report;

/// Writes the period of a report, in HTML.
pub(crate) fn span(report: &Report) -> Option<String> {
    let (first, last) = report.first.as_ref().zip(report.last.as_ref())?;
    let (first, last) = (moment(first), moment(last));
    let length = length(report.seconds);
    let end = match (first.get(..10), last.get(..10)) {
        (Some(day), Some(end)) if day == end => last.get(11..).unwrap_or(&last),
        _ => last.as_str(),
    };
    let [first, end] =
        [first.as_str(), end].map(|time| format!("<span class=\"whole\">{}</span>", HtmlText(time)));
    Some(format!("{first} to {end} {} <span class=\"whole\">({length})</span>", HtmlText(&report.zone)))
}

/// Writes a length of time: below two minutes in whole seconds, begun ones as full.
pub(crate) fn length(seconds: f64) -> String {
    if seconds > 1.0 && seconds < 120.0 { lasting(seconds.ceil()) } else { lasting(seconds) }.replacen(
        "1 seconds",
        "1 second",
        usize::from(seconds.ceil() == 1.0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The log had whole seconds, and the page said `09:45:11.25` and `49.5 seconds`.
    #[test]
    fn no_fraction_of_a_second_is_invented() {
        assert_eq!(moment("2026-11-16T09:45:11.25+01:00"), "2026-11-16 09:45:11");
        assert_eq!(
            [49.5, 1.0, 0.0, 150.0].map(length),
            ["50 seconds", "1 second", "0 seconds", "2.5 minutes"]
        );
        assert_eq!(moment("1795392000000 ms"), "1795392000 ms".replace(' ', "000 "));
    }
}
