//! An estimate of what another quota would have done.

use std::borrow::Cow;
use std::time::Duration;

use tollgate::{Anchor, CountDenied, Quota, QuotaKind, Timestamp, WindowLength};
use tollgate_simulate::{Curve, other_kinds};

use super::band::Band;
use super::calculated::WindowUnits;
use super::doubts::{doubts, remarks};
use super::question::WhatIfQuestion;
use super::replayed::{self, QuotaDenials};
use super::time_limit::{OutOfTime, TimeLimit};
use super::traffic::Traffic;
use crate::sample::SampledRequests;

/// What the quota would have done, with other limits and in other kinds.
#[derive(Debug)]
pub(crate) struct Estimate {
    pub(crate) quota: Quota,
    /// Since when there are requests; `None` if there are none.
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Timestamp,
    /// One key in so many is sampled.
    pub(crate) one_in: u64,
    pub(crate) keys: u64,
    pub(crate) requests: u64,
    /// Requests that the policy denied in fact.
    pub(crate) denied: u64,
    pub(crate) skipped: u64,
    /// Whether every request was decided under every limit.
    pub(crate) is_replayed: bool,
    /// In the order of their limits.
    pub(crate) points: Vec<LimitPoint>,
    /// The same limit in other kinds.
    pub(crate) kinds: Vec<KindPoint>,
    /// Why the figures are not exact; empty if they are.
    pub(crate) doubts: Vec<Cow<'static, str>>,
    /// What else to know of them.
    pub(crate) remarks: Vec<&'static str>,
}

/// What one limit denies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LimitPoint {
    pub(crate) limit: u64,
    pub(crate) requests: u64,
    pub(crate) keys: u64,
    /// Of the share of keys, if not all are sampled.
    pub(crate) band: Option<Band>,
}

/// What another kind denies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KindPoint {
    pub(crate) quota: Quota,
    pub(crate) requests: u64,
    pub(crate) keys: u64,
}

/// Decisions of an estimate at most, in units of those in fixed windows: some 15 ms. To sort a full sample takes as long.
const MAX_DECISIONS: usize = 600_000;

/// Requests that are replayed, however slow the machine is.
const MIN_REQUESTS: usize = 100;

/// Limits that are replayed, at least and at most.
const MIN_LIMITS: usize = 6;
const MAX_LIMITS: usize = 24;

impl Estimate {
    /// # Errors
    ///
    /// If it takes longer than 50 ms.
    pub(crate) fn new(question: &WhatIfQuestion, sample: SampledRequests) -> Result<Self, OutOfTime> {
        Self::within(question, sample, TimeLimit::MOST)
    }

