//! Policies, from a file or in code, in place of a limiter and a key: the same that the service decides by.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use tollgate::{Clock, Store, StoreError};
use tollgate_policy::{
    Attributes, CheckError, Ground, HeaderFormat, PolicyDecision, PolicyLimiter, Reservation,
};

use crate::attributes::{AttributeError, Tell};
use crate::boxed::BoxFuture;
use crate::headers::LimitHeaders;
use crate::key::Peer;
use crate::taken::Taken;
use crate::{Head, reply};

/// What a request says of itself, for policies: `method`, `path` (the [matched route](Head::route) where there is
/// one) and `ip`, the address that the connection comes from. What a policy needs beyond it is added.
///
/// Behind a proxy that address is the proxy's, and everybody shares one limit: there
/// [`Rule::policies_with`](crate::Rule::policies_with) takes `ip` from a [`ClientAddress`](crate::key::ClientAddress).
/// Where nobody has left the address of the connection, there is no `ip`, and the policies say what that means
/// (`on_missing_key`); with `policies_with` no request passes then.
///
/// ```
/// use tollgate_tower::{Head, attributes};
///
/// fn with_user<'r>(head: Head<'r>) -> tollgate_policy::Attributes<'r> {
///     let mut attributes = attributes(head);
///     if let Some(user) = head.headers().get("x-user").and_then(|user| user.to_str().ok()) {
///         attributes.push("user", user);
///     }
///     attributes
/// }
/// ```
#[must_use]
pub fn attributes<'r>(head: Head<'r>) -> Attributes<'r> {
    let mut attributes = Attributes::default();
    attributes.push("method", head.method().as_str());
    attributes.push("path", head.route().unwrap_or_else(|| head.uri().path()));
    if let Some(address) = Peer::of(head) {
        attributes.push("ip", address.to_string());
    }
    attributes
}

/// The steps of a [`PolicyLimiter`] that the middleware takes.
pub(crate) trait PolicyEngine: Send + Sync {
    /// What the policies are told of this request.
    fn tell<'r>(&'r self, head: Head<'r>) -> Result<Attributes<'r>, AttributeError>;

    /// Whether requests that are told so are counted for the address that their connection comes from.
    fn counts_peers(&self, head: Head<'_>, attributes: &Attributes<'_>) -> bool;

    /// See [`PolicyLimiter::check`] and [`PolicyLimiter::reserve`].
    fn decide<'a, 'r: 'a>(
        &'a self,
        attributes: &'a Attributes<'r>,
        cost: u32,
        takes: Takes,
    ) -> BoxFuture<'a, Decided>;

    /// See [`PolicyLimiter::check_at_once`] and [`PolicyLimiter::reserve_at_once`].
    fn decide_at_once(&self, attributes: &Attributes<'_>, cost: u32, takes: Takes) -> Option<Decided>;

    fn commit(&self, reservation: Reservation, cost: u32) -> BoxFuture<'_, Result<(), StoreError>>;

    fn cancel(&self, reservation: Reservation) -> BoxFuture<'_, Result<(), StoreError>>;
}

/// What becomes of the units that a request takes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Takes {
    ForGood,
    /// Some of them may be given back.
    ToGiveBack,
}

/// What policies say, with what they took where that may be given back.
pub(crate) type Decided = Result<(PolicyDecision, Option<Reservation>), CheckError>;

/// A limiter, and what it is told of a request.
pub(crate) struct Attributed<S, C, F> {
    pub(crate) limiter: Arc<PolicyLimiter<S, C>>,
    pub(crate) attributes: F,
}

impl<S, C, F> PolicyEngine for Attributed<S, C, F>
where
    S: Store,
    C: Clock,
    F: Tell,
{
    fn tell<'r>(&'r self, head: Head<'r>) -> Result<Attributes<'r>, AttributeError> {
        self.attributes.tell(head)
    }

    fn counts_peers(&self, head: Head<'_>, attributes: &Attributes<'_>) -> bool {
        self.attributes.tells_peers(head, attributes)
            && self.limiter.live().policies().attributes().contains("ip")
    }

    fn decide<'a, 'r: 'a>(
        &'a self,
        attributes: &'a Attributes<'r>,
        cost: u32,
        takes: Takes,
    ) -> BoxFuture<'a, Decided> {
        Box::pin(async move {
            match takes {
                Takes::ForGood => self.limiter.check(attributes, cost).await.map(for_good),
                Takes::ToGiveBack => self.limiter.reserve(attributes, cost).await.map(to_give_back),
            }
        })
    }

    fn decide_at_once(&self, attributes: &Attributes<'_>, cost: u32, takes: Takes) -> Option<Decided> {
        Some(match takes {
            Takes::ForGood => self.limiter.check_at_once(attributes, cost)?.map(for_good),
            Takes::ToGiveBack => self.limiter.reserve_at_once(attributes, cost)?.map(to_give_back),
        })
    }

    fn commit(&self, reservation: Reservation, cost: u32) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.limiter.commit(reservation, cost))
    }

    fn cancel(&self, reservation: Reservation) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.limiter.cancel(reservation))
    }
}

fn for_good(decision: PolicyDecision) -> (PolicyDecision, Option<Reservation>) {
    (decision, None)
}

fn to_give_back(
    (decision, reservation): (PolicyDecision, Reservation),
) -> (PolicyDecision, Option<Reservation>) {
    (decision, Some(reservation))
}

/// A request that policies let go on.
pub(crate) struct Admitted {
    pub(crate) decision: PolicyDecision,
    /// What its client is told of its limits.
    pub(crate) headers: HeaderMap,
    pub(crate) taken: Option<Box<Taken>>,
}

/// What the client is told: in the format of the policy that decided.
pub(crate) fn headers(decision: &PolicyDecision) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let is_told = !decision.is_allowed() || decision.headers() != HeaderFormat::None;
    if let Some(counted) = decision.counted().filter(|_| is_told) {
        names(decision).write(counted, &mut headers);
    }
    headers
}

/// The denial, with the status of the policy that decided and without the headers of its limits.
pub(crate) fn denied(request: &HeaderMap, decision: &PolicyDecision) -> Response<Bytes> {
    let status = StatusCode::from_u16(decision.deny_status()).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
    match decision.ground() {
        Ground::MissingKey { policy, no_key } => {
            let detail = format!("policy `{}`: {no_key}", policy.name());
            reply::refused(request, status, &detail, None)
        }
        Ground::Unmatched => reply::refused(request, status, "no policy matches the request", None),
        _ => match decision.counted() {
            Some(counted) => {
                let quotas = decision.quotas().map(|standing| standing.quota);
                let quotas: Vec<_> = quotas.collect();
                reply::denied(request, status, counted, quotas.iter().copied(), &names(decision))
            }
            None => reply::refused(request, status, "denied", None),
        },
    }
}

fn names(decision: &PolicyDecision) -> LimitHeaders {
    let quotas: Vec<_> = decision.quotas().map(|standing| standing.quota).collect();
    LimitHeaders::of(decision.headers().into(), quotas.iter().copied())
}
