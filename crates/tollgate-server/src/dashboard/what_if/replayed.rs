//! The denials of one quota, request by request.

use std::time::Duration;

use tollgate::kind::Standing;
use tollgate::{CountDenied, Key, Quota, QuotaKind, Timestamp};

use super::time_limit::{OutOfTime, TimeLimit};
use super::traffic::Traffic;
use crate::observe::stopwatch::Stopwatch;
use crate::sample::SampledRequest;

/// What a quota denies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct QuotaDenials {
    pub(super) requests: u64,
    pub(super) keys: u64,
}

/// Decides on all requests under a quota, with the rules of the engine, from counters without usage.
///
/// # Errors
///
/// If it takes too long.
pub(super) fn denials(
    traffic: &Traffic,
    quota: &Quota,
    count_denied: CountDenied,
    limit: TimeLimit,
) -> Result<QuotaDenials, OutOfTime> {
    let mut denials = QuotaDenials::default();
    for requests in traffic.keys() {
        limit.check()?;
        let denied = denied_of_key(requests, quota, count_denied, limit)?;
        denials.requests += denied;
        denials.keys += u64::from(denied > 0);
    }
    Ok(denials)
}

/// Returns how long a decision on a request of weight 1 takes now, by some of them; `None` if there are too few to tell.
pub(super) fn pace(
    traffic: &Traffic,
    quota: &Quota,
    limit: TimeLimit,
) -> Result<Option<Duration>, OutOfTime> {
    const FEW: usize = 256;
    const ENOUGH: usize = 2_048;
    let (stopwatch, mut decisions) = (Stopwatch::start(), 0);
    for requests in traffic.keys() {
        let some = requests.get(..ENOUGH - decisions).unwrap_or(requests);
        denied_of_key(some, quota, CountDenied::No, limit)?;
        decisions += some.len();
        if decisions >= ENOUGH {
            break;
        }
    }
    let steps = u32::try_from(decisions * weight(quota)).unwrap_or(u32::MAX);
    Ok((decisions >= FEW).then(|| stopwatch.elapsed() / steps))
}

/// Returns how long a request takes, compared with one in a fixed window.
pub(super) const fn weight(quota: &Quota) -> usize {
    match quota.kind() {
        // It has a list of what it counts.
        QuotaKind::Log => 10,
        _ => 1,
    }
}

fn denied_of_key(
    requests: &[SampledRequest],
    quota: &Quota,
    count_denied: CountDenied,
    limit: TimeLimit,
) -> Result<u64, OutOfTime> {
    /// One key may have all requests.
    const REQUESTS_A_CHECK: usize = 4_096;
    let (mut counter, mut denied) = (None, 0);
    for requests in requests.chunks(REQUESTS_A_CHECK) {
        limit.check()?;
        for SampledRequest { key, at, cost, .. } in requests {
            let standing = standing(counter, quota, &Key::from(*key), *at);
            let (units, capacity) = (u64::from(*cost), quota.capacity());
            let has_room = standing.used() + units <= capacity;
            denied += u64::from(!has_room);
            let is_charged = has_room || (count_denied == CountDenied::Yes && units <= capacity);
            counter = Some(if is_charged && units > 0 { standing.add(units) } else { standing });
        }
    }
    Ok(denied)
}

/// The counter at the time of a request. A window that is over, or that has opened without a unit, is not kept.
fn standing(counter: Option<Standing>, quota: &Quota, key: &Key<'_>, now: Timestamp) -> Standing {
    match counter {
        None => quota.unused_at(key, now),
        Some(Standing::Window(window)) => match window.window() {
            open if open.end() > now && Standing::Window(window).used() > 0 => Standing::Window(window),
            _ => quota.unused_at(key, now),
        },
        Some(counter) => counter.later(quota, key, now),
    }
}