    pub(super) fn within(
        question: &WhatIfQuestion,
        sample: SampledRequests,
        most: Duration,
    ) -> Result<Self, OutOfTime> {
        let limit = TimeLimit::start(most);
        let WhatIfQuestion { quota, count_denied, circumstances } = question;
        let mut traffic = Traffic::new(sample);
        let is_calculated =
            quota.kind() == QuotaKind::Window && traffic.requests().iter().all(|request| request.cost == 1);
        let mut kinds = other_kinds(quota);
        let all_kinds = kinds.len();
        // On a busy machine, fewer.
        let pace = replayed::pace(&traffic, quota, limit)?;
        let decisions = pace.map_or(MAX_DECISIONS, |step| limit.fitting(step).min(MAX_DECISIONS));
        let room = decisions / traffic.requests().len().max(1);
        if weights(&kinds) > room {
            kinds.retain(|kind| kind.kind() != QuotaKind::Log);
        }
        // A curve of all requests is worth more than other kinds.
        if is_calculated && weights(&kinds) > room {
            kinds.clear();
        }
        let has_left_out_kinds = kinds.len() < all_kinds;
        let each = replayed::weight(quota);
        let rungs = (room.saturating_sub(weights(&kinds)) / each).clamp(MIN_LIMITS, MAX_LIMITS);
        let curve_weight = if is_calculated { 0 } else { rungs * each };
        // A calculated curve takes one pass over all requests, and there is room for its kinds.
        let is_reduced = !is_calculated
            && traffic.reduce((decisions / (curve_weight + weights(&kinds)).max(1)).max(MIN_REQUESTS));
        begin_with_whole_windows(&mut traffic, quota, circumstances.now);

        let points = match is_calculated {
            true => calculated(&traffic, quota, limit)?,
            false => tried(&traffic, quota, *count_denied, rungs, limit)?,
        };
        let all_keys = traffic.keys().count() as u64;
        let band = |keys| Band::of(keys, all_keys).filter(|_| traffic.rarity > 0);
        let points = points.into_iter().map(|(limit, QuotaDenials { requests, keys })| LimitPoint {
            limit,
            requests,
            keys,
            band: band(keys),
        });
        let kind = |quota: Quota| {
            let QuotaDenials { requests, keys } = replayed::denials(&traffic, &quota, *count_denied, limit)?;
            Ok(KindPoint { quota, requests, keys })
        };
        let is_empty = traffic.requests().is_empty();
        Ok(Self {
            quota: quota.clone(),
            since: traffic.since,
            until: circumstances.now,
            one_in: 1 << traffic.rarity,
            keys: all_keys,
            requests: traffic.requests().len() as u64,
            denied: traffic.requests().iter().filter(|request| request.is_denied).count() as u64,
            skipped: traffic.skipped,
            is_replayed: !is_calculated,
            points: if is_empty { Vec::new() } else { points.collect() },
            kinds: if is_empty {
                Vec::new()
            } else {
                kinds.into_iter().map(kind).collect::<Result<_, _>>()?
            },
            doubts: doubts(question, &traffic, is_calculated, is_reduced),
            remarks: remarks(question, &traffic, has_left_out_kinds),
        })
    }
}

/// Leaves out the requests before the first whole window, if windows are the same for all keys and most requests stay.
fn begin_with_whole_windows(traffic: &mut Traffic, quota: &Quota, now: Timestamp) {
    let is_common =
        quota.kind() == QuotaKind::Window && matches!(quota.anchor(), Anchor::Epoch | Anchor::Calendar);
    let Some(since) = traffic.since.filter(|_| traffic.is_cut && is_common) else { return };
    let window = quota.window_at(&tollgate::Key::from(""), since);
    let first = if window.start() == since { since } else { window.end() };
    if now.since(first) >= now.since(since) / 2 {
        traffic.begin_at(first);
        traffic.is_cut = false;
    }
}

fn calculated(
    traffic: &Traffic,
    quota: &Quota,
    limit: TimeLimit,
) -> Result<Vec<(u64, QuotaDenials)>, OutOfTime> {
    let WindowUnits { windows, maxima } = WindowUnits::of(traffic, quota, limit)?;
    let curve = Curve::of_windows(&windows, &maxima, quota.limit());
    let points = curve.points.iter();
    let denials = points
        .map(|point| (point.limit, QuotaDenials { requests: point.denied, keys: point.denied_clients }));
    Ok(denials.collect())
}

fn tried(
    traffic: &Traffic,
    quota: &Quota,
    count_denied: CountDenied,
    rungs: usize,
    limit: TimeLimit,
) -> Result<Vec<(u64, QuotaDenials)>, OutOfTime> {
    // The units in fixed windows of the same length bound what can be denied: other kinds also count those of a window
    // before.
    let windows = match quota.window() {
        WindowLength::Fixed(length) => Quota::new(quota.limit(), length).unwrap_or_else(|_| quota.clone()),
        _ => quota.clone(),
    };
    let most = WindowUnits::of(traffic, &windows, limit)?.maxima.max().unwrap_or(1);
    let most = if quota.kind() == QuotaKind::Window { most } else { most.saturating_mul(2) };
    let limits = Curve::limits(most, quota.limit(), rungs.saturating_sub(1));
    // Not every kind can have every limit.
    let quotas = limits.into_iter().filter_map(|limit| quota.clone().with_limit(limit).ok());
    quotas
        .map(|quota| Ok((quota.limit(), replayed::denials(traffic, &quota, count_denied, limit)?)))
        .collect()
}

fn weights(quotas: &[Quota]) -> usize {
    quotas.iter().map(replayed::weight).sum()
}
