//! Parsers for the values of flags about logs.

use jiff::tz::TimeZone;
use tollgate::{Anchor, Quota, QuotaKind};

use super::value::ExpectedForm;

/// The window of a second limit.
#[derive(Debug, Clone)]
pub struct Companion(pub Option<Quota>);

/// Parses the name of a time zone.
pub(super) fn zone(text: &str) -> Result<TimeZone, ExpectedForm> {
    TimeZone::get(text).map_err(|_| "expected the name of a time zone, such as Europe/Berlin or UTC")
}

/// Parses a share of a whole.
pub(super) fn percentage(text: &str) -> Result<f64, ExpectedForm> {
    let (number, scale) = match text.trim().strip_suffix('%') {
        Some(number) => (number.trim(), 0.01),
        None => (text.trim(), 1.0),
    };
    let share = number.parse().ok().map(|number: f64| number * scale);
    share.filter(|share| (0.0..=1.0).contains(share)).ok_or("expected a share from 0% to 100%, such as 0.1%")
}

/// Parses the share of all requests that a log holds: more than none.
pub(super) fn sample_rate(text: &str) -> Result<f64, ExpectedForm> {
    let share = percentage(text).ok().filter(|share| *share >= 0.000_001);
    share.ok_or("expected a share from 0.0001% to 100%, such as 10%")
}

/// Parses a share of clients that may be denied: neither none nor all.
pub(super) fn budget(text: &str) -> Result<f64, ExpectedForm> {
    let share = percentage(text).ok().filter(|share| (0.000_001..=0.5).contains(share));
    share.ok_or("expected a share from 0.0001% to 50%, such as 0.1%")
}

/// Parses a fixed window that starts with the clock: what other kinds deny does not follow from windows. It is returned as a quota with an arbitrary limit.
pub(super) fn window(text: &str) -> Result<Quota, ExpectedForm> {
    const EXPECTED: ExpectedForm = "expected a window, such as 1s, 1m or 1h";
    let quota: Quota = format!("1/{text}").parse().map_err(|_| EXPECTED)?;
    let is_fixed = quota.kind() == QuotaKind::Window && quota.anchor() == Anchor::Epoch;
    is_fixed.then_some(quota).ok_or(EXPECTED)
}

/// Parses a window, or `none`.
pub(super) fn companion(text: &str) -> Result<Companion, ExpectedForm> {
    if text == "none" { Ok(Companion(None)) } else { window(text).map(|window| Companion(Some(window))) }
}

/// Parses the number of other limits to try.
pub(super) fn rungs(text: &str) -> Result<usize, ExpectedForm> {
    text.parse().ok().filter(|rungs| *rungs <= 12).ok_or("expected a whole number from 0 to 12")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_percentage_or_a_fraction() {
        assert_eq!(
            [percentage("0.1%"), percentage("5 %"), percentage("0.25")],
            [Ok(0.001), Ok(0.05), Ok(0.25)]
        );
        for text in ["", "%", "-1%", "101%", "1.1", "NaN", "inf", "one"] {
            assert!(percentage(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_window_is_a_length_and_starts_with_the_clock() {
        assert_eq!(window("1m").unwrap().to_string(), "1/1m");
        assert!(companion("none").unwrap().0.is_none() && companion("10s").unwrap().0.is_some());
        for text in
            ["", "none", "1m@first_hit", "day@Europe/Berlin", "1/1m", "0s", "1m;2/1h", "1m~burst", "1m~log"]
        {
            assert!(window(text).is_err(), "{text}");
        }
        assert_eq!((sample_rate("10%"), sample_rate("100%")), (Ok(0.1), Ok(1.0)));
        assert!(["0%", "101%", "-1"].iter().all(|text| sample_rate(text).is_err()));
        assert_eq!(budget("0.1%"), Ok(0.001));
        assert!(["0%", "51%", "0.00001%"].iter().all(|text| budget(text).is_err()));
    }
}
