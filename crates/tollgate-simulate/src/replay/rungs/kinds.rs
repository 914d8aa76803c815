//! The other kinds that are tried for a quota.

use std::time::Duration;

use tollgate::{Anchor, Quota, QuotaErrorKind, QuotaKind, WindowLength};
use tollgate_policy::{Policies, PolicyKind};

use super::is_limited_by_requests;
use crate::replay::policies::Tracks;

/// The other kinds of one quota.
#[derive(Debug)]
pub(in super::super) struct OtherKinds {
    pub(in super::super) track: usize,
    pub(in super::super) quota: usize,
    /// With the limit and the length of today's quota, the most telling first.
    pub(in super::super) possible: Vec<Quota>,
    /// Those that there are not with this limit and this length.
    pub(in super::super) impossible: Vec<&'static str>,
    /// Whether no kind is tried for it at all.
    pub(in super::super) is_fixed: bool,
}

/// The burst that is tried: one fifth of the limit.
const SHARE_OF_LIMIT: u64 = 5;

/// Returns the other kinds of a quota with the same limit and the same length, the most telling first. There are none of a
/// calendar's windows, which have no fixed length.
#[must_use]
pub fn other_kinds(quota: &Quota) -> Vec<Quota> {
    OtherKinds::new((0, 0), quota, &[], false).possible
}

impl OtherKinds {
    /// Those of all quotas that are not of overrides.
    pub(super) fn of_all(policies: &Policies, tracks: &Tracks) -> Vec<Self> {
        let quotas = tracks.iter().enumerate().flat_map(|(number, track)| {
            let policy = policies.as_slice().get(track.policy);
            let policy = policy.filter(|policy| policy.kind() == PolicyKind::Count);
            // An override's quota would go on in the counters of the kind that is there today.
            let is_fixed =
                policy.is_some_and(|policy| !policy.overrides().is_empty() || is_limited_by_requests(policy));
            let quotas = track.quotas.iter().enumerate().filter(|(_, quota)| quota.of_override.is_none());
            let quotas = quotas.filter(move |_| policy.is_some());
            quotas.map(move |(place, quota)| {
                let others = track.quotas.iter().enumerate().filter(|(other, _)| *other != place);
                let others: Vec<&Quota> = others.map(|(_, other)| other.quota.quota()).collect();
                Self::new((number, place), quota.quota.quota(), &others, is_fixed)
            })
        });
        quotas.collect()
    }

    /// `others` are those of the same policy, with which a quota may not share counters.
    fn new((track, quota): (usize, usize), today: &Quota, others: &[&Quota], is_fixed: bool) -> Self {
        let mut kinds = Self { track, quota, possible: Vec::new(), impossible: Vec::new(), is_fixed: true };
        let limit = today.limit();
        let WindowLength::Fixed(length) = today.window() else { return kinds };
        let Some(window) = Quota::new(limit, length).ok().filter(|_| !is_fixed && limit > 0) else {
            return kinds;
        };
        kinds.is_fixed = false;
        let is_free = |kind: &Quota| !others.iter().any(|other| other.has_series_of(kind));
        let mut add = |name, kind: Option<Quota>| match kind.filter(is_free) {
            None => kinds.impossible.push(name),
            Some(kind) if kind.kind() == QuotaKind::Log && today.kind() == QuotaKind::Log => {}
            Some(kind) if kind == *today => {}
            Some(kind) => kinds.possible.push(kind),
        };
        let burst = Some((limit / SHARE_OF_LIMIT).max(1)).filter(|burst| *burst < limit);
        if burst.is_some() {
            add("a smaller burst", window.clone().with_burst(burst).ok());
        }
        add("~burst", window.clone().with_burst(None).ok());
        let staggered = (today.anchor() == Anchor::Staggered).then_some(Anchor::Staggered);
        let anchored = staggered.and_then(|anchor| window.clone().with_anchor(anchor).ok());
        let anchored = anchored.unwrap_or_else(|| window.clone());
        add("~sliding", anchored.clone().sliding().ok());
        add("~log", with_log(&window));
        if today.kind() != QuotaKind::Window {
            add("a fixed window", Some(anchored));
        }
        kinds
    }
}

/// The exact log or, if it would have too many entries, one in steps.
fn with_log(window: &Quota) -> Option<Quota> {
    let with_step = |millis| window.clone().with_log(Duration::from_millis(millis));
    match with_step(1) {
        Ok(exact) => Some(exact),
        Err(error) => match error.kind() {
            QuotaErrorKind::LogEntries { fitting_step } => with_step(fitting_step).ok(),
            _ => None,
        },
    }
}
