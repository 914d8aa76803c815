//! The denials of other limits.

use serde::Serialize;

use crate::histogram::Histogram;
use crate::limits::bound;
use crate::limits::bound::rounded_up;
use crate::limits::setters::LimitSetters;

/// Limits for which a calculated curve has a point, at most.
const MAX_POINTS: usize = 60;

/// The fewest points that a curve is made with.
const MIN_POINTS: usize = 4;

/// The denials of other limits of one quota.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Curve {
    /// The origin of the points.
    pub basis: Basis,
    /// The limit of the quota.
    pub replayed: u64,
    /// In the order of their limits.
    pub points: Vec<Point>,
    /// The limit by the whole log, which `suggest` finds by its first 70 % to try it on the rest: with a confidence
    /// of 95 %, it denies at most the share of clients in [`suggested_budget`](Self::suggested_budget), and it is
    /// rounded up to 1, 2, 3 or 5 times a power of ten. `None` if there are fewer than five clients.
    pub suggested: Option<u64>,
    /// One client in 1,000, or else the least share that so many clients can prove.
    pub suggested_budget: Option<f64>,
    /// The clients that set the suggested limit, if these are clients with mostly errors far above all others. Errors
    /// are those of the policy's requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_by: Option<LimitSetters>,
}

/// The origin of a curve's points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Basis {
    /// From the windows of each client that is followed: exactly, if all are.
    Calculated,
    /// Each request was decided under each limit, in one pass. A replay with that limit in the file comes to the same.
    Tried,
}

/// The denials of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Point {
    /// The limit.
    pub limit: u64,
    /// Requests that it denies.
    pub denied: u64,
    /// Clients with a request that it denies.
    pub denied_clients: u64,
    /// Requests that all policies together deny if only this limit is changed. `None` for trials, which deny nothing.
    pub total_denied: Option<u64>,
    /// Clients with such a request. `None` for trials, and if the policy counts by another key than clients are told
    /// apart by, so that it is not known.
    pub total_denied_clients: Option<u64>,
}

/// The denials of all other quotas, for a quota that decides alone on its requests.
#[derive(Debug)]
pub(crate) struct Others {
    /// Requests that it denies.
    pub(crate) denied: u64,
    /// Followed clients with such a request; and the most in one window, under the quota, of each followed client
    /// without one. `None` if the quota counts other clients.
    pub(crate) clients: Option<(u64, Histogram)>,
}

impl Curve {
    /// Calculates the curve of a quota that decides alone on its requests, which cost one unit each and nothing if they
    /// are denied: from the requests in each window of each client, and the most that each client has in one window.
    ///
    /// A window of n requests denies those above the limit, whatever the limit is. So every limit is exact if all
    /// clients are followed. If only one client in `one_in` is, the points are estimates: then each window stands for
    /// several, and `maxima` are those of the clients that are followed. The others are no evidence for a limit. A
    /// limit is taken to deny the same share of all `requests` as of those in the windows (a ratio estimate, as in
    /// Cochran's "Sampling Techniques", chapter 6).
    ///
    /// With a limit, all policies together deny what the others deny, and what the quota denies with it.
    pub(crate) fn calculated(
        windows: &Histogram,
        maxima: &Histogram,
        one_in: u64,
        requests: u64,
        replayed: u64,
        others: Option<&Others>,
    ) -> Self {
        let total_clients = |limit| {
            let (clients, maxima) = others?.clients.as_ref()?;
            Some((clients + maxima.above(limit)).saturating_mul(one_in))
        };
        let point = |limit| {
            let denied = denied(windows, limit, one_in, requests);
            Point {
                limit,
                denied,
                denied_clients: maxima.above(limit).saturating_mul(one_in),
                total_denied: others.map(|others| others.denied.saturating_add(denied)),
                total_denied_clients: total_clients(limit),
            }
        };
        let suggested_budget = bound::provable(maxima.count(), bound::BUDGET);
        let suggested = suggested_budget.and_then(|budget| bound::suggested(maxima, budget)).map(rounded_up);
        let marked = [Some(replayed).filter(|replayed| *replayed > 0), suggested];
        let limits = limits(maxima.max().unwrap_or(0), marked.into_iter().flatten(), MAX_POINTS);
        let points: Vec<Point> = limits.into_iter().map(point).collect();
        Self { basis: Basis::Calculated, replayed, points, suggested, suggested_budget, set_by: None }
    }

