//! Decodes the answers to steps on holds, without trusting the server.

use std::mem;

use smallvec::{SmallVec, smallvec};
use tollgate::kind::Bucket;
use tollgate::{InFlight, Timestamp};

use super::{Reply, ScriptOutcome, TOO_LATE};
use crate::script::hold::{
    AdjustedCounter, FlightCount, FlightShape, HoldOperation, HoldOutcome, HoldSettlement, HoldShape,
    HoldVerdict, SettledCounters,
};
use crate::script::request::{Request, Shape};
use crate::script::step::{CountChange, CounterStep};
use crate::script::window_spec::WindowSpec;
use crate::time::server_time;

/// Codes of the script.
const DECIDED: i64 = 1;
const RENEWED: i64 = 2;
const SETTLED: i64 = 3;
const FORGOTTEN: i64 = 4;
const STALE: i64 = -1;
const NO_COUNT: i64 = -2;
const LOST: i64 = -5;
const EXPIRED: i64 = -6;
const ENDED: i64 = -7;
const CONFLICT: i64 = -8;
const MOVING: i64 = -9;

impl Reply {
    /// `None` if the script never gives this answer to this step.
    pub(super) fn hold(&mut self, hold: &HoldShape, request: &Request) -> Option<ScriptOutcome> {
        let (operation, code) = (&hold.operation, self.integers.next()?);
        let is_reserve = *operation == HoldOperation::Reserve;
        let is_known = is_reserve || *operation == HoldOperation::Renew || operation.settled().is_some();
        // Only a repeated step is answered from what is remembered.
        let is_too_late = is_reserve && request.is_too_late_at(self.now());
        let outcome = match code {
            TOO_LATE => return is_too_late.then_some(ScriptOutcome::TooLate),
            DECIDED if is_reserve || *operation == HoldOperation::Look => {
                HoldOutcome::Decided(self.verdict(hold, request)?)
            }
            RENEWED if *operation == HoldOperation::Renew => HoldOutcome::Renewed,
            LOST if *operation == HoldOperation::Renew && !hold.in_flight.is_empty() => HoldOutcome::Lost,
            SETTLED => HoldOutcome::Settled(self.settlement(operation.settled()?, request)?),
            FORGOTTEN if *operation == HoldOperation::Reset => {
                HoldOutcome::Forgotten(u32::try_from(self.integers.next()?).ok()?)
            }
            EXPIRED if is_known && !is_reserve => HoldOutcome::Expired,
            ENDED if is_reserve || *operation == HoldOperation::Renew => HoldOutcome::Ended,
            CONFLICT if is_known => HoldOutcome::Conflict,
            STALE if !is_too_late => return self.is_stale(request).then_some(ScriptOutcome::Stale),
            MOVING if *operation != HoldOperation::Reset => return Some(ScriptOutcome::Moving),
            NO_COUNT if *operation != HoldOperation::Reset => return Some(ScriptOutcome::NoCount),
            _ => return None,
        };
        Some(ScriptOutcome::Hold(Box::new(outcome)))
    }

    /// It would be sent again, so this is believed only of a window that is not open.
    fn is_stale(&self, request: &Request) -> bool {
        !request.is_timely_at(self.now()) || request.is_early_at(self.now())
    }

    fn verdict(&mut self, hold: &HoldShape, request: &Request) -> Option<HoldVerdict> {
        let (is_repeated, is_admitted) = (self.flag()?, self.flag()?);
        let mut swept = SmallVec::<[u32; 1]>::new();
        for flight in &hold.in_flight {
            let most = if hold.is_look() { 0 } else { flight.most_swept() };
            let units = if is_repeated { 0 } else { u32::try_from(self.integers.next()?).ok()? };
            swept.push((units <= most).then_some(units)?);
        }
        let then = self.then(is_repeated)?;
        let mut in_flight = SmallVec::<[FlightCount; 1]>::new();
        let mut has_room = true;
        for (flight, expired) in hold.in_flight.iter().zip(swept) {
            let limit = u32::try_from(self.integers.next()?).ok()?;
            let live = u32::try_from(self.integers.next()?).ok()?;
            let is_possible = live <= InFlight::MAX_LIMIT && (is_repeated || limit == flight.limit);
            has_room &= FlightShape { limit, ..*flight }.has_room(live);
            let limit = InFlight::new(limit).ok()?;
            in_flight.push(is_possible.then_some(FlightCount { limit, live, expired })?);
        }
        let mut shapes = request.shapes.clone();
        for Shape { step, windows } in &mut shapes {
            *windows = self.windows(*windows, is_repeated)?;
            *step = match *step {
                CounterStep::Charge { units, .. } if is_repeated => CounterStep::Record { units },
                _ if hold.is_look() => CounterStep::Look,
                CounterStep::Charge { units, denials, .. } if !has_room => {
                    CounterStep::Deny { units, denials }
                }
                step => step,
            };
        }
        let fits = |found: &[CountChange]| {
            request.shapes.iter().zip(found).all(|(shape, found)| shape.step.fits(found.before))
        };
        let mut found = SmallVec::new();
        if !shapes.is_empty() {
            let decided = Request { shapes, ..Request::default() };
            match self.at(then, |reply| reply.outcome(&decided))? {
                ScriptOutcome::Taken(counters) => found = counters,
                _ => return None,
            }
            decided.step(&mut found);
        }
        let is_possible = if is_repeated {
            is_admitted && has_room && hold.operation == HoldOperation::Reserve
        } else {
            !request.is_too_late_at(self.now())
                && is_admitted == (!hold.is_look() && has_room && fits(&found))
        };
        is_possible.then_some(HoldVerdict { then, is_repeated, is_admitted, in_flight, found })
    }

