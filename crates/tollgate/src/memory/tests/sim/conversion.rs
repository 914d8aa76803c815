//! The library's values in the simulation's terms, and back.

use std::time::Duration;

use super::answer::{Denial, State};
use super::terms::{BlockedCut, Cut, Denials, Name, Span, Terms, name};
#[cfg(feature = "calendar")]
use super::terms::{Unit, Zone};
#[cfg(feature = "calendar")]
use crate::CalendarUnit;
use crate::{Anchor, BlockQuota, CountDenied, Key, PolicyQuota, Quota, QuotaState, Reason, Timestamp};

pub(in super::super) fn state(state: &QuotaState) -> State {
    let denial = state.reason().map(|reason| match reason {
        Reason::CostExceedsLimit => Denial::CostAboveLimit,
        Reason::QuotaExceeded => Denial::Exceeded,
        Reason::InFlightExceeded => panic!("a quota is not in flight"),
        Reason::CostExceedsShare => panic!("a store in memory has no shares"),
    });
    let millis = |time: Timestamp| time.as_unix_millis();
    let window = state.window();
    State {
        limit: state.limit(),
        used: state.used(),
        window: window.map(|window| Span { start: millis(window.start()), end: millis(window.end()) }),
        now: millis(state.now()),
        denial,
        units: state.units().into(),
        reset_at: millis(state.reset_at()),
        next_at: state.next_at().map(millis),
        retry_at: state.retry_at().map(millis),
        mark: millis(state.mark().time()),
    }
}

pub(in super::super) fn quota(terms: &Terms) -> PolicyQuota {
    let duration = |millis: i64| Duration::from_millis(millis.unsigned_abs());
    if let Cut::Block(length, of) = terms.cut {
        let cut = match of {
            BlockedCut::Epoch(length) => Cut::Epoch(length),
            BlockedCut::Staggered(length) => Cut::Staggered(length),
            BlockedCut::FirstHit(length) => Cut::FirstHit(length),
        };
        let counted = quota(&Terms { cut, ..*terms });
        return BlockQuota::new(counted, duration(length)).unwrap().block().clone();
    }
    let fixed =
        |millis: i64, anchor| Quota::new(terms.limit, duration(millis)).unwrap().with_anchor(anchor).unwrap();
    let quota = match terms.cut {
        Cut::Epoch(length) => fixed(length, Anchor::Epoch),
        Cut::Staggered(length) => fixed(length, Anchor::Staggered),
        Cut::FirstHit(length) => fixed(length, Anchor::FirstHit),
        Cut::Burst(length) => fixed(length, Anchor::Epoch).with_burst(Some(terms.burst)).unwrap(),
        Cut::Sliding(length) => fixed(length, Anchor::Epoch).sliding().unwrap(),
        Cut::SlidingStaggered(length) => fixed(length, Anchor::Staggered).sliding().unwrap(),
        Cut::Block(..) => unreachable!("a block is made of its quota"),
        Cut::Log(length, step) => fixed(length, Anchor::Epoch).with_log(duration(step)).unwrap(),
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
