//! The history of one counter: the units it has admitted lately, and when clients were told to return.

use tollgate::Timestamp;

use super::answer::QuotaAnswer;
use super::clock::{Allowance, ClockReading, Nanos};
use super::terms::Terms;
use crate::kinds::AdmissionLedger;

const MILLI: Nanos = 1_000_000;

/// One key under one quota.
#[derive(Debug, Clone, Default)]
pub(super) struct Track {
    admitted: Vec<AdmittedUnit>,
    told: Vec<PromisedRetry>,
    /// The batch of answers before which old entries were last dropped.
    dropped_in: u64,
    /// Whether earlier answers were forgotten. A bucket that is never empty depends on all of them.
    is_incomplete: bool,
}

/// When a limiter may have read its clock for one call, and when the caller read its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadingSpan {
    /// Read by the caller before the call.
    before: Nanos,
    /// Read by the caller after the call.
    after: Nanos,
    /// The earliest and the latest time at which the limiter may have decided.
    earliest: Nanos,
    latest: Nanos,
    /// The earliest time at which it may deny.
    denies_from: Nanos,
    /// Whether ticks came often enough for a limiter with a coarse clock.
    is_steady: bool,
}

/// One admitted unit.
#[derive(Debug, Clone, Copy)]
struct AdmittedUnit {
    span: ReadingSpan,
    /// The start of the window in the answer.
    start: i64,
    /// Whether it was found to be too many. Then it no longer counts, or later units would seem to be too many as well.
    is_over: bool,
}

/// A client was denied by the window that starts then, and told to return at a time of the oracle's clock.
#[derive(Debug, Clone, Copy)]
struct PromisedRetry {
    start: i64,
    return_at: Nanos,
}

/// How a denial breaks a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Denial {
    /// The denial may hit a client that waited as told.
    Early(&'static str),
    /// There was room.
    False,
}

impl ReadingSpan {
    pub(super) fn new(before: ClockReading, after: Nanos, allowance: Allowance) -> Self {
        // A limiter's clock shows whole milliseconds, rounded down.
        let earliest = |time: Nanos| time.div_euclid(MILLI) * MILLI - allowance.skew;
        // Up to the millisecond in which the limiter's clock may show the tick.
        let is_steady = after - before.coarse + MILLI < allowance.lag;
        let denies_from = earliest(if is_steady { before.precise } else { before.coarse });
        Self {
            before: before.precise,
            after,
            earliest: earliest(before.coarse),
            latest: after + allowance.skew,
            denies_from,
            is_steady,
        }
    }
}

impl Track {
    /// The track of a key whose earlier answers are forgotten.
    pub(super) fn incomplete() -> Self {
        Self { is_incomplete: true, ..Self::default() }
    }

    /// Drops entries that cannot matter to calls that began at this time or later.
    pub(super) fn drop_before(&mut self, batch: u64, began: Nanos, terms: &Terms) {
        if self.dropped_in != batch {
            self.dropped_in = batch;
            let oldest = began - 3 * terms.length();
            // A bucket that is never empty depends on all that it has admitted.
            if terms.has_fixed_windows() {
                self.admitted.retain(|unit| unit.span.latest >= oldest);
            }
            self.told.retain(|told| told.return_at >= oldest);
        }
    }

