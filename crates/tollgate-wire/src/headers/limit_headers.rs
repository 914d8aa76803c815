//! Headers of a list of quotas, with the constant parts created once.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderValue};
use tollgate::{PolicyQuota, QuotaState, QuotaStates, Source, whole_seconds};
use tollgate_http::HeaderFormats;

use super::name::names_of;
use super::quota_policy::{QuotaPolicy, fixed_length, window_length};
use super::text::number;
use super::{HeaderFormat, TOLLGATE_SOURCE, draft_06, draft_11, envoy, github, kong, x_ratelimit};

/// Writes the headers of decisions on these quotas.
#[derive(Debug, Clone)]
pub struct LimitHeaders {
    formats: HeaderFormats,
    quotas: Box<[PolicyQuota]>,
    /// The name of each quota, in their order.
    names: Box<[Box<str>]>,
    /// The same as structured strings.
    quoted: Box<[Box<str>]>,
    /// The whole limits, or bursts of buckets, even if a decision used a share of them.
    limits: Box<[HeaderValue]>,
    /// `RateLimit-Policy`, which is the same for every decision unless a calendar makes the windows.
    policy: Option<HeaderValue>,
}

impl LimitHeaders {
    /// Creates a writer for decisions on these quotas, in this order.
    #[must_use]
    pub fn new(formats: impl Into<HeaderFormats>, quotas: &[PolicyQuota]) -> Self {
        Self::of(formats, quotas.iter())
    }

    /// Returns the same, for quotas that are not in a list.
    #[must_use]
    pub fn of<'q>(
        formats: impl Into<HeaderFormats>,
        quotas: impl Iterator<Item = &'q PolicyQuota> + Clone,
    ) -> Self {
        let formats = formats.into();
        let names = names_of(quotas.clone());
        let quoted = names.iter().map(|name| draft_11::quoted(name)).collect();
        let limits = quotas.clone().map(|quota| number(quota.quota().capacity())).collect();
        let headers =
            Self { formats, quotas: quotas.cloned().collect(), names, quoted, limits, policy: None };
        let lengths: Option<Vec<Duration>> = headers.quotas.iter().map(fixed_length).collect();
        let policy = lengths.and_then(|lengths| headers.policy(&lengths));
        Self { policy, ..headers }
    }

    /// Returns the formats.
    #[must_use]
    pub const fn formats(&self) -> HeaderFormats {
        self.formats
    }

    /// Returns the quotas, in their order.
    #[must_use]
    pub const fn quotas(&self) -> &[PolicyQuota] {
        &self.quotas
    }

    /// Returns the name of the quota at this index, as in [`quota_names`](super::quota_names).
    #[must_use]
    pub fn name(&self, index: usize) -> Option<&str> {
        self.names.get(index).map(AsRef::as_ref)
    }

    /// Writes the headers with the states of the quotas, and replaces existing ones. A denial that can pass later also
    /// gets `Retry-After`. Unless the format is `none`, an answer that did not come from the store gets
    /// [`Tollgate-Source`](TOLLGATE_SOURCE).
    pub fn write(&self, counted: &QuotaStates, headers: &mut HeaderMap) {
        let deciding = counted.deciding();
        let Some(state) = counted.get(deciding) else { return };
        if let Some(retry_after) = state.retry_after() {
            headers.insert(RETRY_AFTER, number(whole_seconds(retry_after)));
        }
        if self.formats.is_none() {
            return;
        }
        if self.formats.has(HeaderFormat::Draft11) {
            draft_11::write(&self.quoted, counted, headers);
        }
        if let (Some(limit), Some(name)) = (self.limits.get(deciding), self.names.get(deciding)) {
            self.write_older(limit, name, state, counted, headers);
        }
        if let Some(policy) = &self.policy {
            headers.insert(draft_11::POLICY, policy.clone());
        } else if let Some(policy) = self.policy_in(counted) {
            headers.insert(draft_11::POLICY, policy);
        }
        write_source(state.source(), headers);
    }

    /// Writes the formats that describe only the quota that decided: its limit, name and state.
    fn write_older(
        &self,
        limit: &HeaderValue,
        name: &str,
        state: &QuotaState,
        counted: &QuotaStates,
        headers: &mut HeaderMap,
    ) {
        if self.formats.has(HeaderFormat::Draft06) || self.formats.has(HeaderFormat::Kong) {
            draft_06::write(limit, state, headers);
        }
        if self.formats.has(HeaderFormat::XRateLimit) {
            x_ratelimit::write(limit, state, headers);
        }
        if self.formats.has(HeaderFormat::GitHub) {
            github::write(name, limit, state, headers);
        }
        if self.formats.has(HeaderFormat::Kong) {
            kong::write_units(&self.quotas, &self.limits, counted, headers);
        }
        if self.formats.has(HeaderFormat::Envoy) {
            let all = self.quoted.iter().zip(&self.quotas).zip(counted);
            let quotas = all.filter_map(|((name, quota), state)| {
                Some((name, quota.quota().limit(), whole_seconds(window_length(quota, state)?)))
            });
            envoy::write(limit, state, quotas, headers);
        }
    }

    /// The quotas in the windows that were counted.
    fn policy_in(&self, counted: &QuotaStates) -> Option<HeaderValue> {
        let each = self.quotas.iter().zip(counted);
        let lengths: Option<Vec<Duration>> = each.map(|(quota, state)| window_length(quota, state)).collect();
        self.policy(&lengths?)
    }

    /// The quotas in windows of these lengths. A window below a second is shown as one second.
    fn policy(&self, lengths: &[Duration]) -> Option<HeaderValue> {
        let quotas = self.quotas.iter().zip(lengths).map(|(quota, length)| QuotaPolicy {
            limit: quota.quota().limit(),
            seconds: whole_seconds(*length),
            burst: quota.quota().bucket().map(|bucket| bucket.burst()),
        });
        // They are never chosen together.
        if self.formats.has(HeaderFormat::Draft11) {
            draft_11::policy(self.quoted.iter().map(AsRef::as_ref).zip(quotas))
        } else if self.formats.has(HeaderFormat::Draft06) {
            draft_06::policy(quotas)
        } else {
            None
        }
    }
}

/// Writes where a decision came from. The usual source needs no header of its own.
pub(super) fn write_source(source: Source, headers: &mut HeaderMap) {
    match source {
        Source::Fallback => drop(headers.insert(TOLLGATE_SOURCE, HeaderValue::from_static("fallback"))),
        Source::Local => drop(headers.insert(TOLLGATE_SOURCE, HeaderValue::from_static("local"))),
        _ => {}
    }
}
