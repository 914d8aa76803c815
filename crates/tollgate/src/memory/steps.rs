//! The steps of a store in memory: which path each one takes to its counters.

use smallvec::SmallVec;

use super::decide::Outcome;
use super::fingerprint::Fingerprint;
use super::locked::{LockedStep, Needs, NoRoom, PassedEnd};
use super::logs::{places, remove_log};
use super::stored::PlacedCounter;
use super::table::Table;
use super::time::{StepTime, Time};
use crate::charge::{Charge, CountDenied};
use crate::clock::Clock;
use crate::quota::{QuotaKind, Series};
use crate::quota_state::QuotaState;
use crate::store::{Full, QuotaStates};
use crate::timestamp::Timestamp;

/// The counters of a store, and their time.
pub(super) struct Inner<C> {
    pub(super) time: Time<C>,
    pub(super) table: Table,
}

/// A step without room wrote nothing; whether a step back of the clock has to move one of its counters.
struct RefusedStep(bool);

/// A charge after its first attempt, on the path of nearly all.
#[must_use = "a charge that is left is not made unless it is finished"]
pub(crate) enum ChargeAttempt<'a, C> {
    /// It is made. A caller that makes something of the state does it here, where the state is not copied.
    Made(QuotaState),
    /// Nothing was charged.
    Left(LeftCharge<'a, C>),
}

/// A charge that is not made yet.
pub(crate) struct LeftCharge<'a, C> {
    inner: &'a Inner<C>,
    charges: &'a [Charge<'a>],
    /// The fingerprint of the only counter, if there is only one.
    fingerprint: Fingerprint,
}

impl<C: Clock> ChargeAttempt<'_, C> {
    /// Makes the charge, unless it is made.
    #[inline(always)]
    pub(crate) fn finish(self) -> Result<QuotaStates, Full> {
        match self {
            Self::Made(state) => Ok(QuotaStates::one(state)),
            Self::Left(left) => left.finish(),
        }
    }

    /// As [`finish`](Self::finish), for a step that has ended the holds that are due, and may have locked live units.
    #[inline(always)]
    pub(super) fn finish_in_step(self) -> Result<QuotaStates, Full> {
        match self {
            Self::Made(state) => Ok(QuotaStates::one(state)),
            Self::Left(left) => left.finish_in_step(),
        }
    }
}

impl<C: Clock> LeftCharge<'_, C> {
    /// Charges all or nothing, wherever the counters are: without a lock if that is enough, otherwise under the locks of
    /// their shards.
    #[inline(always)]
    pub(crate) fn finish(self) -> Result<QuotaStates, Full> {
        self.inner.charge_far(self.charges, self.fingerprint)
    }

    /// As [`finish`](Self::finish), for a step that has ended the holds that are due, and may have locked live units.
    fn finish_in_step(self) -> Result<QuotaStates, Full> {
        self.inner.charge_elsewhere(self.charges, self.fingerprint)
    }
}