    fn settlement(&mut self, settled: &SettledCounters, request: &Request) -> Option<HoldSettlement> {
        let is_repeated = self.flag()?;
        let then = self.then(is_repeated)?;
        let count = usize::try_from(self.integers.next()?).ok()?;
        if count != settled.adjusted.len() {
            return None;
        }
        let (mut counters, mut least) = (Vec::with_capacity(count), 0);
        for index in 0..count {
            let place = usize::try_from(self.integers.next()?).ok().filter(|place| *place >= least)?;
            least = place + 1;
            let windows = *settled.windows.get(place)?;
            let (is_charge, units) = (self.flag()?, u32::try_from(self.integers.next()?).ok()?);
            let mark = self.integers.next()?;
            let step = if is_charge {
                CounterStep::Record { units: units.into() }
            } else {
                CounterStep::Refund { units: units.into(), start: mark }
            };
            let asked = (settled.adjusted.get(index)?, request.shapes.get(index)?.step);
            let is_possible = match asked {
                (adjusted, _) if adjusted.place != place => false,
                (adjusted, CounterStep::Record { units: most }) if adjusted.limit.is_some() => {
                    is_charge && u64::from(units) <= most
                }
                (_, asked) => step == asked,
            };
            is_possible.then_some(())?;
            let windows = self.windows(windows, is_repeated)?;
            let adjusted = Request { shapes: smallvec![Shape { step, windows }], ..Request::default() };
            let (mut change, is_closed) = match self.at(then, |reply| reply.outcome(&adjusted))? {
                ScriptOutcome::Taken(found) => (found, false),
                ScriptOutcome::Closed(Some(found)) => (smallvec![found], true),
                _ => return None,
            };
            if !is_closed {
                adjusted.step(&mut change);
            }
            counters.push(AdjustedCounter { place, step, change: change.pop()?, is_closed });
        }
        Some(HoldSettlement { then, is_repeated, counters })
    }

    /// The windows of a counter. Of those that a step names, the reply has the bounds, and of a bucket its numbers: a
    /// repeated answer may be of earlier ones.
    fn windows(&mut self, asked: WindowSpec, is_repeated: bool) -> Option<WindowSpec> {
        match asked {
            WindowSpec::Given { .. } => {
                let (start, end) = (self.integers.next()?, self.integers.next()?);
                let windows = WindowSpec::Given { start, end };
                (windows == asked || is_repeated && start < end).then_some(windows)
            }
            WindowSpec::Burst { bucket } => {
                let mut numbers = [0; 4];
                for number in &mut numbers {
                    *number = u64::try_from(self.integers.next()?).ok()?;
                }
                let own = [bucket.unit(), bucket.parts(), bucket.highest_level(), bucket.kept_level()];
                if numbers == own {
                    return Some(asked);
                }
                let bucket = if is_repeated { Bucket::with_numbers(numbers) } else { None };
                bucket.map(|bucket| WindowSpec::Burst { bucket })
            }
            _ => Some(asked),
        }
    }

    /// The time of the step that is answered.
    fn then(&mut self, is_repeated: bool) -> Option<Timestamp> {
        let then = server_time(self.integers.next()?)?;
        (is_repeated || then == self.now()).then_some(then)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.integers.next()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// Reads a part of the reply that was written at this time.
    fn at<T>(&mut self, then: Timestamp, read: impl FnOnce(&mut Self) -> T) -> T {
        let now = mem::replace(&mut self.now, then);
        let value = read(self);
        self.now = now;
        value
    }
}
