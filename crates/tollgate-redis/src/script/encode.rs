//! Requests as keys and arguments of one call; the script says what they mean.

use redis::Cmd;

use super::{SHA1, Shape, Step, Windows};
use crate::keys::KeyText;

/// Requests that differ in their keys alone.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    pub(crate) step: Step,
    pub(crate) shapes: &'a [Shape],
    /// How often each is taken.
    pub(crate) times: usize,
    /// The keys of each request.
    pub(crate) requests: Vec<&'a [KeyText]>,
}

/// The call that takes these requests in this order.
pub(crate) fn encode(groups: &[Group<'_>]) -> Cmd {
    let keys = || groups.iter().flat_map(|group| &group.requests).flat_map(|keys| keys.iter());
    let mut call = Cmd::new();
    call.arg("EVALSHA").arg(SHA1).arg(keys().count());
    for key in keys() {
        call.arg(&**key);
    }
    for group in groups {
        // Looking writes nothing, however often.
        let times = if group.step == Step::Look { 0 } else { group.times };
        call.arg(group.step.name()).arg(times).arg(group.shapes.len()).arg(group.requests.len());
        for shape in group.shapes {
            let (windows, a, b) = shape.windows.arguments();
            call.arg(shape.units).arg(shape.bound).arg(shape.counted).arg(windows).arg(a).arg(b);
        }
    }
    call
}

impl Step {
    const fn name(self) -> &'static str {
        match self {
            Self::Charge => "charge",
            Self::Look => "look",
            Self::Set => "set",
            Self::Refund => "refund",
            Self::Reset => "reset",
        }
    }
}

impl Windows {
    const fn arguments(self) -> (&'static str, i64, i64) {
        match self {
            Self::Grid { origin, length } => ("grid", origin, length.cast_signed()),
            Self::FirstHit { length } => ("first_hit", 0, length.cast_signed()),
            Self::Given { start, end } => ("given", start, end),
            Self::Named { start, end } => ("named", start, end),
        }
    }
}