impl<C: Clock> Inner<C> {
    /// Charges all or nothing. Every charge comes through here. `first` is the fingerprint of the first counter.
    #[inline(always)]
    pub(super) fn charge<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        first: Fingerprint,
    ) -> ChargeAttempt<'a, C> {
        if let [charge] = charges
            && let Some(state) = self.table.charge_near(charge, first, &self.time)
        {
            return ChargeAttempt::Made(state);
        }
        ChargeAttempt::Left(LeftCharge { inner: self, charges, fingerprint: first })
    }

    #[cold]
    #[inline(never)]
    fn charge_far(&self, charges: &[Charge<'_>], fingerprint: Fingerprint) -> Result<QuotaStates, Full> {
        self.with_room(|| self.charge_elsewhere(charges, fingerprint))
    }

    /// Takes a step. If it has no room, it ends the holds that are due, and takes the step again if any have ended since it
    /// began: another step may be the one that ends them.
    pub(super) fn with_room<A>(&self, mut take: impl FnMut() -> Result<A, Full>) -> Result<A, Full> {
        let before = self.table.hold_ids.ended();
        take().or_else(|Full| {
            self.end_due_holds();
            if self.table.hold_ids.ended() == before { Err(Full) } else { take() }
        })
    }

    fn charge_elsewhere(
        &self,
        charges: &[Charge<'_>],
        fingerprint: Fingerprint,
    ) -> Result<QuotaStates, Full> {
        if let [charge] = charges {
            if charge.counter().quota().quota().kind() == QuotaKind::Log {
                return match self.charge_log(charge, fingerprint) {
                    Some(state) => Ok(QuotaStates::one(state)),
                    None => self.charge_locked(charges, &[fingerprint], 0),
                };
            }
            return match self.table.charge_found(charge, fingerprint, &self.time) {
                Some(state) => Ok(QuotaStates::one(state)),
                None => self.charge_locked(charges, &[fingerprint], 0),
            };
        }
        let fingerprints = self.fingerprints(charges);
        if charges.iter().any(|charge| charge.counter().quota().quota().kind() == QuotaKind::Log) {
            return self.charge_locked(charges, &fingerprints, 0);
        }
        self.table.prefetch(&fingerprints);
        match self.table.charge_together(charges, &fingerprints, &self.time) {
            Some(counted) => Ok(counted),
            None => self.charge_locked(charges, &fingerprints, 0),
        }
    }

    /// Charges a log that exists, if it needs no place of the cap that cannot be had. A denial writes nothing that counts.
    fn charge_log(&self, charge: &Charge<'_>, fingerprint: Fingerprint) -> Option<QuotaState> {
        let Series::Log { window, step } = *charge.counter().quota().quota().series() else { return None };
        let mut logs = self.table.logs.lock(fingerprint);
        let log = logs.get_mut(&fingerprint)?;
        let before = log.entries.len();
        // Read under the lock, so that the readings of all steps on a log are in the order of the steps.
        let now = self.time.precise();
        let placed = PlacedCounter::in_log(std::mem::take(&mut log.entries), window, step, now);
        let outcome = Outcome::of(charge, charge.cost().into(), placed, now);
        let units = outcome.units(charge, outcome.has_room());
        // A cost of 0 gets the answer of 1.
        let may_grow = units > 0 || outcome.has_room();
        let another = if may_grow { places(outcome.standing().entries_with_another()) } else { 0 };
        let more = another.saturating_sub(places(before));
        let taken = if units > 0 { more } else { 0 };
        let has_place = self.table.take_counters(more, taken);
        let (units, taken) = if has_place { (units, taken) } else { (0, 0) };
        let (state, after) = outcome.answered(charge, units);
        log.end = after.reset_at();
        log.entries = after.into_entries();
        let taken = places(before) + taken;
        if log.entries.is_empty() {
            remove_log(&mut logs, fingerprint);
            self.table.forget_log(fingerprint, taken);
        } else {
            self.table.give_back_counters(taken.saturating_sub(places(log.entries.len())));
        }
        has_place.then_some(state)
    }

    /// Charges all or nothing, and takes so many further places of the cap if it is admitted.
    pub(super) fn charge_with_places(
        &self,
        charges: &[Charge<'_>],
        further: usize,
    ) -> Result<QuotaStates, Full> {
        self.charge_locked(charges, &self.fingerprints(charges), further)
    }

    /// As [`charge_with_places`](Self::charge_with_places), before an end if there is one.
    pub(super) fn charge_before(
        &self,
        charges: &[Charge<'_>],
        further: usize,
        end: Option<Timestamp>,
    ) -> Result<Result<QuotaStates, PassedEnd>, Full> {
        let charge = |step: &mut LockedStep<'_>| step.before_end(|step| step.charge(further));
        let charge_or_deny =
            |step: &mut LockedStep<'_>| step.before_end(|step| step.charge(further).or_else(|_| step.deny()));
        let time = StepTime::of_charge(end);
        self.charge_locked_as(charges, &self.fingerprints(charges), time, charge, charge_or_deny)
    }

    /// Denies charges because something else of their step had no room, and charges what a denial charges.
    pub(super) fn deny(&self, charges: &[Charge<'_>]) -> QuotaStates {
        let denied = self.locked(charges, Needs::Room, |step| step.deny_anyway());
        denied.unwrap_or_else(|Full| self.lock(charges).deny_without_room())
    }

    /// As [`deny`](Self::deny), before an end if there is one.
    pub(super) fn deny_before(
        &self,
        charges: &[Charge<'_>],
        end: Option<Timestamp>,
    ) -> Result<QuotaStates, PassedEnd> {
        let time = StepTime::of_charge(end);
        let denied = self.locked_before(charges, time, |step| step.deny_anyway());
        denied
            .unwrap_or_else(|Full| self.lock_by(charges, time).unless_ended(|step| step.deny_without_room()))
    }

    fn charge_locked(
        &self,
        charges: &[Charge<'_>],
        fingerprints: &[Fingerprint],
        further: usize,
    ) -> Result<QuotaStates, Full> {
        let charge = |step: &mut LockedStep<'_>| step.charge(further);
        let charge_or_deny = |step: &mut LockedStep<'_>| step.charge(further).or_else(|_| step.deny());
        self.charge_locked_as(charges, fingerprints, StepTime::Cheapest, charge, charge_or_deny)
    }

    /// Charges under locks, or denies without room for what a denial would charge.
    fn charge_locked_as<A>(
        &self,
        charges: &[Charge<'_>],
        fingerprints: &[Fingerprint],
        time: StepTime,
        charge: impl FnMut(&mut LockedStep<'_>) -> Result<A, NoRoom>,
        charge_or_deny: impl FnMut(&mut LockedStep<'_>) -> Result<A, NoRoom>,
    ) -> Result<A, Full> {
        let counts_denials = |charge: &Charge<'_>| charge.counter().quota().count_denied() != CountDenied::No;
        match self.try_locked(charges, fingerprints, Needs::Room, time, charge) {
            Ok(counted) => Ok(counted),
            // A denial stands, even without room for what it would charge: an overdraft, or another entry of a log. The
            // first step wrote nothing, so the decision is that of one reading of the clock.
            Err(_) if charges.iter().any(counts_denials) => {
                self.locked_by(charges, fingerprints, Needs::Room, time, charge_or_deny)
            }
            Err(unmoved) => Err(self.refuse(charges, unmoved)),
        }
    }

    /// Takes a step under locks.
    pub(super) fn locked<A>(
        &self,
        charges: &[Charge<'_>],
        needs: Needs,
        take: impl FnMut(&mut LockedStep<'_>) -> Result<A, NoRoom>,
    ) -> Result<A, Full> {
        self.locked_by(charges, &self.fingerprints(charges), needs, StepTime::Cheapest, take)
    }

    /// Peeks under locks, as a charge that takes so many further places.
    pub(super) fn peek(&self, charges: &[Charge<'_>], further: usize) -> Result<QuotaStates, Full> {
        let peek = |step: &mut LockedStep<'_>| step.peek(further);
        self.locked_by(charges, &self.fingerprints(charges), Needs::Room, StepTime::Precise, peek)
    }

    /// As [`locked`](Self::locked), by this time, which may have an end.
    pub(super) fn locked_before<A>(
        &self,
        charges: &[Charge<'_>],
        time: StepTime,
        mut take: impl FnMut(&mut LockedStep<'_>) -> Result<A, NoRoom>,
    ) -> Result<Result<A, PassedEnd>, Full> {
        let take = |step: &mut LockedStep<'_>| step.before_end(&mut take);
        self.locked_by(charges, &self.fingerprints(charges), Needs::Room, time, take)
    }

    /// Takes a step under locks, as [`try_locked`](Self::try_locked), and refuses it if there is no room.
    fn locked_by<A>(
        &self,
        charges: &[Charge<'_>],
        fingerprints: &[Fingerprint],
        needs: Needs,
        time: StepTime,
        take: impl FnMut(&mut LockedStep<'_>) -> Result<A, NoRoom>,
    ) -> Result<A, Full> {
        self.try_locked(charges, fingerprints, needs, time, take)
            .map_err(|refused| self.refuse(charges, refused))
    }

    /// Takes a step under locks, and repeats it while it has no room but other shards do. Without room, it writes
    /// nothing.
    #[cold]
    #[inline(never)]
    fn try_locked<A>(
        &self,
        charges: &[Charge<'_>],
        fingerprints: &[Fingerprint],
        needs: Needs,
        time: StepTime,
        mut take: impl FnMut(&mut LockedStep<'_>) -> Result<A, NoRoom>,
    ) -> Result<A, RefusedStep> {
        loop {
            let before = self.table.counters();
            let mut step = LockedStep::new(&self.table, &self.time, charges, fingerprints, needs, time);
            let no_room = match take(&mut step) {
                Ok(answer) => return Ok(answer),
                Err(no_room) => no_room,
            };
            let held = self.table.counters().max(before);
            // Its locks are released before others are taken, so that steps cannot deadlock.
            let has_to_move = step.give_up();
            match no_room {
                NoRoom::UnderCap if self.table.make_room_anywhere(self.time.coarse()) => {}
                // Another thread has dropped them.
                NoRoom::UnderCap if self.table.counters() < held => {}
                NoRoom::UnderCap | NoRoom::InShard => return Err(RefusedStep(has_to_move)),
            }
        }
    }

    /// Refuses a step for lack of room. Its counters are moved back all the same (rule 12).
    fn refuse(&self, charges: &[Charge<'_>], RefusedStep(has_to_move): RefusedStep) -> Full {
        if has_to_move {
            drop(self.lock(charges));
        }
        Full
    }

    /// A step that needs no room.
    pub(super) fn lock<'a>(&'a self, charges: &'a [Charge<'a>]) -> LockedStep<'a> {
        self.lock_by(charges, StepTime::Cheapest)
    }

    /// As [`lock`](Self::lock), by this time, which may have an end.
    pub(super) fn lock_by<'a>(&'a self, charges: &'a [Charge<'a>], time: StepTime) -> LockedStep<'a> {
        let fingerprints = self.fingerprints(charges);
        LockedStep::new(&self.table, &self.time, charges, &fingerprints, Needs::Nothing, time)
    }

    fn fingerprints(&self, charges: &[Charge<'_>]) -> SmallVec<[Fingerprint; 2]> {
        charges.iter().map(|charge| self.table.fingerprint(&charge.counter())).collect()
    }
}
