//! The time of a store: which of the clock's two readings a step uses.
//!
//! The coarse reading lags, usually by a tick, and by more if the machine was busy. A step decides by one reading,
//! which it takes last, when no other thread can change its counters unnoticed. It uses the coarse one unless the lag
//! could matter, and the precise one
//!
//! - for logs, for windows shorter than 250 ticks, and for buckets whose units are back sooner than every 12 ticks;
//! - in the last 12 ticks of a window, which may be over, with or without a counter;
//! - if a window starts now or later by the coarse reading: a precise one opened it, or its first unit starts it;
//! - for a denial by a bucket or a sliding window, whose usage falls all the time;
//! - for a step that has to come before an end;
//! - for a peek, which then never shows less than is free after an earlier step.
//!
//! Room is made by the coarse reading alone, whatever decides. So no step drops a counter that another one still
//! counts.

use super::decide::Outcome;
use super::stored::{Course, SlotStanding};
use super::word::clamp;
use crate::kind::Bucket;
use crate::{Charge, Clock, Quota, QuotaKind, Timestamp, Window};

/// The shortest window that the coarse clock serves, in ticks: one second where a tick is 4 ms.
const SHORTEST: u64 = 250;

/// The lag of a coarse reading, in ticks, up to which no unit is counted in a window that is over.
const DOUBTED: u64 = 12;

/// Which of its two readings a clock gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    Coarse,
    Precise,
}

/// By which reading of the clock a step is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepTime {
    /// By the coarse one, unless its lag could matter.
    Cheapest,
    /// By the precise one: by an earlier one, a peek would show units that were back when the last step was taken.
    Precise,
    /// By the precise one, if it is before this end. The coarse one lags, so a step could come too late by it.
    Before(Timestamp),
}

impl StepTime {
    /// The time of a charge, with its end if there is one.
    pub(super) fn of_charge(end: Option<Timestamp>) -> Self {
        end.map_or(Self::Cheapest, Self::Before)
    }

    /// The time of a peek, with its end if there is one.
    pub(super) fn of_peek(end: Option<Timestamp>) -> Self {
        end.map_or(Self::Precise, Self::Before)
    }
}

pub(super) struct Time<C> {
    clock: C,
    /// The shortest window that coarse readings serve, in milliseconds.
    shortest: u64,
    /// How long before a window's end the coarse reading is not used, in milliseconds.
    doubted: u64,
}

impl<C: Clock> Time<C> {
    pub(super) fn new(clock: C) -> Self {
        let tick = u64::try_from(clock.coarse_resolution().as_micros().div_ceil(1_000)).unwrap_or(u64::MAX);
        let (shortest, doubted) = (tick.saturating_mul(SHORTEST), tick.saturating_mul(DOUBTED));
        Self { clock, shortest, doubted }
    }

    pub(super) fn precise(&self) -> Timestamp {
        clamp(self.clock.now())
    }

    #[inline(always)]
    pub(super) fn read(&self, reading: Reading) -> Timestamp {
        match reading {
            Reading::Coarse => self.coarse(),
            Reading::Precise => self.precise(),
        }
    }

    /// The reading by which holds live.
    pub(super) fn steady(&self) -> Timestamp {
        self.clock.steady_now()
    }

    /// The reading by which room is made.
    pub(super) fn coarse(&self) -> Timestamp {
        clamp(self.clock.coarse_now())
    }

    /// Decides on one charge by one reading.
    pub(super) fn decide_one(&self, charge: &Charge<'_>, decide: impl Fn(Timestamp) -> Outcome) -> Outcome {
        self.decide(self.serves(charge.counter().quota().quota()), decide)
    }

    /// Decides on all these charges by one reading.
    pub(super) fn decide_all<T: AsRef<[Outcome]>>(
        &self,
        charges: &[Charge<'_>],
        decide: impl Fn(Timestamp) -> T,
    ) -> T {
        let serves = charges.iter().all(|charge| self.serves(charge.counter().quota().quota()));
        self.decide(serves, decide)
    }

    /// Decides by one reading, and by the coarse one only if it serves.
    fn decide<T: AsRef<[Outcome]>>(&self, serves: bool, decide: impl Fn(Timestamp) -> T) -> T {
        if serves {
            let outcomes = decide(self.coarse());
            if !outcomes.as_ref().iter().any(|outcome| self.doubts(outcome)) {
                return outcomes;
            }
        }
        decide(self.precise())
    }

    /// Returns whether the coarse reading may serve this quota. Days and longer units of a calendar have no fixed length,
    /// and are long enough for any clock.
    fn serves(&self, quota: &Quota) -> bool {
        match (quota.bucket(), quota.fixed_millis()) {
            _ if quota.kind() == QuotaKind::Log => false,
            (Some(bucket), _) => self.serves_bucket(bucket),
            (None, Some(length)) => self.is_coarse_enough(length),
            (None, None) => true,
        }
    }

    /// Returns whether the coarse reading serves a bucket: no more than one unit is back in the time that it may lag.
    #[inline(always)]
    pub(super) fn serves_bucket(&self, bucket: Bucket) -> bool {
        bucket.unit() >= self.doubted.saturating_mul(bucket.parts())
    }

    /// Returns whether the coarse reading serves windows of this length, in milliseconds.
    #[inline(always)]
    pub(super) fn is_coarse_enough(&self, length: u64) -> bool {
        length >= self.shortest
    }

    /// Returns whether a precise reading might decide differently.
    #[inline(always)]
    pub(super) fn doubts<S: SlotStanding>(&self, outcome: &Outcome<S>) -> bool {
        let Outcome { now, placement, .. } = outcome;
        let is_near_boundary =
            |window: Window| window.start() >= *now || window.end().millis_since(*now) < self.doubted;
        // Of all kinds but windows, usage falls all the time.
        let falls = placement.standing.kind() != QuotaKind::Window;
        let may_differ =
            falls && !outcome.has_room() || placement.standing.window().is_some_and(is_near_boundary);
        self.doubted > 0 && (may_differ || placement.course == Course::MovedBack)
    }
}
