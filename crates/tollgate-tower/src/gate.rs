//! A rule as it is applied: from the head of a request to a ruling.
//!
//! ```text
//! head ─▶ skip ─▶ extractor ─▶ cost ─▶ engine ─▶ ruling
//!                 whom it is   how     one step  pass, admit
//!                 counted for  much              or a reply
//! ```

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCESS_CONTROL_EXPOSE_HEADERS, RETRY_AFTER};
use http::{Extensions, HeaderMap, HeaderValue, Request, Response, StatusCode};
use tollgate::{Decision, Key, StoreError, whole_seconds};

use crate::after::After;
use crate::engine::Engine;
use crate::extractor::Extractor;
use crate::headers::{HeaderFormat, LimitHeaders};
use crate::key::{Fault, Identity, Invalid, Missing};
#[cfg(feature = "policy")]
use crate::policies::{Admitted, PolicyEngine};
use crate::reserving::Reserving;
use crate::rule::{Cost, OnInvalid, OnMissing, OnStoreError, RefundIf, Skip};
use crate::taken::Taken;
use crate::warning::{Warning, Warnings};
use crate::{Denial, Head, reply};

/// What holds for every rule of a layer.
pub(crate) struct Settings {
    pub(crate) leaves: Leaves,
    pub(crate) exposes: Option<HeaderValue>,
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
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) extractor: Extractor,
    pub(crate) counts_peers: bool,
    pub(crate) limit_headers: LimitHeaders,
}

/// What becomes of a request.
pub(crate) enum Ruling {
    /// It goes on uncounted.
    Pass,
    /// It goes on. What it took is there if some of it may be given back.
    Admit(Decision, Option<Box<Taken>>),
    #[cfg(feature = "policy")]
    AdmitByPolicies(Box<Admitted>),
    /// It does not go on.
    Refuse(Box<Response<Bytes>>),
}

/// How far a request gets without waiting.
pub(crate) enum AtOnce {
    GoesOn(After),
    /// It does not go on.
    Refused(Box<Response<Bytes>>),
    /// The store has to be waited for or, where it is not known what to ask it, the extractor before.
    Waits(Option<Asked>),
}

