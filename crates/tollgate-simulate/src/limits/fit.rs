//! A limit for one window, by the first part of a period.

use serde::Serialize;

use super::bound::{self, rounded_up};
use super::maxima::{Maxima, PeriodActivity};
use crate::histogram::Histogram;

/// The effect of a limit in the part of the period that it was not computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HeldOut {
    /// Requests.
    pub requests: u64,
    /// Those that are denied.
    pub denied: u64,
    /// Clients.
    pub clients: u64,
    /// Those with a denied request.
    pub denied_clients: u64,
}

/// The share of the period from which a limit is computed.
pub(crate) const FITTED: f64 = 0.7;

/// A limit for one window, by about the first 70 % of a period, tried on the rest.
#[derive(Debug)]
pub(crate) struct Fit {
    /// The part of the period with the end of the first 70 %, and when it starts. `None` if the period is too short.
    pub(crate) split: Option<(u8, i64)>,
    /// The most of each client before it.
    pub(crate) fitted: Histogram,
    /// The budget that was asked for, or the least that the clients can prove. `None` if they are fewer than five.
    pub(crate) proven: Option<f64>,
    /// With a confidence of 95 %, at most this share of clients request more.
    pub(crate) bound: Option<u64>,
    /// The bound, rounded up.
    pub(crate) limit: Option<u64>,
    pub(crate) held_out: Option<HeldOut>,
    /// The whole period.
    pub(crate) all: PeriodActivity,
}

impl Fit {
    /// By the clients that are followed, one in so many. The others are no evidence for a bound.
    pub(crate) fn of(maxima: &Maxima, budget: f64, one_in: u64) -> Self {
        // The limit is found by the parts before the one that holds the end of the first 70 %.
        let split = maxima.split(FITTED);
        let fitted = split.map(|(part, _)| maxima.within(0..part)).unwrap_or_default().maxima;
        let proven = bound::provable(fitted.count(), budget);
        let bound = proven.and_then(|budget| bound::suggested(&fitted, budget));
        let limit = bound.map(rounded_up);
        let held_out = split.zip(limit).map(|((part, _), limit)| {
            let span = maxima.within(part..u8::MAX);
            HeldOut {
                requests: span.windows.iter().map(|(value, times)| value * times).sum(),
                denied: span.windows.excess(limit),
                clients: span.maxima.count() * one_in,
                denied_clients: span.maxima.above(limit) * one_in,
            }
        });
        Self { split, fitted, proven, bound, limit, held_out, all: maxima.within(0..u8::MAX) }
    }
}

#[cfg(test)]
mod tests {
    use tollgate::Quota;

    use super::*;

    #[test]
    fn limits_are_1_2_3_or_5_times_a_power_of_ten() {
        for (bound, limit) in [
            (0, 1),
            (1, 1),
            (2, 2),
            (3, 3),
            (4, 5),
            (6, 10),
            (11, 20),
            (21, 30),
            (23, 30),
            (31, 50),
            (51, 100),
            (299, 300),
        ] {
            assert_eq!(rounded_up(bound), limit, "{bound}");
        }
        assert_eq!(rounded_up(u64::MAX), Quota::MAX_LIMIT);
    }
}
