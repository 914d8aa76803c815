//! Policies, from a file or in code, in place of a limiter and a key: the same that the service decides by.

use std::sync::Arc;

use tollgate::{Answer, AnyStore, Clock, Counted, Step, Store, StoreError};
use tollgate_policy::{CheckError, PolicyDecision, PolicyLimiter};

use crate::Head;
use crate::attributes::{AttributeSources, RequestView, Values};
use crate::boxed::BoxFuture;
use crate::headers::{LimitHeaders, PolicyHeaders};
use crate::taken::Taken;

/// The steps of a [`PolicyLimiter`] that the middleware takes.
pub(crate) trait PolicyEngine: Send + Sync {
    /// The request as the policies see it.
    fn view<'r>(&'r self, head: Head<'r>) -> RequestView<'r>;

    /// The same, with what is known already.
    fn resumed_view<'r>(&'r self, head: Head<'r>, known: Values<'static>) -> RequestView<'r>;

    /// Whether requests are counted for the address that their connection comes from.
    fn counts_peers(&self) -> bool;

    /// See [`PolicyLimiter::check`].
    fn decide<'a>(&'a self, values: &'a Values<'_>, cost: u32, takes: Takes) -> BoxFuture<'a, Decided>;

    /// See [`PolicyLimiter::check_at_once`].
    fn decide_at_once(&self, values: &Values<'_>, cost: u32, takes: Takes) -> Option<Decided>;

    /// What writes the headers of this decision.
    fn limit_headers(&self, decision: &PolicyDecision) -> Arc<LimitHeaders>;
}

/// What becomes of the units that a request takes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Takes {
    ForGood,
    /// Some of them may be given back.
    ToGiveBack,
}

/// What policies say, with what they took where that may be given back.
pub(crate) type Decided = Result<Answered, CheckError>;

type Answered = (PolicyDecision, Option<Box<Taken>>);

/// A limiter, and where it finds what it asks of a request.
pub(crate) struct Attributed<S, C> {
    limiter: Arc<PolicyLimiter<S, C>>,
    store: AnyStore,
    sources: AttributeSources,
    headers: PolicyHeaders,
}

impl<S: Store + 'static, C: Clock + 'static> Attributed<S, C> {
    pub(crate) fn new(limiter: &Arc<PolicyLimiter<S, C>>, sources: AttributeSources) -> Self {
        Self {
            limiter: Arc::clone(limiter),
            store: AnyStore::new(Below(Arc::clone(limiter))),
            sources,
            headers: PolicyHeaders::new(&limiter.live()),
        }
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
        Box::pin(
            async move { Ok(self.decided(self.limiter.check(values, cost).await?, values, cost, takes)) },
        )
    }

    fn decide_at_once(&self, values: &Values<'_>, cost: u32, takes: Takes) -> Option<Decided> {
        let decision = self.limiter.check_at_once(values, cost)?;
        Some(decision.map(|decision| self.decided(decision, values, cost, takes)))
    }

    fn limit_headers(&self, decision: &PolicyDecision) -> Arc<LimitHeaders> {
        self.headers.of(decision)
    }
}

impl<S: Store, C: Clock> Attributed<S, C> {
    /// The decision and what it took, unless there is nothing to settle: no quota applies, or the request is denied.
    fn decided(&self, decision: PolicyDecision, values: &Values<'_>, cost: u32, takes: Takes) -> Answered {
        let settles =
            matches!(takes, Takes::ToGiveBack) && decision.is_allowed() && decision.counted().is_some();
        let taken = settles.then(|| Taken::boxed(&self.store, decision.receipt(values, cost)));
        (decision, taken)
    }
}

/// The store of a limiter, with what its policies say of trouble.
struct Below<S, C>(Arc<PolicyLimiter<S, C>>);

impl<S: Store, C: Clock> Store for Below<S, C> {
    fn step<'a>(
        &'a self,
        step: Step<'a>,
    ) -> Answer<impl Future<Output = Result<Counted, StoreError>> + Send> {
        self.0.fallback().step(step)
    }

    fn step_each<'a>(
        &'a self,
        steps: &'a [Step<'a>],
    ) -> Answer<impl Future<Output = Vec<Result<Counted, StoreError>>> + Send> {
        self.0.fallback().step_each(steps)
    }
}
