//! Encodes requests as keys and arguments of one call; the script documents them.

mod holds;

use std::mem::discriminant;

use smallvec::SmallVec;
use tollgate::{Quota, Timestamp};

pub(crate) use self::holds::encode_holds;
use super::SHA1;
use super::request::{KeyText, Shape};
use super::step::CounterStep;
use super::window_spec::{SHORTEST_NUMBERED, WindowSpec};
use crate::calls::Calls;
use crate::resp::Writer;
use crate::time::Probable;

/// Requests that differ only in their keys.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    pub(crate) shapes: &'a [Shape],
    /// The server's time before which they have to be taken.
    pub(crate) before: Option<Timestamp>,
    /// The number of times that each is executed.
    pub(crate) times: usize,
    /// The keys of each request.
    pub(crate) requests: SmallVec<[&'a [KeyText]; 1]>,
}

/// One argument of many words and numbers.
#[derive(Default)]
pub(super) struct Argument(pub(super) SmallVec<[u8; 128]>);

/// Writes the call that executes these requests in this order. A probable time makes the call cheaper if it is
/// right, and changes no count if it is wrong.
pub(crate) fn encode(groups: &[Group<'_>], probable: Option<Probable>, calls: &mut Calls) {
    let keys = || groups.iter().flat_map(|group| &group.requests).flat_map(|keys| keys.iter());
    let count = keys().count();
    // Room for keys of usual lengths.
    let mut call = Writer::begin(calls.begin(128 * (1 + groups.len() + count)), 3 + count + groups.len());
    call.argument(b"EVALSHA");
    call.argument(SHA1.as_bytes());
    call.argument(itoa::Buffer::new().format(count).as_bytes());
    for key in keys() {
        call.argument(key);
    }
    for group in groups {
        call.argument(&group.argument(probable).0);
    }
}

impl Group<'_> {
    /// The request without its keys.
    fn argument(&self, probable: Option<Probable>) -> Argument {
        let step = self.shapes.first().map_or(CounterStep::Look, |shape| shape.step);
        debug_assert!(
            self.shapes.iter().all(|shape| discriminant(&shape.step) == discriminant(&step)),
            "the script takes one kind of step of all counters of a group"
        );
        debug_assert!(
            self.before.is_none() || matches!(step, CounterStep::Charge { .. } | CounterStep::Deny { .. }),
            "the script compares an end with the time only for charges; a denial is one without room"
        );
        // A look writes nothing, so it is never repeated.
        let times = if step == CounterStep::Look { 0 } else { self.times };
        let mut argument = Argument::default();
        argument.word(if self.before.is_some() { "before" } else { step.name() });
        for count in [times, self.shapes.len(), self.requests.len()] {
            argument.number(count as i64);
        }
        for Shape { step, windows } in self.shapes {
            let (units, numbers) = step.arguments(self.shapes.len());
            argument.counter(units, numbers, *windows, probable);
        }
        if let Some(before) = self.before {
            argument.number(before.as_unix_millis());
        }
        argument
    }
}

impl Argument {
    /// The units of an operation on a counter, its other numbers, and how the counter counts.
    pub(super) fn counter(
        &mut self,
        units: u64,
        [one, other]: [i64; 2],
        windows: WindowSpec,
        probable: Option<Probable>,
    ) {
        let (word, a, b) = windows.arguments(probable);
        self.word(itoa::Buffer::new().format(units));
        self.number(one);
        self.number(other);
        self.word(word);
        self.number(a);
        self.number(b);
        if let WindowSpec::Burst { bucket } = windows {
            self.number(bucket.highest_level().cast_signed());
            self.number(bucket.kept_level().cast_signed());
        }
    }

    /// Ends with a zero.
    pub(super) fn word(&mut self, word: &str) {
        self.0.extend_from_slice(word.as_bytes());
        self.0.push(0);
    }

    /// A double with the lowest byte first. Lua has no other numbers, and unpacks integers more slowly.
    pub(super) fn number(&mut self, number: i64) {
        self.0.extend_from_slice(&(number as f64).to_le_bytes());
    }
}

impl CounterStep {
    const fn name(self) -> &'static str {
        match self {
            Self::Charge { is_renewal: false, .. } => "charge",
            Self::Charge { is_renewal: true, .. } => "renew",
            Self::Record { .. } => "record",
            Self::Deny { .. } => "deny",
            Self::Look => "look",
            Self::Block { .. } => "block",
            Self::Set { .. } => "set",
            Self::Refund { .. } => "refund",
            Self::Reset => "reset",
        }
    }

    /// Returns its units, and two more numbers, in a request for so many counters.
    fn arguments(self, counters: usize) -> (u64, [i64; 2]) {
        match self {
            // If the only counter is charged whatever the verdict, the script need not know the verdict, and takes its
            // shortest way.
            Self::Charge { units, denials, .. } if counters == 1 && denials.are_all() => {
                (units, [Quota::MAX_LIMIT.cast_signed(), 0])
            }
            _ => self.arguments_of_several(),
        }
    }

    /// Returns the same in a request for several counters.
    pub(super) fn arguments_of_several(self) -> (u64, [i64; 2]) {
        match self {
            Self::Charge { units, room, denials, .. } => {
                (units, [room.limit(units).cast_signed(), denials.above.cast_signed()])
            }
            Self::Record { units } => (units, [0, 0]),
            Self::Deny { units, denials } => (units, [0, denials.above.cast_signed()]),
            Self::Block { units, limit } => (units, [limit.cast_signed(), 0]),
            Self::Look | Self::Reset => (0, [0, 0]),
            Self::Set { used } => (0, [used.cast_signed(), 0]),
            Self::Refund { units, start } => (units, [start, 0]),
        }
    }
}

impl WindowSpec {
    fn arguments(self, probable: Option<Probable>) -> (&'static str, i64, i64) {
        match self {
            Self::Grid { origin, length } => {
                let length = length.cast_signed();
                let open =
                    probable.filter(|_| length >= SHORTEST_NUMBERED).and_then(|Probable { now, settled }| {
                        let now = now.as_unix_millis();
                        let start = now - (now - origin).rem_euclid(length);
                        (start >= settled.as_unix_millis()).then_some(start)
                    });
                open.map_or(("grid", origin, length), |start| ("open", start, length))
            }
            Self::FirstHit { length } => ("first_hit", 0, length.cast_signed()),
            Self::Given { start, end } => ("given", start, end),
            Self::Named { start, end } => ("named", start, end),
            Self::Burst { bucket } => ("burst", bucket.unit().cast_signed(), bucket.parts().cast_signed()),
            Self::Sliding { origin, length } => ("sliding", origin, length.cast_signed()),
            Self::SortedLog { length } => ("sorted", 1, length.cast_signed()),
            Self::Log { step, length } => ("log", step.cast_signed(), length.cast_signed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_windows_with_a_number_that_began_where_the_counters_are_is_probably_open() {
        let probable =
            Probable { now: Timestamp::from_unix_millis(9_500), settled: Timestamp::from_unix_millis(8_000) };
        let arguments = |origin, length| WindowSpec::Grid { origin, length }.arguments(Some(probable));
        assert_eq!(arguments(0, 1_000), ("open", 9_000, 1_000));
        assert_eq!(arguments(-300, 1_000), ("open", 8_700, 1_000));
        assert_eq!(arguments(0, 999), ("grid", 0, 999));
        assert_eq!(arguments(0, 5_000), ("grid", 0, 5_000), "it began before the slots were where they are");
        assert_eq!(WindowSpec::Grid { origin: 0, length: 1_000 }.arguments(None), ("grid", 0, 1_000));
    }
}
