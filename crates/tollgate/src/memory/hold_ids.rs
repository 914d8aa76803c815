//! The ids of holds: what each is bound to, when it ends, and the answer that a repeated call gets.
//!
//! They are in one map under one lock, with a queue of their ends, and count against the cap of the table. Whoever has
//! locked the map may lock live units and then the table, and nobody locks it after those.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU64;
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::Duration;

use smallvec::SmallVec;

use super::fingerprint::shrink;
use super::live::LivePart;
use super::sync::{AtomicUsize, Mutex, MutexGuard, Ordering};
use crate::Timestamp;
use crate::hold::{HoldId, HoldLength, HoldStates, HoldTerms, SettledStates};
use crate::in_flight::PolicyInFlight;

/// How long the id of a settled hold is remembered, unless its length is shorter.
const REMEMBERED: Duration = Duration::from_secs(10);

/// Expired units of so many policies wait to be reported, or of fewer. It bounds the memory: the names of policies may come
/// and go.
const MOST_REPORTED: usize = 4_096;

/// The ids of a store.
#[derive(Default)]
pub(super) struct HoldIds {
    map: Mutex<IdMap>,
    /// How many there are. A step without an id reads only this.
    count: AtomicUsize,
    /// How many holds have expired before they were settled.
    expired: AtomicUsize,
    /// How many ids were due, and have given their places back.
    ended: AtomicUsize,
}

/// The ids, locked.
pub(super) struct IdGuard<'a> {
    map: MutexGuard<'a, IdMap>,
    count: &'a AtomicUsize,
}

/// The ids under the lock.
#[derive(Default)]
pub(super) struct IdMap {
    holds: HashMap<HoldId, Box<StoredHold>>,
    /// The ends of all of them.
    ends: BTreeSet<(Timestamp, HoldId)>,
    /// By policy, units in flight that have expired, and that no answer has reported yet.
    expired_units: BTreeMap<PolicyDigest, u32>,
    /// The reading of this step.
    now: Timestamp,
}

/// A digest of the name of a policy that has a limit in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PolicyDigest(NonZeroU64);

/// Units in flight of a hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct HoldUnits {
    pub(super) part: LivePart,
    /// None if nobody is told when they expire.
    pub(super) policy: Option<PolicyDigest>,
}

/// What is remembered for an id.
pub(super) struct StoredHold {
    /// The digest of what it is bound to.
    pub(super) binding: u128,
    pub(super) phase: HoldPhase,
    /// How many places of the cap it takes.
    pub(super) places: usize,
    length: HoldLength,
    end: Timestamp,
}

/// What has become of a hold.
pub(super) enum HoldPhase {
    Live {
        /// Its units in flight.
        units: SmallVec<[HoldUnits; 1]>,
        /// The answer to its reservation.
        admitted: HoldStates,
    },
    Settled {
        /// The digest of its adjustments.
        adjustments: u128,
        /// The answer to the call that settled it.
        answer: SettledStates,
    },
}

/// Returns how many places of the cap an id with these terms takes: twelve, and five for each part beyond the first.
///
/// A place is 31 bytes. An id takes 192 bytes, up to 115 of the map, which keeps the memory of four times as many as it
/// has, and some 50 of the queue.
pub(super) fn places(terms: &HoldTerms<'_>) -> usize {
    let parts = terms.in_flight().len() + terms.charges().len();
    12 + 5 * parts.saturating_sub(1)
}

impl PolicyDigest {
    /// None for a limit whose expired units are not reported.
    #[expect(clippy::cast_possible_truncation, reason = "every half of a digest is one")]
    pub(super) fn of(in_flight: &PolicyInFlight) -> Option<Self> {
        let digest = NonZeroU64::new(in_flight.scope_digest() as u64).unwrap_or(NonZeroU64::MIN);
        in_flight.reports_expired_units().then_some(Self(digest))
    }
}

impl HoldIds {
    /// Returns whether there are any. If another thread has just added the first one, the answer may be that of before.
    #[inline]
    pub(super) fn any(&self) -> bool {
        // The map itself is read under its lock. Acquire: a thread that finds no ids also sees those counted as ended.
        self.count.load(Ordering::Acquire) > 0
    }

