//! Decodes the script's answer, without trusting the server.

use smallvec::SmallVec;
use tollgate::{Quota, StoreError, Timestamp};

use super::packed::Packed;
use super::{Request, Windows};
use crate::RedisError;
use crate::resp::Value;

/// Codes that the script returns instead of a count.
const STALE: i64 = -1;
const NO_COUNT: i64 = -2;
const CLOSED: i64 = -3;

/// The code before the count of a counter whose window has not begun.
const LATER: i64 = -4;

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The server's time at the step.
    pub(crate) now: Timestamp,
    pub(crate) outcome: Outcome,
}

/// The outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was executed; one for each counter.
    Taken(SmallVec<[Found; 1]>),
    /// The window it names is not open. Nothing was written.
    Stale,
    /// The window of a refund is not the open one. Nothing was given back. The counter's state in the open window,
    /// unless that window has another key.
    Closed(Option<Found>),
    /// One of the keys holds something other than a count. Nothing was written.
    NoCount,
}

/// A counter before and after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) before: u64,
    pub(crate) after: u64,
    /// Units in `before` that the same step charged to other counters with the same key.
    pub(crate) others: u64,
    /// The end of the window, if it is not the quota's current one: that of a `first_hit` counter or, after a step back
    /// of the server's clock, one that has not begun.
    pub(crate) end: Option<Timestamp>,
}

/// A reply, read from the front request by request.
#[derive(Debug)]
pub(crate) struct Reply {
    now: Timestamp,
    integers: Packed,
}

/// The reply of one call.
pub(crate) fn decode(reply: Value) -> Result<Reply, StoreError> {
    let Value::Bulk(packed) = reply else { return Err(RedisError::BadReply.into()) };
    let integers = Packed::new(packed).ok_or(RedisError::BadReply)?;
    let mut reply = Reply { now: Timestamp::EPOCH, integers };
    reply.now = Timestamp::from_unix_millis(reply.integer()?);
    Ok(reply)
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
    pub(crate) fn next(&mut self, request: &Request) -> Result<Answer, StoreError> {
        let (mut fault, mut is_closed) = (None, false);
        let mut found = SmallVec::<[Found; 1]>::new();
        for shape in &request.shapes {
            let mut used = self.integer()?;
            if used == CLOSED && !matches!(shape.windows, Windows::Named { .. } | Windows::Ahead { .. }) {
                (used, is_closed) = (self.integer()?, true);
            }
            let mut says_end = matches!(shape.windows, Windows::FirstHit { .. });
            if used == LATER && !says_end {
                (used, says_end) = (self.integer()?, true);
            }
            let end = match shape.windows {
                _ if says_end => Some(Timestamp::from_unix_millis(self.integer()?)),
                Windows::Ahead { end } => Some(Timestamp::from_unix_millis(end)),
                _ => None,
            };
            match u64::try_from(used) {
                Ok(used) => {
                    let used = used.min(Quota::MAX_LIMIT);
                    found.push(Found { before: used, after: used, others: 0, end });
                }
                Err(_) => fault = Some(used),
            }
        }
        let outcome = match fault {
            None if is_closed && request.is_refund() => Outcome::Closed(found.pop()),
            _ if is_closed => return Err(RedisError::BadReply.into()),
            None => Outcome::Taken(found),
            Some(STALE) => Outcome::Stale,
            Some(NO_COUNT) => Outcome::NoCount,
            Some(CLOSED) => Outcome::Closed(None),
            Some(_) => return Err(RedisError::BadReply.into()),
        };
        let mut answer = Answer { now: self.now, outcome };
        answer.step(request);
        Ok(answer)
    }

    fn integer(&mut self) -> Result<i64, StoreError> {
        self.integers.next().ok_or_else(|| RedisError::BadReply.into())
    }
}

impl Answer {
    /// Returns the answer to the same request, executed right after this one.
    pub(crate) fn step_on(&mut self, request: &Request) {
        if let Outcome::Taken(found) = &mut self.outcome {
            found.iter_mut().for_each(|found| found.before = found.after);
        }
        self.step(request);
    }

    fn step(&mut self, request: &Request) {
        if let Outcome::Taken(found) = &mut self.outcome {
            request.step(found);
        }
    }
}
