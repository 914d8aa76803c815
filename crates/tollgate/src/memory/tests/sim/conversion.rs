//! The library's values in the simulation's terms, and back.

use std::time::Duration;

use super::answer::{Denial, State};
use super::terms::{Cut, Denials, Name, Span, Terms, name};
#[cfg(feature = "calendar")]
use super::terms::{Unit, Zone};
#[cfg(feature = "calendar")]
use crate::CalendarUnit;
use crate::{Anchor, CountDenied, Key, PolicyQuota, Quota, QuotaState, Reason};

pub(in super::super) fn state(state: &QuotaState) -> State {
    let denial = state.reason().map(|reason| match reason {
        Reason::CostExceedsLimit => Denial::CostAboveLimit,
        Reason::QuotaExceeded => Denial::Exceeded,
        Reason::CostExceedsShare => panic!("a store in memory has no shares"),
    });
    let window = state.window().expect("fixed windows have one");
    let (start, end) = (window.start().as_unix_millis(), window.end().as_unix_millis());
    let (limit, used, now) = (state.limit(), state.used(), state.now().as_unix_millis());
    let units = state.units().into();
    State { limit, used, window: Span { start, end }, now, denial, units }
}

pub(in super::super) fn quota(terms: &Terms) -> PolicyQuota {
    let fixed = |millis: i64, anchor| {
        let length = Duration::from_millis(millis.unsigned_abs());
        Quota::new(terms.limit, length).unwrap().with_anchor(anchor).unwrap()
    };
    let quota = match terms.cut {
        Cut::Epoch(length) => fixed(length, Anchor::Epoch),
        Cut::Staggered(length) => fixed(length, Anchor::Staggered),
        Cut::FirstHit(length) => fixed(length, Anchor::FirstHit),
        #[cfg(feature = "calendar")]
        Cut::Calendar(unit, zone) => {
            let unit = match unit {
                Unit::Day => CalendarUnit::Day,
                Unit::Week => CalendarUnit::Week,
                Unit::Month => CalendarUnit::Month,
                Unit::Year => CalendarUnit::Year,
            };
            let zone = match zone {
                Zone::Kolkata => "Asia/Kolkata",
                Zone::Berlin => "Europe/Berlin",
            };
            Quota::calendar(terms.limit, unit, zone).unwrap()
        }
    };
    let counts = match terms.denials {
        Denials::Free => CountDenied::No,
        Denials::Counted => CountDenied::Yes,
        Denials::Overdraft => CountDenied::Overdraft,
    };
    PolicyQuota::new(terms.policy, quota).with_count_denied(counts)
}

pub(super) fn key(number: usize) -> Key<'static> {
    match name(number) {
        Name::Text(text) => text.into(),
        Name::Bytes(bytes) => bytes.into(),
        Name::Number(number) => number.into(),
        Name::Parts(parts) => Key::parts(parts.iter().copied()),
    }
}