    /// Returns how many there are.
    pub(super) fn count(&self) -> usize {
        // Relaxed, here and below: figures of their own that guard no other memory.
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn expired(&self) -> usize {
        self.expired.load(Ordering::Relaxed)
    }

    /// Counts a hold that has expired before it was settled.
    pub(super) fn note_expired(&self) {
        self.expired.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many ids were due, and have given their places back. It wraps around.
    pub(super) fn ended(&self) -> usize {
        // Acquire: a thread that sees an id counted also sees the places that it gave back.
        self.ended.load(Ordering::Acquire)
    }

    /// Counts an id that was due, after it has given its places back.
    pub(super) fn note_ended(&self) {
        self.ended.fetch_add(1, Ordering::Release);
    }

    /// A panic under the lock, in an allocation for example, leaves the map intact.
    pub(super) fn lock(&self) -> IdGuard<'_> {
        IdGuard { map: self.map.lock().unwrap_or_else(PoisonError::into_inner), count: &self.count }
    }
}

impl IdMap {
    /// Begins a step at this time. If the clock has stepped back, no hold is left longer than its length.
    pub(super) fn begin(&mut self, now: Timestamp) {
        if now < self.now {
            for (id, hold) in &mut self.holds {
                let latest = now + hold.length.duration();
                if hold.end > latest {
                    move_end(&mut self.ends, *id, hold, latest);
                }
            }
        }
        self.now = now;
    }

    /// Removes a hold that has lived its length, or a settled id that was remembered long enough.
    pub(super) fn take_due(&mut self) -> Option<StoredHold> {
        let (end, id) = *self.ends.first()?;
        if end > self.now {
            return None;
        }
        self.ends.remove(&(end, id));
        let hold = self.holds.remove(&id);
        shrink(&mut self.holds);
        hold.map(|hold| *hold)
    }

    /// Adds expired units to those that an answer will report.
    pub(super) fn add_expired_units(&mut self, HoldUnits { part, policy }: HoldUnits) {
        let Some(policy) = policy else { return };
        let units = self.expired_units.entry(policy).or_default();
        *units = units.saturating_add(part.units());
        if self.expired_units.len() > MOST_REPORTED {
            self.expired_units.pop_first();
        }
    }

    /// Returns how many units of a policy have expired since an answer has last reported some. This answer does.
    pub(super) fn take_expired_units(&mut self, policy: Option<PolicyDigest>) -> u32 {
        policy.and_then(|policy| self.expired_units.remove(&policy)).unwrap_or(0)
    }

    pub(super) fn get(&self, id: HoldId) -> Option<&StoredHold> {
        self.holds.get(&id).map(|hold| &**hold)
    }

    /// Remembers a hold that begins to live.
    pub(super) fn insert(&mut self, terms: &HoldTerms<'_>, binding: u128, places: usize, phase: HoldPhase) {
        let (id, length) = (terms.id(), terms.length());
        let end = self.now + length.duration();
        self.ends.insert((end, id));
        self.holds.insert(id, Box::new(StoredHold { binding, phase, places, length, end }));
    }

    /// Starts the length of a hold again.
    pub(super) fn renew(&mut self, id: HoldId, length: HoldLength) {
        let Some(hold) = self.holds.get_mut(&id) else { return };
        hold.length = length;
        move_end(&mut self.ends, id, hold, self.now + length.duration());
    }

    /// Remembers the answer that settled a hold, and the digest of its adjustments.
    pub(super) fn settle(&mut self, id: HoldId, adjustments: u128, answer: SettledStates) {
        let Some(hold) = self.holds.get_mut(&id) else { return };
        hold.phase = HoldPhase::Settled { adjustments, answer };
        let remembered = hold.length.duration().min(REMEMBERED);
        move_end(&mut self.ends, id, hold, self.now + remembered);
    }
}

fn move_end(ends: &mut BTreeSet<(Timestamp, HoldId)>, id: HoldId, hold: &mut StoredHold, end: Timestamp) {
    ends.remove(&(hold.end, id));
    ends.insert((end, id));
    hold.end = end;
}

impl Deref for IdGuard<'_> {
    type Target = IdMap;

    fn deref(&self) -> &IdMap {
        &self.map
    }
}

impl DerefMut for IdGuard<'_> {
    fn deref_mut(&mut self) -> &mut IdMap {
        &mut self.map
    }
}

impl Drop for IdGuard<'_> {
    fn drop(&mut self) {
        self.count.store(self.map.holds.len(), Ordering::Release);
    }
}
