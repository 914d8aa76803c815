//! A rule as it is applied: from the head of a request to a ruling.
//!
//! ```text
//! head ─▶ skip ─▶ extractor ─▶ cost ─▶ limiter ─▶ ruling
//!                 whom it is   how     one step   pass, admit
//!                 counted for  much               or a reply
//! ```

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCESS_CONTROL_EXPOSE_HEADERS, RETRY_AFTER};
use http::{Extensions, HeaderMap, HeaderValue, Request, Response, StatusCode};
use smallvec::SmallVec;
use tollgate::{
    Answer, AnswerError, AnyStore, Charge, Counted, Counter, Key, PolicyQuota, QuotaState, ReceiptItem,
    SharedLimiter, Step, Store, StoreError, whole_seconds,
};
#[cfg(feature = "policy")]
use tollgate_policy::PolicyDecision;

use crate::after::After;
#[cfg(feature = "policy")]
use crate::attributes::Values;
use crate::headers::{HeaderFormat, LimitHeaders};
use crate::key::{Fault, Identity, Invalid, KeyExtractor, Missing};
#[cfg(feature = "policy")]
use crate::policies::PolicyEngine;
use crate::reserving::Reserving;
use crate::rule::{Cost, OnInvalid, OnMissing, OnStoreError, RefundIf, Skip};
use crate::taken::Taken;
use crate::warning::{Warning, Warnings};
use crate::{Denial, Head, reply};

/// What holds for every rule of a layer.
pub(crate) struct Settings {
    pub(crate) leaves: Leaves,
    pub(crate) exposes: Exposes,
    /// The most seconds that are added to `Retry-After`.
    pub(crate) retry_jitter: u64,
    pub(crate) on_denied: Option<Box<OnDenied>>,
    pub(crate) on_trouble: Option<Box<OnTrouble>>,
    pub(crate) warnings: Warnings,
}

/// What is left for the inner service in the extensions of a request, beside a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaves {
    Decisions,
    Nothing,
}

/// What scripts of other origins may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exposes {
    Nothing,
    LimitHeaders,
}

