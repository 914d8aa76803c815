//! One limiter, for one key.

use std::sync::Arc;

use http::StatusCode;
use smallvec::SmallVec;
use tollgate::{
    Answer, AnswerError, AnyStore, Charge, Counted, Counter, Key, PolicyQuota, Receipt, ReceiptItem,
    SharedLimiter, Step, Store, StoreError,
};

use crate::Head;
use crate::engine::{Allowed, Decided, DeniedBy, Engine, Later, Takes};
use crate::headers::LimitHeaders;
use crate::key::{Identity, KeyExtractor};
use crate::taken::Taken;

/// One limiter, for the key that an extractor finds.
#[derive(Clone)]
pub(crate) struct ByKey {
    limiter: SharedLimiter<AnyStore>,
    extractor: Arc<dyn KeyExtractor>,
    limit_headers: Arc<LimitHeaders>,
}

impl ByKey {
    pub(crate) fn new(
        limiter: SharedLimiter<AnyStore>,
        extractor: Arc<dyn KeyExtractor>,
        limit_headers: Arc<LimitHeaders>,
    ) -> Self {
        Self { limiter, extractor, limit_headers }
    }
}

impl Engine for ByKey {
    /// A processor waits for what it has just written in other pieces than it reads. So the key stays where it is.
    #[inline]
    fn decide(&self, head: Head<'_>, cost: u32, takes: &Takes) -> Result<Decided, Later> {
        let found = self.extractor.extract(head);
        let key = match &found {
            Answer::Now(Ok(Identity::Known(key))) => key,
            Answer::Now(Ok(Identity::Missing(missing))) => return Ok(Decided::missing(missing)),
            Answer::Now(Err(invalid)) => return Ok(Decided::Invalid(invalid.clone())),
            Answer::Later(_) => return Err(self.later(None, cost, takes)),
        };
        match self.charge_at_once(key, cost) {
            Some(answer) => Ok(self.decided(answer, key, cost, takes)),
            None => Err(self.later(Some(key), cost, takes)),
        }
    }

    fn counts_peers(&self) -> bool {
        self.extractor.counts_peers()
    }
}

impl ByKey {
    /// Goes on with the key, if it is known already.
    #[inline(never)]
    fn later(&self, known: Option<&Key<'_>>, cost: u32, takes: &Takes) -> Later {
        let (by, known, takes) = (self.clone(), known.map(|key| key.clone().into_owned()), takes.clone());
        Box::new(move |head| Box::pin(by.decide_later(head, known, cost, takes)))
    }

    async fn decide_later(
        self,
        head: Head<'_>,
        known: Option<Key<'static>>,
        cost: u32,
        takes: Takes,
    ) -> Decided {
        let key = match known {
            Some(key) => key,
            None => match self.extractor.extract(head).await {
                Ok(Identity::Known(key)) => key.into_owned(),
                Ok(Identity::Missing(missing)) => return Decided::missing(&missing),
                Err(invalid) => return Decided::Invalid(invalid),
            },
        };
        let (by, may_give_back) = (self.clone(), takes.clone());
        let step = async move {
            let charges = charges(by.limiter.quotas(), &key, cost);
            let answer = by.limiter.store().step(Step::Charge(&charges)).await;
            by.decided(answer, &key, cost, &may_give_back)
        };
        takes.take(step, Decided::into_taken).await
    }

    /// Charges the key, if the store answers at once. `None` if it has to be waited for, and then nothing was charged.
    #[inline]
    fn charge_at_once(&self, key: &Key<'_>, cost: u32) -> Option<Result<Counted, StoreError>> {
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

    #[inline]
    fn decided(
        &self,
        answer: Result<Counted, StoreError>,
        key: &Key<'_>,
        cost: u32,
        takes: &Takes,
    ) -> Decided {
        match answer {
            Ok(counted) if counted.len() != self.limiter.quotas().len() => {
                Decided::Failed(AnswerError::Nonsense.into())
            }
            Ok(counted) if counted.is_admitted() => {
                let taken = takes.may_give_back().then(|| self.taken(key, cost, &counted));
                Decided::Allowed(Allowed { counted: Some(counted), taken, ..Allowed::default() })
            }
            Ok(counted) => Decided::Denied(
                StatusCode::TOO_MANY_REQUESTS,
                DeniedBy::Quotas(counted, Arc::clone(&self.limit_headers)),
            ),
            Err(error) => Decided::Failed(error),
        }
    }

    fn taken(&self, key: &Key<'_>, cost: u32, counted: &Counted) -> Box<Taken> {
        let items = self.limiter.quotas().iter().zip(counted);
        let receipt: Receipt = items
            .map(|(quota, state)| ReceiptItem::of(Counter::new(quota, key), state).with_cost(cost))
            .collect();
        Taken::boxed(self.limiter.store(), receipt)
    }
}

fn charges<'a>(quotas: &'a [PolicyQuota], key: &'a Key<'a>, cost: u32) -> SmallVec<[Charge<'a>; 2]> {
    quotas.iter().map(|quota| Charge::new(quota, key, cost)).collect()
}
