//! Policies, from a file or in code, in place of a limiter and a key: the same that the service decides by.

use std::sync::Arc;

use tollgate::{Clock, Store, StoreError};
use tollgate_policy::{CheckError, PolicyDecision, PolicyLimiter, Reservation};

use crate::Head;
use crate::attributes::{AttributeSources, RequestView, Values};
use crate::boxed::BoxFuture;
use crate::headers::{LimitHeaders, PolicyHeaders};

/// The steps of a [`PolicyLimiter`] that the middleware takes.
pub(crate) trait PolicyEngine: Send + Sync {
    /// The request as the policies see it.
    fn view<'r>(&'r self, head: Head<'r>) -> RequestView<'r>;

    /// The same, with what is known already.
    fn resumed_view<'r>(&'r self, head: Head<'r>, known: Values<'static>) -> RequestView<'r>;

    /// Whether requests are counted for the address that their connection comes from.
    fn counts_peers(&self) -> bool;

    /// See [`PolicyLimiter::check`] and [`PolicyLimiter::reserve`].
    fn decide<'a>(&'a self, values: &'a Values<'_>, cost: u32, takes: Takes) -> BoxFuture<'a, Decided>;

    /// See [`PolicyLimiter::check_at_once`] and [`PolicyLimiter::reserve_at_once`].
    fn decide_at_once(&self, values: &Values<'_>, cost: u32, takes: Takes) -> Option<Decided>;

    /// What writes the headers of this decision.
    fn limit_headers(&self, decision: &PolicyDecision) -> Arc<LimitHeaders>;

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

/// A limiter, and where it finds what it asks of a request.
pub(crate) struct Attributed<S, C> {
    limiter: Arc<PolicyLimiter<S, C>>,
    sources: AttributeSources,
    headers: PolicyHeaders,
}

impl<S, C> Attributed<S, C> {
    pub(crate) fn new(limiter: &Arc<PolicyLimiter<S, C>>, sources: AttributeSources) -> Self {
        Self { limiter: Arc::clone(limiter), sources, headers: PolicyHeaders::new(&limiter.live()) }
    }
}

impl<S: Store, C: Clock> PolicyEngine for Attributed<S, C> {
    fn view<'r>(&'r self, head: Head<'r>) -> RequestView<'r> {
        self.sources.view(head)
    }

    fn resumed_view<'r>(&'r self, head: Head<'r>, known: Values<'static>) -> RequestView<'r> {
        RequestView::resumed(&self.sources, head, known)
    }

    fn counts_peers(&self) -> bool {
        self.sources.tells_peers() && self.limiter.live().policies().attributes().contains("ip")
    }

    fn decide<'a>(&'a self, values: &'a Values<'_>, cost: u32, takes: Takes) -> BoxFuture<'a, Decided> {
        Box::pin(async move {
            match takes {
                Takes::ForGood => self.limiter.check(values, cost).await.map(for_good),
                Takes::ToGiveBack => self.limiter.reserve(values, cost).await.map(to_give_back),
            }
        })
    }

    fn decide_at_once(&self, values: &Values<'_>, cost: u32, takes: Takes) -> Option<Decided> {
        Some(match takes {
            Takes::ForGood => self.limiter.check_at_once(values, cost)?.map(for_good),
            Takes::ToGiveBack => self.limiter.reserve_at_once(values, cost)?.map(to_give_back),
        })
    }

    fn limit_headers(&self, decision: &PolicyDecision) -> Arc<LimitHeaders> {
        self.headers.of(decision)
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

/// What was reserved, unless there is nothing to settle: no quota applies, or the request is denied.
fn to_give_back(
    (decision, reservation): (PolicyDecision, Reservation),
) -> (PolicyDecision, Option<Reservation>) {
    let settles = decision.is_allowed() && decision.counted().is_some();
    (decision, settles.then_some(reservation))
}
