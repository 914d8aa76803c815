//! Numbers and times, as people read them.

use crate::report::Quantiles;

/// In seconds.
pub(crate) const DAY: f64 = 86_400.0;

/// Writes a number with a comma at each thousand.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes a number and what it counts, in singular or plural.
pub(crate) fn counted(number: u64, one: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{} {one}{end}", grouped(number))
}

/// Returns `about ` for numbers of clients that are estimates, because one client in this many was followed.
pub(crate) const fn about(one_client_in: u64) -> &'static str {
    if one_client_in > 1 { "about " } else { "" }
}

/// Writes how tight a limit is. The interval is a window, or what stands for one.
pub(crate) fn most_in_one(interval: &str, most: Quantiles) -> String {
    let [p50, p90, p99, p999, max] = [most.p50, most.p90, most.p99, most.p999, most.max].map(grouped);
    format!(
        "the most that a client requests in one {interval}: half of the clients at most {p50}, 90 % {p90}, 99 % {p99}, \
         99.9 % {p999}, all {max}"
    )
}

/// Writes a length of time in its largest unit, with one decimal place if useful.
pub(crate) fn lasting(seconds: f64) -> String {
    let units = [("days", DAY), ("hours", 3_600.0), ("minutes", 60.0)];
    let (unit, length) =
        units.into_iter().find(|(_, length)| seconds >= 2.0 * length).unwrap_or(("seconds", 1.0));
    let number = format!("{:.1}", seconds / length);
    format!("{} {unit}", number.trim_end_matches(".0"))
}

/// Writes a time of RFC 3339 without fractions of seconds, which few logs have, and without its zone.
pub(crate) fn moment(time: &str) -> String {
    match (time.get(..10), time.get(11..19)) {
        (Some(date), Some(clock)) => format!("{date} {clock}"),
        _ => time.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_told_apart() {
        assert_eq!([0, 999, 1_000, 12_345_678].map(grouped), ["0", "999", "1,000", "12,345,678"]);
        assert_eq!((counted(1, "client"), counted(2, "client")), ("1 client".into(), "2 clients".into()));
    }

    #[test]
    fn lengths_are_in_a_fitting_unit() {
        let lengths = [0.0, 59.5, 119.0, 120.0, 7_200.0, 604_800.0].map(lasting);
        assert_eq!(lengths, ["0 seconds", "59.5 seconds", "119 seconds", "2 minutes", "2 hours", "7 days"]);
    }
}
