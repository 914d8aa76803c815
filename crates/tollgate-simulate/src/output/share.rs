//! Shares, as people read them.

/// Writes a share as a percentage with as many places as it needs: `0.02 %`, `12.5 %`. A share of nothing is `-`.
///
/// ```
/// use tollgate_simulate::percent;
///
/// assert_eq!(percent(1, 8), "12.5 %");
/// assert_eq!(percent(3, 1_000_000), "0.0003 %");
/// assert_eq!(percent(9_999, 10_000), "over 99.9 %");
/// assert_eq!(percent(0, 10), "0 %");
/// assert_eq!(percent(0, 0), "-");
/// ```
#[must_use]
pub fn percent(part: u64, all: u64) -> String {
    if all == 0 {
        return "-".to_owned();
    }
    let share = part as f64 / all as f64 * 100.0;
    if part == 0 || part == all {
        return format!("{share:.0} %");
    }
    let places = (2.0 - share.log10().floor()).clamp(1.0, 6.0) as usize;
    let text = format!("{share:.places$}");
    match text.trim_end_matches('0').trim_end_matches('.') {
        "100" => "over 99.9 %".to_owned(),
        "0" => "under 0.000001 %".to_owned(),
        text => format!("{text} %"),
    }
}

/// Writes a share of 1 as a percentage, with up to nine decimals.
///
/// ```
/// assert_eq!(tollgate_simulate::percentage(0.007), "0.7 %");
/// ```
#[must_use]
pub fn percentage(share: f64) -> String {
    format!("{} %", (share * 100.0 * 1e9).round() / 1e9)
}

/// Writes a budget of clients: as a percentage, or as one in a whole number if that is shorter.
///
/// ```
/// use tollgate_simulate::share_of_clients;
///
/// assert_eq!(share_of_clients(0.001), "0.1 %");
/// assert_eq!(share_of_clients(1.0 / 134.0), "0.75 % (1 in 134)");
/// ```
#[must_use]
pub fn share_of_clients(budget: f64) -> String {
    let whole = percentage(budget);
    if whole.len() <= "0.001 %".len() {
        return whole;
    }
    // Rounded up, as a budget is an upper bound.
    let digit = 10_f64.powf(budget.log10().floor() - 1.0);
    format!("{} (1 in {:.0})", percentage((budget / digit).ceil() * digit), 1.0 / budget)
}
