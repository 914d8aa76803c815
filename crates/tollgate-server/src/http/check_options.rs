//! Optional features of checks: other systems' formats, callers' own limits, and holds.

use std::sync::Arc;

use tollgate::{ManualClock, OnStoreFailure};
use tollgate_http::TrustedProxies;
use tollgate_policy::{Policy, PolicyError};

use super::dialects::Dialect;
use super::wire::{GivenLimit, OutageAnswer, expect_caller_quotas};
use crate::access::listener::Listener;
use crate::answer::rejection::Rejection;
use crate::answer::rejection_kind::RejectionKind;
use crate::answer::trials_header::TrialsHeader;
use crate::decide::hold_seal::HoldSeal;

/// The optional features that this service offers.
#[derive(Debug)]
pub(crate) struct CheckOptions {
    /// The other system whose format is also served.
    pub(crate) dialect: Option<&'static Dialect>,
    pub(crate) hold_seal: Arc<HoldSeal>,
    /// Whether callers may give limits with their requests.
    pub(crate) caller_quotas: bool,
    /// The proxies in front of one that asks about a request.
    pub(crate) trusted_proxies: TrustedProxies,
    pub(crate) over_unix: ProxiesOverUnix,
    /// Longer values of such a request are counted by a digest.
    pub(crate) max_attribute_bytes: usize,
    pub(crate) trials_header: TrialsHeader,
    /// The clock of the counters, if tests move it.
    pub(crate) test_clock: Option<ManualClock>,
}

/// Whether proxies may ask about requests over a Unix socket.
///
/// A proxy of TCP has an address, which the operator admits or keeps out. Over a Unix socket, any process that may
/// connect could ask in the name of any client, so the operator says first that these processes are proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProxiesOverUnix {
    Trusted,
    Refused,
}

impl CheckOptions {
    /// Checks that a proxy may ask on this listener.
    ///
    /// # Errors
    ///
    /// If it asks over a Unix socket, and is not trusted there.
    pub(super) fn check_proxy(&self, listener: &Listener) -> Result<(), Rejection> {
        if !listener.address.is_unix() || self.over_unix == ProxiesOverUnix::Trusted {
            return Ok(());
        }
        let detail = "the headers of proxies are not trusted over a Unix socket: start the service with \
                      `--trusted-proxy unix`";
        Err(Rejection::new(RejectionKind::Invalid, detail))
    }

    /// Returns the caller's own limits, if the request has any.
    ///
    /// # Errors
    ///
    /// If this service accepts none, or they are invalid.
    pub(super) fn limits(
        &self,
        policy: Option<Box<str>>,
        quotas: Option<Vec<GivenLimit>>,
        on_store_failure: Option<OutageAnswer>,
    ) -> Result<Option<Policy>, Rejection> {
        if quotas.is_none() && on_store_failure.is_some() {
            let detail = "only with `quotas`: each policy has its own `on_store_failure`";
            return Err(Rejection::bad_field("on_store_failure", detail));
        }
        let (policy, quotas) = match (policy, quotas) {
            (None, None) => return Ok(None),
            (Some(_), None) => return Err(missing("quotas")),
            (None, Some(_)) => return Err(missing("policy")),
            (Some(policy), Some(quotas)) => (policy, quotas),
        };
        if !self.caller_quotas {
            return Err(Rejection::no_limits("quotas"));
        }
        expect_caller_quotas(&quotas)?;
        let (mut charged, mut in_flight) = (Vec::new(), None);
        for limit in quotas {
            match limit {
                GivenLimit::Quota(quota) => charged.push(quota),
                GivenLimit::InFlight(limit) if in_flight.is_none() => in_flight = Some(limit),
                GivenLimit::InFlight(_) => {
                    return Err(Rejection::bad_field("quotas", "expected at most one limit in flight"));
                }
            }
        }
        let limits = Policy::of_caller(&policy, charged, in_flight).map_err(|error| {
            let field = if error == PolicyError::Name { "policy" } else { "quotas" };
            Rejection::bad_field(field, error.to_string())
        })?;
        Ok(Some(match on_store_failure {
            None | Some(OutageAnswer::Open) => limits,
            Some(OutageAnswer::Closed) => limits.with_on_store_failure(OnStoreFailure::Closed),
        }))
    }
}

fn missing(field: &'static str) -> Rejection {
    Rejection::bad_field(field, "`policy` and `quotas` must be given together")
}
