//! Keeps samples within their memory, once a second.

use std::time::Duration;

use tollgate::Timestamp;

use super::memory::SampleMemory;
use super::policy_sample::{PolicySample, SPAN};

/// What is older than a day is forgotten.
const MAX_AGE: Duration = Duration::from_secs(86_400);

/// The chunks from which on room is made, and until there are no more than so many. What checks note in a second should
/// find room.
const MANY: usize = SampleMemory::MAX_CHUNKS / 8 * 7;
const ENOUGH: usize = SampleMemory::MAX_CHUNKS / 4 * 3;

/// A policy whose last hour has at most so many chunks may sample more keys.
const FEW: usize = SampleMemory::MAX_CHUNKS / 64;

/// Makes room if there is little. Requests older than an hour go first. Then the policy with the most requests samples
/// half as many keys; if it has too few keys for that, it forgets its oldest requests.
pub(crate) fn keep_bounds(memory: &SampleMemory, samples: &[&PolicySample], now: Timestamp) {
    let each = || samples.iter();
    each().for_each(|sample| sample.date_skipped(now));
    each().for_each(|sample| sample.forget_before(before(now, MAX_AGE)));
    each().for_each(|sample| sample.relax(now, FEW));
    if memory.used() <= MANY {
        return;
    }
    each().for_each(|sample| sample.forget_before(before(now, SPAN)));
    while memory.used() > ENOUGH {
        let largest = each().map(|sample| (sample.chunks(), sample)).max_by_key(|(chunks, _)| *chunks);
        // Others may still be in use by policies that have just been replaced.
        let Some((chunks @ 1.., largest)) = largest else { return };
        if !largest.thin() || largest.chunks() >= chunks {
            largest.forget((chunks / 4).max(1));
        }
    }
}

fn before(now: Timestamp, span: Duration) -> Timestamp {
    let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_unix_millis(now.as_unix_millis().saturating_sub(millis))
}