pub(crate) type OnDenied = dyn Fn(&Denial<'_>, Response<Bytes>) -> Response<Bytes> + Send + Sync;
pub(crate) type OnTrouble = dyn Fn(&StoreError, Response<Bytes>) -> Response<Bytes> + Send + Sync;

/// In the extensions of a denial: layers around this one leave it as it is.
#[derive(Clone, Copy)]
pub(crate) struct Denied;

/// A rule with everything filled in.
pub(crate) struct Gate {
    pub(crate) counting: Counting,
    pub(crate) cost: Cost,
    pub(crate) reserves: bool,
    pub(crate) skip: Option<Arc<Skip>>,
    pub(crate) refund_if: Option<Arc<RefundIf>>,
    pub(crate) on_missing: OnMissing,
    pub(crate) on_invalid: OnInvalid,
    pub(crate) on_store_error: OnStoreError,
    pub(crate) when_full: OnStoreError,
    pub(crate) settings: Arc<Settings>,
}

/// Who counts a request, and for whom.
pub(crate) enum Counting {
    ByKey(ByKey),
    #[cfg(feature = "policy")]
    ByPolicies(Arc<dyn PolicyEngine>),
}

/// One limiter, for one key.
pub(crate) struct ByKey {
    pub(crate) limiter: SharedLimiter<AnyStore>,
    pub(crate) extractor: Arc<dyn KeyExtractor>,
    pub(crate) counts_peers: bool,
    pub(crate) limit_headers: LimitHeaders,
}

/// What becomes of a request.
pub(crate) enum Ruling {
    /// It goes on uncounted.
    Pass,
    /// It goes on. What it took is there if some of it may be given back.
    Admit(Counted, Option<Box<Taken>>),
    #[cfg(feature = "policy")]
    AdmitByPolicies(Box<Admitted>),
    /// It does not go on.
    Refuse(Box<Response<Bytes>>),
}

/// A request that policies let go on.
#[cfg(feature = "policy")]
pub(crate) struct Admitted {
    pub(crate) decision: PolicyDecision,
    /// What writes the headers of it, if quotas decided.
    pub(crate) told_by: Option<Arc<LimitHeaders>>,
    pub(crate) taken: Option<Box<Taken>>,
}

/// How far a request gets without waiting.
pub(crate) enum AtOnce {
    GoesOn(After),
    /// It does not go on.
    Refused(Box<Response<Bytes>>),
    /// The store has to be waited for or, where it is not known what to ask it, the extractor before.
    Waits(Option<Asked>),
}

/// What is asked of a store that has to be waited for.
pub(crate) enum Asked {
    ByKey {
        key: Key<'static>,
        cost: u32,
    },
    #[cfg(feature = "policy")]
    ByPolicies {
        /// In a box, so that the way of those who need not wait moves less.
        known: Box<Values<'static>>,
        cost: u32,
    },
}

impl Gate {
    /// Goes as far as it can without waiting.
    #[inline]
    pub(crate) fn at_once<B>(self: &Arc<Self>, request: &mut Request<B>) -> AtOnce {
        if self.skip.as_ref().is_some_and(|skip| skip(Head::from(&*request))) {
            return AtOnce::GoesOn(After::Nothing);
        }
        match &self.counting {
            Counting::ByKey(by_key) => self.by_key_at_once(by_key, request),
            #[cfg(feature = "policy")]
            Counting::ByPolicies(engine) => match self.by_policies_at_once(engine, Head::from(&*request)) {
                Ok(ruling) => self.ruled(ruling, request.extensions_mut()),
                Err(asked) => AtOnce::Waits(Some(asked)),
            },
        }
    }

    /// A processor waits for what it has just written in other pieces than it reads. So the key stays where it is, and
    /// the states by which the request goes on are put at once to where they are kept, and never into a [`Ruling`].
    #[inline]
    fn by_key_at_once<B>(self: &Arc<Self>, by_key: &ByKey, request: &mut Request<B>) -> AtOnce {
        let head = Head::from(&*request);
        if by_key.counts_peers {
            self.settings.warnings.look_for_proxy(head, || true);
        }
        let found = by_key.extractor.extract(head);
        let Answer::Now(extracted) = &found else { return AtOnce::Waits(None) };
        let key = match extracted {
            Ok(Identity::Known(key)) => key,
            Ok(Identity::Missing(missing)) => {
                let ruling = self.missing(by_key, head, missing);
                drop(found);
                return self.ruled(ruling, request.extensions_mut());
            }
            Err(invalid) => {
                let ruling = self.invalid(head, invalid);
                drop(found);
                return self.ruled(ruling, request.extensions_mut());
            }
        };
        let cost = self.cost(head);
        let Some(answer) = by_key.charge_at_once(key, cost) else {
            return AtOnce::Waits(Some(Asked::ByKey { key: key.clone().into_owned(), cost }));
        };
        let ruling = match answer {
            Ok(counted) if !by_key.is_whole(&counted) => self.nonsense(Head::from(&*request)),
            Ok(counted) if counted.is_admitted() => {
                let taken = self.gives_back().then(|| taken(&by_key.limiter, key, cost, &counted));
                drop(found);
                return AtOnce::GoesOn(After::admitted(self, counted, taken, request.extensions_mut()));
            }
            Ok(counted) => self.deny_by_key(by_key, Head::from(&*request), &counted),
            Err(error) => self.trouble(Head::from(&*request), &error),
        };
        drop(found);
        self.ruled(ruling, request.extensions_mut())
    }

    /// Apart, so that the way of those who are counted by key and go on is short.
    #[inline(never)]
    fn ruled(self: &Arc<Self>, ruling: Ruling, extensions: &mut Extensions) -> AtOnce {
        match After::admitting(self, ruling, extensions) {
            Ok(after) => AtOnce::GoesOn(after),
            Err(reply) => AtOnce::Refused(reply),
        }
    }

    /// Goes on from there.
    pub(crate) async fn later(self: &Arc<Self>, head: Head<'_>, known: Option<Asked>) -> Ruling {
        match &self.counting {
            Counting::ByKey(by_key) => self.by_key_later(by_key, head, known).await,
            #[cfg(feature = "policy")]
            Counting::ByPolicies(engine) => {
                let Some(Asked::ByPolicies { known, cost }) = known else {
                    unreachable!("what policies know and cost is taken along")
                };
                self.by_policies_later(engine, head, known, cost).await
            }
        }
    }

    async fn by_key_later(self: &Arc<Self>, by_key: &ByKey, head: Head<'_>, known: Option<Asked>) -> Ruling {
        let (key, cost) = match known {
            Some(Asked::ByKey { key, cost }) => (key, cost),
            _ => match by_key.extractor.extract(head).await {
                Ok(Identity::Known(key)) => (key, self.cost(head)),
                Ok(Identity::Missing(missing)) => return self.missing(by_key, head, &missing),
                Err(invalid) => return self.invalid(head, &invalid),
            },
        };
        let (answer, taken) = if self.reserves {
            let (limiter, key) = (by_key.limiter.clone(), key.into_owned());
            let step = async move {
                let answer = charge(&limiter, &key, cost).await;
                let taken = admitted(&answer).map(|counted| taken(&limiter, &key, cost, counted));
                (answer, taken)
            };
            Reserving::new(self, step).await
        } else {
            let answer = charge(&by_key.limiter, &key, cost).await;
            let admitted = admitted(&answer).filter(|_| self.gives_back());
            let taken = admitted.map(|counted| taken(&by_key.limiter, &key, cost, counted));
            (answer, taken)
        };
        match answer {
            Ok(counted) if !by_key.is_whole(&counted) => self.nonsense(head),
            Ok(counted) if counted.is_admitted() => Ruling::Admit(counted, taken),
            Ok(counted) => self.deny_by_key(by_key, head, &counted),
            Err(error) => self.trouble(head, &error),
        }
    }

    /// Whether something of what was taken may be given back.
    pub(crate) fn gives_back(&self) -> bool {
        self.reserves || self.refund_if.is_some()
    }

    pub(crate) fn cost(&self, head: Head<'_>) -> u32 {
        match &self.cost {
            Cost::Fixed(cost) => *cost,
            Cost::Of(cost) => cost(head),
        }
    }

    /// What writes the headers of every decision, where that is the same for all.
    pub(crate) fn limit_headers(&self) -> Option<&LimitHeaders> {
        match &self.counting {
            Counting::ByKey(by_key) => Some(&by_key.limit_headers),
            #[cfg(feature = "policy")]
            Counting::ByPolicies(_) => None,
        }
    }

    /// Lets scripts of other origins read what the client is told.
    pub(crate) fn expose(&self, format: HeaderFormat, headers: &mut HeaderMap) {
        if self.settings.exposes == Exposes::LimitHeaders {
            // Beside what the service exposes itself: browsers unite the lines.
            headers.append(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(format.exposed()));
        }
    }

    #[cold]
    fn missing(&self, by_key: &ByKey, head: Head<'_>, missing: &Missing<'_>) -> Ruling {
        if missing.fault() == Fault::Setup {
            let no_peer = by_key.counts_peers;
            let warning = if no_peer { Warning::NoPeerAddress } else { Warning::NoIdentityBySetup };
            self.settings.warnings.give(warning);
        } else if self.on_missing == OnMissing::Skip {
            return Ruling::Pass;
        }
        refuse(reply::missing(head.headers(), missing, &self.on_missing))
    }

    #[cold]
    pub(crate) fn invalid(&self, head: Head<'_>, invalid: &Invalid) -> Ruling {
        refuse(reply::invalid(head.headers(), invalid, &self.on_invalid))
    }

    #[cold]
    fn deny_by_key(&self, by_key: &ByKey, head: Head<'_>, counted: &Counted) -> Ruling {
        let (quotas, told_by) = (by_key.limiter.quotas(), &by_key.limit_headers);
        self.deny(head, StatusCode::TOO_MANY_REQUESTS, counted, quotas.iter(), told_by)
    }

    /// Apart, so that the way of those who go on is short.
    #[cold]
    pub(crate) fn deny<'q>(
        &self,
        head: Head<'_>,
        status: StatusCode,
        counted: &Counted,
        mut quotas: impl Iterator<Item = &'q PolicyQuota> + Clone,
        told_by: &LimitHeaders,
    ) -> Ruling {
        let mut denied = reply::denied(head.headers(), status, counted, quotas.clone(), told_by);
        told_by.write(counted, denied.headers_mut());
        self.expose(told_by.format(), denied.headers_mut());
        let denial = Denial::new(Some(counted), quotas.nth(counted.deciding()), head);
        refuse(self.denied(&denial, denied))
    }

    /// The denial, with what every rule of the layer adds to it.
    pub(crate) fn denied(&self, denial: &Denial<'_>, mut denied: Response<Bytes>) -> Response<Bytes> {
        let wait = denial.state().and_then(QuotaState::retry_after);
        if let Some(wait) = wait.filter(|_| self.settings.retry_jitter > 0) {
            let jitter = fastrand::u64(0..=self.settings.retry_jitter);
            denied.headers_mut().insert(RETRY_AFTER, whole_seconds(wait).saturating_add(jitter).into());
        }
        let mut denied = match &self.settings.on_denied {
            Some(on_denied) if !reply::is_grpc(denial.head().headers()) => on_denied(denial, denied),
            _ => denied,
        };
        denied.extensions_mut().insert(Denied);
        denied
    }

    /// An answer that is none.
    #[cold]
    fn nonsense(&self, head: Head<'_>) -> Ruling {
        self.trouble(head, &AnswerError::Nonsense.into())
    }

    pub(crate) fn trouble(&self, head: Head<'_>, error: &StoreError) -> Ruling {
        let answer = match error {
            StoreError::Trouble { .. } => self.on_store_error,
            StoreError::Full => self.when_full,
            // Not trouble: no policy for a store in trouble is one for quotas that do not fit it.
            StoreError::Uncountable(_) => {
                self.settings.warnings.give(Warning::Uncountable);
                OnStoreError::Refuse
            }
        };
        if answer == OnStoreError::Admit {
            return Ruling::Pass;
        }
        let reply = reply::store_error(head.headers(), error);
        refuse(match &self.settings.on_trouble {
            Some(on_trouble) if !reply::is_grpc(head.headers()) => on_trouble(error, reply),
            _ => reply,
        })
    }
}