    /// A curve of points that the engine found, in any order.
    pub(crate) fn tried(mut points: Vec<Point>, replayed: u64) -> Self {
        points.sort_unstable_by_key(|point| point.limit);
        Self { basis: Basis::Tried, replayed, points, suggested: None, suggested_budget: None, set_by: None }
    }

    /// Calculates the curve of a quota that counts in fixed windows and decides alone on requests of one unit, from the
    /// number of requests in each window of each client, and the most that each client has in one window.
    ///
    /// It is exact for these requests.
    #[must_use]
    pub fn of_windows(windows: &Histogram, maxima: &Histogram, replayed: u64) -> Self {
        Self::calculated(windows, maxima, 1, windows.excess(0), replayed, None)
    }

    /// Returns the limits for a curve: all up to `max`, which is taken to deny nothing, and `replayed`; or so many of
    /// these at about equal ratios.
    #[must_use]
    pub fn limits(max: u64, replayed: u64, most: usize) -> Vec<u64> {
        limits(max, [replayed].into_iter().filter(|limit| *limit > 0), most.max(MIN_POINTS))
    }

    /// Returns the denials of this limit, if the curve has a point there.
    #[must_use]
    pub fn at(&self, limit: u64) -> Option<Point> {
        self.points.iter().copied().find(|point| point.limit == limit)
    }
}

/// Requests that a limit denies, of all `requests`. If only one client in `one_in` is followed, the limit is taken to
/// deny the same share of all as of those in the windows.
pub(crate) fn denied(windows: &Histogram, limit: u64, one_in: u64, requests: u64) -> u64 {
    let denied = windows.excess(limit);
    if one_in == 1 {
        return denied;
    }
    let share = u128::from(denied) * u128::from(requests) / u128::from(windows.excess(0).max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// All limits up to the one that denies nothing, and those that have a mark; if they are many, some at about equal
/// ratios, `most` without the marks.
fn limits(max: u64, marked: impl IntoIterator<Item = u64>, most: usize) -> Vec<u64> {
    let max = max.max(1);
    let mut limits: Vec<u64> = if max <= most as u64 {
        (1..=max).collect()
    } else {
        let step = (max as f64).powf(1.0 / (most as f64 - 3.0));
        let places = 0..most as i32 - 2;
        places.map(|place| (step.powi(place).round() as u64).clamp(1, max)).chain([max]).collect()
    };
    limits.extend(marked);
    limits.sort_unstable();
    limits.dedup();
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_todays_and_the_one_that_denies_nothing() {
        assert_eq!(limits(3, [5], MAX_POINTS), [1, 2, 3, 5]);
        assert_eq!(limits(0, [], MAX_POINTS), [1]);
        let many = limits(1_000_000, [77], MAX_POINTS);
        assert!(many.len() <= MAX_POINTS && many.contains(&77) && many.contains(&1_000_000), "{many:?}");
        assert!(many.is_sorted() && many.first() == Some(&1));
        let few = Curve::limits(1_000, 77, 8);
        assert!(few.len() <= 9 && few.contains(&77) && few.contains(&1_000), "{few:?}");
    }

    /// One busy client among a few that were followed stood for many, with more denials than there were requests.
    #[test]
    fn an_estimate_denies_no_more_than_all() {
        let (mut windows, mut maxima) = (Histogram::default(), Histogram::default());
        windows.add_times(1_000, 64);
        maxima.add(1_000);
        let curve = Curve::calculated(&windows, &maxima, 64, 2_000, 500, None);
        assert_eq!(curve.at(500).unwrap().denied, 1_000);
        assert!(curve.points.iter().all(|point| point.denied < 2_000), "{curve:?}");
        let unknown = Curve::calculated(&Histogram::default(), &Histogram::default(), 64, 2_000, 5, None);
        assert_eq!(unknown.at(5).unwrap().denied, 0);
    }
}
