//! Decodes the script's answer, without trusting the server.

mod holds;

use smallvec::SmallVec;
use tollgate::kind::{BurstStanding, LogEntries, LogStanding, SlidingStanding, SlidingState, Standing};
use tollgate::{Quota, StoreError, Timestamp, Window};

use super::hold::HoldOutcome;
use super::packed::PackedIntegers;
use super::request::{Request, Shape};
use super::step::CountChange;
use super::window_spec::{GRACE, MAY_BEGIN_LATER, MOST_MEMBERS, WindowSpec};
use crate::error::RedisError;
use crate::resp::RespValue;
use crate::time::server_time;

/// Codes that the script returns instead of a count.
const STALE: i64 = -1;
const NO_COUNT: i64 = -2;
const CLOSED: i64 = -3;
const TOO_LATE: i64 = -10;

/// The code before the count of a counter whose window has not begun.
const LATER: i64 = -4;

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScriptAnswer {
    /// The server's time at the step.
    pub(crate) now: Timestamp,
    pub(crate) outcome: ScriptOutcome,
}

/// The outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ScriptOutcome {
    /// It was executed; one for each counter.
    Taken(SmallVec<[CountChange; 1]>),
    /// Nothing was written, and it has to be sent again: the window that it names is not open.
    Stale,
    /// Nothing was written, and it has to be sent again: the slot of a hold is moving to another server. Only a Cluster
    /// has such an answer.
    Moving,
    /// The window of a refund is not the open one. Nothing was given back. The counter's state in the open window,
    /// unless that window has another key.
    Closed(Option<CountChange>),
    /// One of the keys holds something other than a count. Nothing was written.
    NoCount,
    /// The end of the request has come. Nothing was written.
    TooLate,
    /// It was a step on a hold.
    Hold(Box<HoldOutcome>),
}

/// A reply, read from the front request by request.
#[derive(Debug)]
pub(crate) struct Reply {
    now: Timestamp,
    integers: PackedIntegers,
}

/// The reply of one call.
pub(crate) fn decode(reply: RespValue) -> Result<Reply, StoreError> {
    let RespValue::Bulk(packed) = reply else { return Err(RedisError::BadReply.into()) };
    let mut integers = PackedIntegers::new(packed).ok_or(RedisError::BadReply)?;
    let now = integers.next().and_then(server_time).ok_or(RedisError::BadReply)?;
    Ok(Reply { now, integers })
}

impl Reply {
    pub(crate) const fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns whether all of it has been read.
    pub(crate) fn is_over(&self) -> bool {
        self.integers.is_over()
    }

    /// The answer to this request, which is the next.
    pub(crate) fn next(&mut self, request: &Request) -> Result<ScriptAnswer, StoreError> {
        let outcome = self.outcome(request).ok_or(RedisError::BadReply)?;
        let mut answer = ScriptAnswer { now: self.now, outcome };
        answer.step(request);
        Ok(answer)
    }