impl ByKey {
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

    /// Whether this says where each quota stands.
    fn is_whole(&self, counted: &Counted) -> bool {
        counted.len() == self.limiter.quotas().len()
    }
}

/// Charges the key, also where the store has to be waited for.
async fn charge(limiter: &SharedLimiter<AnyStore>, key: &Key<'_>, cost: u32) -> Result<Counted, StoreError> {
    limiter.store().step(Step::Charge(&charges(limiter.quotas(), key, cost))).await
}

fn charges<'a>(quotas: &'a [PolicyQuota], key: &'a Key<'a>, cost: u32) -> SmallVec<[Charge<'a>; 2]> {
    quotas.iter().map(|quota| Charge::new(quota, key, cost)).collect()
}

fn admitted(answer: &Result<Counted, StoreError>) -> Option<&Counted> {
    answer.as_ref().ok().filter(|counted| counted.is_admitted())
}

/// What a request took that was admitted so.
fn taken(limiter: &SharedLimiter<AnyStore>, key: &Key<'_>, cost: u32, counted: &Counted) -> Box<Taken> {
    let items = limiter.quotas().iter().zip(counted);
    let items = items.map(|(quota, state)| ReceiptItem::of(Counter::new(quota, key), state).with_cost(cost));
    Taken::boxed(limiter.store(), items.collect())
}

/// In a box, so that the way of those who go on moves less; a reply allocates anyhow.
pub(crate) fn refuse(reply: Response<Bytes>) -> Ruling {
    Ruling::Refuse(Box::new(reply))
}

/// Seconds, rounded up, or none at all.
pub(crate) fn jitter_seconds(jitter: Duration) -> u64 {
    if jitter.is_zero() { 0 } else { whole_seconds(jitter) }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quotas = match &self.counting {
            Counting::ByKey(by_key) => Some(by_key.limiter.quotas()),
            #[cfg(feature = "policy")]
            Counting::ByPolicies(_) => None,
        };
        f.debug_struct("Gate").field("quotas", &quotas).finish_non_exhaustive()
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").finish_non_exhaustive()
    }
}