    /// Records an admitted unit. Returns the promise that it breaks, if any.
    pub(super) fn admit(
        &mut self,
        span: ReadingSpan,
        standing: &QuotaAnswer,
        terms: &Terms,
        shift: Option<Nanos>,
    ) -> Option<&'static str> {
        self.admitted.push(AdmittedUnit { span, start: standing.start, is_over: false });
        let broken = self.broken_by(span, standing, terms, shift);
        if let Some(unit) = self.admitted.last_mut() {
            unit.is_over = broken.is_some();
        }
        broken
    }

    /// Returns the promise that the last recorded unit broke, if any.
    fn broken_by(
        &self,
        span: ReadingSpan,
        standing: &QuotaAnswer,
        terms: &Terms,
        shift: Option<Nanos>,
    ) -> Option<&'static str> {
        let counted = || self.admitted.iter().filter(|unit| !unit.is_over);
        if !terms.has_fixed_windows() {
            let is_in =
                |unit: &AdmittedUnit, start| start <= unit.span.earliest && unit.span.latest <= span.latest;
            let admitted_since = |start| counted().filter(|unit| is_in(unit, start)).count();
            let is_over =
                |start| terms.most_in(span.latest - start).is_some_and(|most| admitted_since(start) > most);
            let starts = counted().map(|unit| unit.span.earliest).filter(|start| *start <= span.earliest);
            return starts
                .into_iter()
                .any(is_over)
                .then_some("G3: more than its bound was admitted in a time");
        }
        let count = |holds: &dyn Fn(&AdmittedUnit) -> bool| counted().filter(|unit| holds(unit)).count();
        if count(&|unit| unit.start == standing.start) > terms.limit {
            return Some("G1: the window of its answer has admitted more than the limit");
        }
        let length = terms.length();
        if let Some(shift) = shift {
            let index = |time: Nanos| (time - shift).div_euclid(length);
            let lies_in = |unit: &AdmittedUnit, first, last| {
                first <= index(unit.span.earliest) && index(unit.span.latest) <= last
            };
            let (first, last) = (index(span.earliest), index(span.latest));
            if first == last && count(&|unit| lies_in(unit, first, last)) > terms.limit {
                return Some("G1: the window of its time has admitted more than the limit");
            }
        }
        // Of the intervals that certainly contain the unit, those that end with a unit contain the most.
        let ends = counted().map(|unit| unit.span.latest);
        let mut ends =
            ends.filter(|end| (*end - length..*end).contains(&(span.earliest - 1)) && span.latest <= *end);
        let held = |end| count(&|unit| unit.span.earliest > end - length && unit.span.latest <= end);
        if ends.any(|end| held(end) > terms.most_in_an_interval()) {
            return Some("G3: an interval as long as a window has admitted more than twice the limit");
        }
        None
    }

    /// Records what a denied client was told.
    pub(super) fn tell(&mut self, span: ReadingSpan, standing: &QuotaAnswer, retry_after: i64) {
        let return_at = span.after + retry_after * MILLI;
        match self.told.iter_mut().find(|told| told.start == standing.start) {
            Some(told) => told.return_at = told.return_at.min(return_at),
            None => self.told.push(PromisedRetry { start: standing.start, return_at }),
        }
    }

    /// Returns the promise that a denial breaks, if any. All earlier admissions are recorded.
    pub(super) fn judge_denial(
        &self,
        span: ReadingSpan,
        standing: &QuotaAnswer,
        terms: &Terms,
    ) -> Option<Denial> {
        if !terms.has_fixed_windows() {
            return self.judge_denial_of_kind(span, terms);
        }
        let was_told = |told: &&PromisedRetry| span.is_steady && told.return_at <= span.before;
        if self.told.iter().filter(was_told).any(|told| told.start == standing.start) {
            return Some(Denial::Early("rule 10: a client that waited as told is denied by the same window"));
        }
        if standing.end * MILLI <= span.denies_from {
            return Some(Denial::Early("rule 10: a window denies that was over before the call"));
        }
        let used = |unit: &&AdmittedUnit| unit.start == standing.start && unit.span.before <= span.after;
        if self.admitted.iter().filter(used).count() >= terms.limit {
            return None;
        }
        let returned = self.told.iter().filter(was_told).any(|told| told.start < standing.start);
        Some(if returned {
            Denial::Early("rule 10: a client that waited as told is denied by a window with room")
        } else {
            Denial::False
        })
    }

    /// The same for a bucket, a sliding window or a log: every unit is taken to have come as late as it may, and the denial
    /// as early.
    fn judge_denial_of_kind(&self, span: ReadingSpan, terms: &Terms) -> Option<Denial> {
        let millis = |time: Nanos| Timestamp::from_unix_millis(time.div_euclid(MILLI));
        let denied_at = if span.is_steady { span.denies_from } else { span.earliest };
        let mut ledger = AdmissionLedger::new(&terms.quota());
        for unit in self.admitted.iter().filter(|unit| unit.span.before <= span.after) {
            ledger.admit(millis(unit.span.latest.min(denied_at)), 1);
        }
        if self.is_incomplete || !ledger.admits(millis(denied_at), 1) {
            return None;
        }
        let was_told = |told: &PromisedRetry| span.is_steady && told.return_at <= span.before;
        Some(if self.told.iter().any(was_told) {
            Denial::Early("rule 10: a client that waited as told is denied though there is room")
        } else {
            Denial::False
        })
    }

    /// Returns what is wrong with the window of an answer, if anything. All earlier admissions are recorded.
    pub(super) fn judge_window(
        &self,
        span: ReadingSpan,
        standing: &QuotaAnswer,
        terms: &Terms,
        shift: Option<Nanos>,
        admitted: bool,
    ) -> Option<&'static str> {
        let QuotaAnswer { start, end, now, .. } = *standing;
        if !terms.has_fixed_windows() {
            let is_in_time = (span.earliest..=span.latest).contains(&(now * MILLI));
            return (!is_in_time).then_some("rule 11: the limiter's time is not that of the call");
        }
        if end - start != terms.millis {
            return Some("rule 1: the window is not as long as the quota says");
        }
        if shift.is_some_and(|shift| (start * MILLI - shift).rem_euclid(terms.length()) != 0) {
            return Some("rule 1: the window does not start where windows of this key start");
        }
        if !(start..end).contains(&now) {
            return Some("rule 1: the window does not hold the limiter's own time");
        }
        if !(span.earliest..=span.latest).contains(&(now * MILLI)) {
            return Some("rule 11: the limiter's time is not that of the call");
        }
        if shift.is_some() || !admitted {
            return None;
        }
        // Only the units of a key show where its windows are.
        let overlaps = |unit: &AdmittedUnit| unit.start != start && (unit.start - start).abs() < terms.millis;
        if self.admitted.iter().any(overlaps) {
            return Some("rule 2: the window overlaps another of the key");
        }
        let opens = |unit: &AdmittedUnit| {
            unit.start == start && (unit.span.earliest..=unit.span.latest).contains(&(start * MILLI))
        };
        let opened = self.admitted.iter().any(opens);
        (!opened).then_some("rule 2: no unit was admitted when the window started")
    }
}
