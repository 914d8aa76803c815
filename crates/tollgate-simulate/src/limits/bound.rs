//! Finds a limit that few clients exceed, whatever the distribution.
//!
//! Of n clients, sorted by the most that each asks for in a window, the one of rank r is an upper bound of the quantile
//! 1 - p of all clients with 95 % confidence, if P(Bin(n, 1 - p) >= r) <= 5 %. This is the usual interval for
//! quantiles by order statistics; it makes no assumption about the distribution.

use tollgate::Quota;

use crate::histogram::Histogram;

/// The share of clients that a suggested limit may deny, unless another is asked for.
pub const BUDGET: f64 = 0.001;

/// The chance that more clients exceed the bound than the budget allows.
pub const RISK: f64 = 0.05;

/// Returns the rank, counted from 1, of the client whose most is the bound; `None` if there are too few clients.
///
/// ```
/// use tollgate_simulate::suggest::rank;
///
/// assert_eq!(rank(298, 0.01), None);
/// assert_eq!(rank(299, 0.01), Some(299));
/// assert_eq!(rank(2_994, 0.001), None);
/// assert_eq!(rank(2_995, 0.001), Some(2_995));
/// ```
#[must_use]
pub fn rank(clients: u64, budget: f64) -> Option<u64> {
    if clients == 0 || !(budget > 0.0 && budget < 1.0) {
        return None;
    }
    // P(Bin(n, 1 - p) >= r) is the chance that at most n - r clients exceed. The chances are added up from none on, as
    // logarithms, because that of none is too small for a number if there are a million clients.
    let n = clients as f64;
    let odds = (budget / (1.0 - budget)).ln();
    let mut exactly = n * (-budget).ln_1p();
    let mut at_most = exactly;
    let mut exceeding = None;
    for number in 0..clients {
        if at_most > RISK.ln() {
            break;
        }
        exceeding = Some(number);
        let number = number as f64;
        exactly += odds + ((n - number) / (number + 1.0)).ln();
        at_most = sum(at_most, exactly);
    }
    Some(clients - exceeding?)
}

/// The logarithm of the sum of two numbers, of which the logarithms are given.
fn sum(a: f64, b: f64) -> f64 {
    let (less, more) = if a < b { (a, b) } else { (b, a) };
    more + (less - more).exp().ln_1p()
}

/// Returns the number of clients that a bound with this budget needs.
#[must_use]
pub fn clients_needed(budget: f64) -> u64 {
    let needed = (RISK.ln() / (-budget).ln_1p()).ceil();
    if needed.is_finite() && needed > 0.0 { needed as u64 } else { u64::MAX }
}

/// Returns the budget that is asked for if a bound with this many clients can have it; otherwise the smallest that it
/// can have, as one client in a whole number. `None` if that is above one in two.
pub(crate) fn provable(clients: u64, asked: f64) -> Option<f64> {
    if rank(clients, asked).is_some() {
        return Some(asked);
    }
    // The greatest client is the bound for one client in so many, before rounding.
    let least = -(RISK.ln() / clients.max(1) as f64).exp_m1();
    let mut one_in = (1.0 / least).floor();
    while one_in >= 2.0 && rank(clients, 1.0 / one_in).is_none() {
        one_in -= 1.0;
    }
    (one_in >= 2.0).then(|| 1.0 / one_in)
}

/// Returns the bound on the most of each client; `None` if there are too few clients.
#[must_use]
pub(crate) fn suggested(maxima: &Histogram, budget: f64) -> Option<u64> {
    maxima.of_rank(rank(maxima.count(), budget)?)
}

/// The next of 1, 2, 3, 5, 10, 20, 30, 50 and so on.
pub(crate) fn rounded_up(bound: u64) -> u64 {
    let bound = bound.clamp(1, Quota::MAX_LIMIT);
    let mut step = 1_u64;
    loop {
        for digit in [1, 2, 3, 5] {
            let rounded = step.saturating_mul(digit);
            if rounded >= bound {
                return rounded.min(Quota::MAX_LIMIT);
            }
        }
        step = step.saturating_mul(10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum of the definition, with exact products where that is possible.
    fn tail(n: u32, p: f64, r: u32) -> f64 {
        (r..=n)
            .map(|k| {
                let choose: f64 = (0..k).map(|i| f64::from(n - i) / f64::from(i + 1)).product();
                choose * (1.0 - p).powi(k as i32) * p.powi((n - k) as i32)
            })
            .sum()
    }

    #[test]
    fn is_the_least_rank_of_the_definition() {
        for n in [1, 10, 40, 58, 59, 60, 90, 93, 150, 200] {
            for p in [0.05, 0.1, 0.3] {
                let least = (1..=n).find(|r| tail(n, p, *r) <= RISK).map(u64::from);
                assert_eq!(rank(u64::from(n), p), least, "n {n}, p {p}");
            }
        }
    }

    #[test]
    fn needs_as_many_clients_as_it_says() {
        for budget in [0.000_1, 0.001, 0.01, 0.05, 0.5] {
            let needed = clients_needed(budget);
            assert_eq!((rank(needed - 1, budget), rank(needed, budget)), (None, Some(needed)), "{budget}");
        }
    }

    #[test]
    fn the_provable_budget_is_the_least_that_so_many_clients_bear() {
        for (clients, one_in) in
            [(5, 2.0), (59, 20.0), (299, 100.0), (400, 134.0), (1_861, 621.0), (2_994, 999.0)]
        {
            assert_eq!(provable(clients, BUDGET), Some(1.0 / one_in), "{clients}");
            assert!(rank(clients, 1.0 / one_in).is_some(), "{clients}");
            assert_eq!(rank(clients, 1.0 / (one_in + 1.0)), None, "{clients}");
        }
        assert_eq!(
            (provable(2_995, BUDGET), provable(4, BUDGET), provable(0, BUDGET)),
            (Some(BUDGET), None, None)
        );
    }

    /// The chance of no client above the bound is e^-10000 there.
    #[test]
    fn millions_of_clients_are_bounded_too() {
        let rank = rank(10_000_000, 0.001).unwrap();
        // The normal approximation: 10,000 exceed, with a deviation of 100.
        let exceeding = 10_000_000 - rank;
        assert!((9_820..9_850).contains(&exceeding), "{exceeding}");
    }
}
