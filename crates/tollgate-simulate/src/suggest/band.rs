//! How much a bound depends on the days that a log happens to have.
//!
//! The bound is calculated again without each of the days by which a limit is found: a jackknife in blocks of a day.
//! Clients come back on other days, so single requests and clients are no units to leave out. Days are not drawn with
//! repeats: a repeated day adds nothing to the most of a client, so each draw would be a shorter period.

use serde::Serialize;

use crate::limits::bound;
use crate::limits::maxima::Maxima;

/// The least days for a band: fewer are no sample of days.
const MIN_DAYS: f64 = 7.0;

/// Where a bound lies if one of the days is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Band {
    /// The lowest of these bounds,
    pub low: u64,
    /// and the highest.
    pub high: u64,
}

impl Band {
    /// The band of the bound on what clients ask for in these parts of a period of so many days. `None` if the days
    /// are too few, or the clients on them.
    ///
    /// Without a day there are fewer clients, and perhaps too few for a bound of their own: it is the client at the
    /// same share of the ranks.
    pub(super) fn of(maxima: &Maxima, parts: std::ops::Range<u8>, days: f64, budget: f64) -> Option<Self> {
        if days < MIN_DAYS {
            return None;
        }
        let clients = maxima.of_clients(parts.clone()).count();
        let level = bound::rank(clients as u64, budget)? as f64 / clients as f64;
        let bounds = maxima.days(parts.clone()).into_iter().filter_map(|left_out| {
            let mut is_counted = [false; 256];
            let counted = parts.clone().filter(|part| !left_out.contains(part));
            counted.for_each(|part| is_counted[usize::from(part)] = true);
            maxima.of_parts(&is_counted).quantile(level)
        });
        let range = bounds.fold(None, |range: Option<(u64, u64)>, bound| {
            Some(range.map_or((bound, bound), |(low, high)| (low.min(bound), high.max(bound))))
        });
        range.map(|(low, high)| Self { low, high })
    }
}