    /// `None` if the script never gives this answer to this request at this time.
    fn outcome(&mut self, request: &Request) -> Option<ScriptOutcome> {
        if let Some(hold) = &request.hold {
            return self.hold(hold, request);
        }
        if request.is_too_late_at(self.now) {
            return (self.integers.next()? == TOO_LATE).then_some(ScriptOutcome::TooLate);
        }
        let (mut fault, mut is_closed) = (None, false);
        let mut found = SmallVec::<[CountChange; 1]>::new();
        for Shape { windows, .. } in &request.shapes {
            let mut used = self.integers.next()?;
            if let (false, Ok(first)) = (windows.are_fixed(), u64::try_from(used)) {
                found.push(CountChange::of_standing(self.standing(*windows, first)?));
                continue;
            }
            if used == CLOSED && windows.are_fixed() && !windows.are_named() {
                (used, is_closed) = (self.integers.next()?, true);
            }
            let end = match windows {
                WindowSpec::FirstHit { .. } => Some(self.integers.next()?),
                WindowSpec::Grid { .. } | WindowSpec::Given { .. } if used == LATER => {
                    used = self.integers.next()?;
                    Some(self.integers.next()?)
                }
                _ => None,
            };
            if let Ok(used) = u64::try_from(used) {
                let is_possible = used <= windows.most_used() && windows.may_end(end, self.now);
                let end = match windows {
                    WindowSpec::Named { start: MAY_BEGIN_LATER, end } => Some(*end),
                    _ => end,
                };
                let (used, end) = (used.min(Quota::MAX_LIMIT), end.map(Timestamp::from_unix_millis));
                found.push(is_possible.then_some(CountChange::of_count(used, end))?);
            } else {
                // A fault applies to the whole request. Where the reply has an end, the script writes the fault twice.
                let is_same = *fault.get_or_insert(used) == used && end.is_none_or(|end| end == used);
                is_same.then_some(())?;
            }
        }
        let (is_refund, is_timely) = (request.is_refund(), request.is_timely_at(self.now));
        let is_named_refund = is_refund && request.shapes.iter().all(|shape| shape.windows.are_named());
        match fault {
            None if is_closed => (is_refund && is_timely).then(|| ScriptOutcome::Closed(found.pop())),
            None => (is_timely && request.may_give_back_at(self.now)).then_some(ScriptOutcome::Taken(found)),
            Some(_) if is_closed || !found.is_empty() => None,
            Some(NO_COUNT) => is_timely.then_some(ScriptOutcome::NoCount),
            Some(CLOSED) => (is_named_refund && !is_timely).then_some(ScriptOutcome::Closed(None)),
            // It would be sent again, so this is believed only of a window that is not open.
            Some(STALE) if !is_named_refund => {
                (!is_timely || request.is_early_at(self.now)).then_some(ScriptOutcome::Stale)
            }
            Some(_) => None,
        }
    }
}

impl Reply {
    /// A counter that counts in no fixed windows, of whose state this is the first number.
    fn standing(&mut self, windows: WindowSpec, first: u64) -> Option<Standing> {
        match windows {
            WindowSpec::Burst { bucket } => (first <= bucket.kept_level())
                .then(|| Standing::Burst(BurstStanding::with_level(bucket, first, self.now))),
            WindowSpec::Sliding { origin, length } => {
                let previous = u64::try_from(self.integers.next()?).ok()?;
                let start = self.integers.next()?;
                let now = self.now.as_unix_millis();
                let end = start.checked_add_unsigned(length)?;
                let is_possible = start.checked_sub(origin)? % length.cast_signed() == 0
                    && (start.saturating_sub(GRACE)..end).contains(&now)
                    && first.max(previous) <= SlidingStanding::max_count(length);
                let start = Timestamp::from_unix_millis(start);
                let state = SlidingState { start, current: first, previous };
                let window = Window::new(start, Timestamp::from_unix_millis(end));
                is_possible.then(|| Standing::Sliding(SlidingStanding::at(Some(state), window, self.now)))
            }
            WindowSpec::Log { .. } | WindowSpec::SortedLog { .. } => {
                let (step, length, most) = match windows {
                    WindowSpec::SortedLog { length } => (1, length, MOST_MEMBERS),
                    WindowSpec::Log { step, length } => (step, length, LogEntries::MAX_UNITS),
                    _ => return None,
                };
                let count = usize::try_from(first).ok().filter(|count| *count <= LogEntries::MAX_LEN)?;
                let mut entries = LogEntries::new();
                let (mut last, current) = (-1, self.now.as_unix_millis().div_euclid(step.cast_signed()));
                for _ in 0..count {
                    let (at, units) = (self.integers.next()?, u64::try_from(self.integers.next()?).ok()?);
                    let is_possible = (last + 1..=current).contains(&at) && (1..=most).contains(&units);
                    entries.push(is_possible.then_some(at)?, units);
                    last = at;
                }
                let (log, _) = LogStanding::at(entries, length, step, self.now);
                let is_possible = log.entries().len() == count && log.used() <= most;
                is_possible.then_some(Standing::Log(Box::new(log)))
            }
            _ => None,
        }
    }
}

impl ScriptAnswer {
    /// Returns the answer to the same request, executed right after this one.
    pub(crate) fn step_on(&mut self, request: &Request) {
        if let ScriptOutcome::Taken(found) = &mut self.outcome {
            found.iter_mut().for_each(|found| found.before = found.after);
        }
        self.step(request);
    }

    fn step(&mut self, request: &Request) {
        if let ScriptOutcome::Taken(found) = &mut self.outcome {
            request.step(found);
        }
    }
}
