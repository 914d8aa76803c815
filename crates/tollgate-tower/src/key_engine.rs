//! A rule's engine: one limiter and one key.

use std::sync::Arc;

use http::{Extensions, Request, StatusCode};
use smallvec::SmallVec;
use tollgate::{
    Answer, AnswerError, AnyStore, Charge, Counter, Key, PolicyQuota, QuotaStates, ReceiptItem,
    SharedLimiter, Step, Store, StoreError,
};
use tollgate_wire::headers::LimitHeaders;

use crate::head::Head;
use crate::key::{Identity, KeyExtractor};
use crate::outcome::{AdmittedRequest, DenialCause, PendingDecision, RequestOutcome, UnitHandling};
use crate::reservation::HeldReceipt;

/// One limiter, for the key that an extractor finds.
#[derive(Clone)]
pub(crate) struct KeyEngine {
    limiter: SharedLimiter<AnyStore>,
    extractor: Arc<dyn KeyExtractor>,
    limit_headers: Arc<LimitHeaders>,
}

impl KeyEngine {
    pub(crate) fn new(
        limiter: SharedLimiter<AnyStore>,
        extractor: Arc<dyn KeyExtractor>,
        limit_headers: Arc<LimitHeaders>,
    ) -> Self {
        Self { limiter, extractor, limit_headers }
    }
}

impl KeyEngine {
    /// Decides on a request of this cost. If it is admitted immediately, `allow` receives the states of its quotas and
    /// the charged units. Neither the key nor the states are moved before that, because reading them right after
    /// writing them in other pieces stalls the processor. Everything else is boxed, so that this returns in registers.
    #[inline(always)]
    pub(crate) fn decide<B, T>(
        &self,
        request: &mut Request<B>,
        cost: u32,
        handling: &UnitHandling,
        allow: impl FnOnce(QuotaStates, Option<Box<HeldReceipt>>, &mut Extensions) -> T,
    ) -> Result<T, Box<Result<RequestOutcome, PendingDecision>>> {
        let found = self.extractor.extract(Head::from(&*request));
        let key = match &found {
            Answer::Now(Ok(Identity::Known(key))) => key,
            Answer::Now(Ok(Identity::Missing(missing))) => {
                return Err(Box::new(Ok(RequestOutcome::missing(missing))));
            }
            Answer::Now(Err(invalid)) => return Err(Box::new(Ok(RequestOutcome::Invalid(invalid.clone())))),
            Answer::Later(_) => return Err(self.later(None, cost, handling)),
        };
        match self.charge_at_once(key, cost) {
            Some(Ok(counted)) if self.is_whole(&counted) && counted.is_admitted() => {
                let taken = self.taken(key, cost, handling, &counted);
                drop(found);
                Ok(allow(counted, taken, request.extensions_mut()))
            }
            Some(answer) => Err(self.not_allowed(answer, key, cost, handling)),
            None => Err(self.later(Some(key), cost, handling)),
        }
    }

