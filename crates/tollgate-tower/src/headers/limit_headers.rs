//! What is the same for every decision on some quotas, made once.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderValue};
use tollgate::{Counted, PolicyQuota, QuotaState, Source, WindowLength, whole_seconds};

use super::name::names_of;
use super::text::number;
use super::{HeaderFormat, TOLLGATE_SOURCE, draft_06, draft_11, x_ratelimit};

/// Writes the headers of decisions on these quotas.
#[derive(Debug, Clone)]
pub struct LimitHeaders {
    format: HeaderFormat,
    quotas: Box<[PolicyQuota]>,
    /// What each quota is called, in their order.
    names: Box<[Box<str>]>,
    /// The same as structured strings.
    quoted: Box<[Box<str>]>,
    /// The whole limits, also where a decision was made by a share of them.
    limits: Box<[HeaderValue]>,
    /// `RateLimit-Policy`, which is the same for every decision unless a calendar makes the windows.
    policy: Option<HeaderValue>,
}

impl LimitHeaders {
    /// For decisions on these quotas, in this order.
    #[must_use]
    pub fn new(format: HeaderFormat, quotas: &[PolicyQuota]) -> Self {
        Self::of(format, quotas.iter())
    }

    /// The same, for quotas that stand in no list.
    #[must_use]
    pub fn of<'q>(format: HeaderFormat, quotas: impl Iterator<Item = &'q PolicyQuota> + Clone) -> Self {
        let names = names_of(quotas.clone());
        let quoted = names.iter().map(|name| draft_11::quoted(name)).collect();
        let limits = quotas.clone().map(|quota| number(quota.quota().limit())).collect();
        let headers = Self { format, quotas: quotas.cloned().collect(), names, quoted, limits, policy: None };
        let lengths: Option<Vec<Duration>> = headers.quotas.iter().map(fixed_length).collect();
        let policy = lengths.and_then(|lengths| headers.policy(lengths.into_iter()));
        Self { policy, ..headers }
    }

    /// The format.
    #[must_use]
    pub const fn format(&self) -> HeaderFormat {
        self.format
    }

    /// The quotas, in their order.
    #[must_use]
    pub const fn quotas(&self) -> &[PolicyQuota] {
        &self.quotas
    }

    /// What the quota at this place is called: as in [`quota_names`](super::quota_names).
    #[must_use]
    pub fn name(&self, index: usize) -> Option<&str> {
        self.names.get(index).map(AsRef::as_ref)
    }

    /// Writes the headers that say where the quotas stand; those of an earlier answer are replaced. Besides those of the
    /// format that is `Retry-After` with a denial that passes later and, unless the format is `none`,
    /// [`Tollgate-Source`](TOLLGATE_SOURCE) with an answer that did not come from the store.
    pub fn write(&self, counted: &Counted, headers: &mut HeaderMap) {
        let deciding = counted.deciding();
        let Some(state) = counted.get(deciding) else { return };
        if let Some(retry_after) = state.retry_after() {
            headers.insert(RETRY_AFTER, number(whole_seconds(retry_after)));
        }
        match self.format {
            HeaderFormat::Draft11 => draft_11::write(&self.quoted, counted, headers),
            HeaderFormat::Draft06 => self.write_deciding(deciding, state, headers, draft_06::write),
            HeaderFormat::XRateLimit => self.write_deciding(deciding, state, headers, x_ratelimit::write),
            _ => return,
        }
        if let Some(policy) = &self.policy {
            headers.insert(draft_11::POLICY, policy.clone());
        } else if let Some(policy) = self.policy_in(counted) {
            headers.insert(draft_11::POLICY, policy);
        }
        // The usual source needs no header of its own.
        match state.source() {
            Source::Fallback => drop(headers.insert(TOLLGATE_SOURCE, HeaderValue::from_static("fallback"))),
            Source::Local => drop(headers.insert(TOLLGATE_SOURCE, HeaderValue::from_static("local"))),
            _ => {}
        }
    }

    fn write_deciding(
        &self,
        deciding: usize,
        state: &QuotaState,
        headers: &mut HeaderMap,
        write: fn(&HeaderValue, &QuotaState, &mut HeaderMap),
    ) {
        if let Some(limit) = self.limits.get(deciding) {
            write(limit, state, headers);
        }
    }

    /// The quotas in the windows that were counted.
    fn policy_in(&self, counted: &Counted) -> Option<HeaderValue> {
        let windows = counted.iter().filter_map(QuotaState::window);
        let all_have_one = windows.clone().count() == counted.len();
        all_have_one.then(|| self.policy(windows.map(|window| window.length())))?
    }

    /// The quotas in windows of these lengths. A window below a second is told as one.
    fn policy(&self, lengths: impl Iterator<Item = Duration>) -> Option<HeaderValue> {
        let limits = self.quotas.iter().map(|quota| quota.quota().limit());
        let quotas = limits.zip(lengths.map(whole_seconds));
        match self.format {
            HeaderFormat::Draft11 => {
                draft_11::policy(self.quoted.iter().zip(quotas).map(|(name, (q, w))| (name, q, w)))
            }
            HeaderFormat::Draft06 => draft_06::policy(quotas),
            _ => None,
        }
    }
}

fn fixed_length(quota: &PolicyQuota) -> Option<Duration> {
    match quota.quota().window() {
        WindowLength::Fixed(length) => Some(length),
        _ => None,
    }
}