/// What is asked of the engine.
pub(crate) struct Asked {
    key: Key<'static>,
    cost: u32,
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
                Some(ruling) => self.ruled(ruling, request.extensions_mut()),
                None => AtOnce::Waits(None),
            },
        }
    }

    /// A processor waits for what it has just written in other pieces than it reads. So the key stays where it is, and
    /// a decision by which the request goes on is put at once to where it is kept, and never into a [`Ruling`].
    #[inline]
    fn by_key_at_once<B>(self: &Arc<Self>, by_key: &ByKey, request: &mut Request<B>) -> AtOnce {
        let head = Head::from(&*request);
        if by_key.counts_peers {
            self.settings.warnings.look_for_proxy(head, || true);
        }
        let Extractor::Now(extractor) = &by_key.extractor else { return AtOnce::Waits(None) };
        let extracted = extractor.extract(head);
        let key = match &extracted {
            Ok(Identity::Known(key)) => key,
            Ok(Identity::Missing(missing)) => {
                let ruling = self.missing(by_key, head, missing);
                drop(extracted);
                return self.ruled(ruling, request.extensions_mut());
            }
            Err(invalid) => {
                let ruling = self.invalid(head, invalid);
                drop(extracted);
                return self.ruled(ruling, request.extensions_mut());
            }
        };
        let cost = self.cost(head);
        let Some(answer) = by_key.engine.check_now(key, cost) else {
            return AtOnce::Waits(Some(Asked { key: key.clone().into_owned(), cost }));
        };
        let taken = self.taken(by_key, key, cost, &answer);
        drop(extracted);
        let ruling = match answer {
            Ok(decision) if decision.is_allowed() => {
                return AtOnce::GoesOn(After::admitted(self, decision, taken, request.extensions_mut()));
            }
            Ok(decision) => self.deny(by_key, Head::from(&*request), &decision),
            Err(error) => self.trouble(Head::from(&*request), &error),
        };
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
        #[allow(
            clippy::infallible_destructuring_match,
            reason = "with the feature `policy` there is another"
        )]
        let by_key = match &self.counting {
            Counting::ByKey(by_key) => by_key,
            #[cfg(feature = "policy")]
            Counting::ByPolicies(engine) => return self.by_policies_later(engine, head).await,
        };
        let (key, cost) = match (known, &by_key.extractor) {
            (Some(Asked { key, cost }), _) => (key, cost),
            (None, extractor) => {
                let extracted = match extractor {
                    Extractor::Now(extractor) => extractor.extract(head),
                    Extractor::Later(extractor) => extractor.extract(head).await,
                };
                match extracted {
                    Ok(Identity::Known(key)) => (key, self.cost(head)),
                    Ok(Identity::Missing(missing)) => return self.missing(by_key, head, &missing),
                    Err(invalid) => return self.invalid(head, &invalid),
                }
            }
        };
        let (answer, taken) = if self.reserves {
            let (engine, key) = (Arc::clone(&by_key.engine), key.into_owned());
            let step = async move {
                let answer = engine.check(&key, cost).await;
                let taken = Taken::by_key(&engine, key, cost, &answer);
                (answer, taken)
            };
            Reserving::new(self, step).await
        } else {
            let answer = by_key.engine.check(&key, cost).await;
            let taken = self.taken(by_key, &key, cost, &answer);
            (answer, taken)
        };
        self.rule(by_key, head, answer, taken)
    }

    /// What was taken, if something of it may be given back.
    fn taken(
        &self,
        by_key: &ByKey,
        key: &Key<'_>,
        cost: u32,
        answer: &Result<Decision, StoreError>,
    ) -> Option<Box<Taken>> {
        if !self.gives_back() {
            return None;
        }
        Taken::by_key(&by_key.engine, key.clone().into_owned(), cost, answer)
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

    /// Whether an admitted request is told where its decision leaves it.
    pub(crate) fn tells(&self) -> bool {
        match &self.counting {
            Counting::ByKey(by_key) => by_key.limit_headers.format() != HeaderFormat::None,
            #[cfg(feature = "policy")]
            Counting::ByPolicies(_) => true,
        }
    }

    /// Lets scripts of other origins read what the client is told.
    pub(crate) fn expose(&self, headers: &mut HeaderMap) {
        if let Some(exposes) = &self.settings.exposes {
            // Beside what the service exposes itself: browsers unite the lines.
            headers.append(ACCESS_CONTROL_EXPOSE_HEADERS, exposes.clone());
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

    #[inline]
    fn rule(
        &self,
        by_key: &ByKey,
        head: Head<'_>,
        answer: Result<Decision, StoreError>,
        taken: Option<Box<Taken>>,
    ) -> Ruling {
        match answer {
            Ok(decision) if decision.is_allowed() => Ruling::Admit(decision, taken),
            Ok(decision) => self.deny(by_key, head, &decision),
            Err(error) => self.trouble(head, &error),
        }
    }

    /// Apart, so that the way of those who go on is short.
    #[cold]
    fn deny(&self, by_key: &ByKey, head: Head<'_>, decision: &Decision) -> Ruling {
        let (names, quotas) = (&by_key.limit_headers, by_key.engine.quotas().iter());
        let status = StatusCode::TOO_MANY_REQUESTS;
        let mut denied = reply::denied(head.headers(), status, decision, quotas, names);
        names.write(decision, denied.headers_mut());
        let quota = by_key.engine.quotas().get(decision.deciding());
        refuse(self.denied(&Denial::new(decision, quota, head), denied))
    }

    /// The denial, with what every rule of the layer adds to it.
    pub(crate) fn denied(&self, denial: &Denial<'_>, mut denied: Response<Bytes>) -> Response<Bytes> {
        self.expose(denied.headers_mut());
        if let Some(wait) = denial.retry_after().filter(|_| self.settings.retry_jitter > 0) {
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

    pub(crate) fn trouble(&self, head: Head<'_>, error: &StoreError) -> Ruling {
        let answer = if *error == StoreError::Full { self.when_full } else { self.on_store_error };
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
            Counting::ByKey(by_key) => Some(by_key.engine.quotas()),
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