    /// Returns whether both count the same keys with the same limiter.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.limiter.quotas(), other.limiter.quotas())
            && Arc::ptr_eq(&self.extractor, &other.extractor)
    }

    pub(crate) fn counts_peers(&self) -> bool {
        self.extractor.counts_peers()
    }

    /// The name of the limiter's policy, which all its quotas have.
    pub(crate) fn policy(&self) -> &str {
        self.limiter.quotas().first().map_or("", PolicyQuota::policy)
    }

    #[cold]
    #[inline(never)]
    fn not_allowed(
        &self,
        answer: Result<QuotaStates, StoreError>,
        key: &Key<'_>,
        cost: u32,
        handling: &UnitHandling,
    ) -> Box<Result<RequestOutcome, PendingDecision>> {
        Box::new(Ok(self.decided(answer, key, cost, handling)))
    }

    /// Continues with the key, if it is known.
    #[inline(never)]
    fn later(
        &self,
        known: Option<&Key<'_>>,
        cost: u32,
        handling: &UnitHandling,
    ) -> Box<Result<RequestOutcome, PendingDecision>> {
        let (by, known, handling) =
            (self.clone(), known.map(|key| key.clone().into_owned()), handling.clone());
        let later: PendingDecision =
            Box::new(move |head| Box::pin(by.decide_later(head, known, cost, handling)));
        Box::new(Err(later))
    }

    async fn decide_later(
        self,
        head: Head<'_>,
        known: Option<Key<'static>>,
        cost: u32,
        handling: UnitHandling,
    ) -> RequestOutcome {
        let key = match known {
            Some(key) => key,
            None => match self.extractor.extract(head).await {
                Ok(Identity::Known(key)) => key.into_owned(),
                Ok(Identity::Missing(missing)) => return RequestOutcome::missing(&missing),
                Err(invalid) => return RequestOutcome::Invalid(invalid),
            },
        };
        let (by, may_give_back) = (self.clone(), handling.clone());
        let step = async move {
            let charges = charges(by.limiter.quotas(), &key, cost);
            let answer = by.limiter.store().step(Step::Charge(&charges)).await;
            by.decided(answer, &key, cost, &may_give_back)
        };
        handling.take(step, RequestOutcome::into_taken).await
    }

    /// Charges the key, if the store answers immediately. Returns `None` if it does not; nothing was charged then.
    #[inline]
    fn charge_at_once(&self, key: &Key<'_>, cost: u32) -> Option<Result<QuotaStates, StoreError>> {
        let quotas = &**self.limiter.quotas();
        let charge_all = |charges: &[Charge<'_>]| match self.limiter.store().step(Step::Charge(charges)) {
            Answer::Now(answer) => Some(answer),
            Answer::Later(_) => None,
        };
        match quotas {
            // The usual case, without a list.
            [quota] => charge_all(&[Charge::new(quota, key, cost)]),
            quotas => charge_all(&charges(quotas, key, cost)),
        }
    }

    fn decided(
        &self,
        answer: Result<QuotaStates, StoreError>,
        key: &Key<'_>,
        cost: u32,
        handling: &UnitHandling,
    ) -> RequestOutcome {
        match answer {
            Ok(counted) if !self.is_whole(&counted) => RequestOutcome::Failed(AnswerError::Nonsense.into()),
            Ok(counted) if counted.is_admitted() => {
                let taken = self.taken(key, cost, handling, &counted);
                RequestOutcome::Allowed(AdmittedRequest {
                    counted: Some(counted),
                    taken,
                    ..AdmittedRequest::default()
                })
            }
            Ok(counted) => RequestOutcome::Denied(
                StatusCode::TOO_MANY_REQUESTS,
                DenialCause::Quotas(counted, Arc::clone(&self.limit_headers)),
            ),
            Err(error) => RequestOutcome::Failed(error),
        }
    }

    /// Returns whether this is the state of each quota.
    fn is_whole(&self, counted: &QuotaStates) -> bool {
        counted.len() == self.limiter.quotas().len()
    }

    /// Returns the units charged for an admitted request, if they may be given back.
    fn taken(
        &self,
        key: &Key<'_>,
        cost: u32,
        handling: &UnitHandling,
        counted: &QuotaStates,
    ) -> Option<Box<HeldReceipt>> {
        if !handling.may_give_back() {
            return None;
        }
        let items = self.limiter.quotas().iter().zip(counted);
        let items =
            items.map(|(quota, state)| ReceiptItem::of(Counter::new(quota, key), state).with_cost(cost));
        Some(HeldReceipt::boxed(self.limiter.store(), items.collect()))
    }
}

fn charges<'a>(quotas: &'a [PolicyQuota], key: &'a Key<'a>, cost: u32) -> SmallVec<[Charge<'a>; 2]> {
    quotas.iter().map(|quota| Charge::new(quota, key, cost)).collect()
}
