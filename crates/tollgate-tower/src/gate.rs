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
use http::{HeaderMap, HeaderValue, Response};
use tollgate::{Decision, Key, StoreError, whole_seconds};

use crate::engine::Engine;
use crate::extractor::Extractor;
use crate::headers::{HeaderFormat, LimitHeaders};
use crate::key::{Extracted, Fault, Identity};
use crate::rule::{Cost, OnInvalid, OnMissing, OnStoreError, RefundIf, Skip};
use crate::warning::{Warning, Warnings};
use crate::{Head, reply};

/// What holds for every rule of a layer.
pub(crate) struct Settings {
    pub(crate) exposes: Option<HeaderValue>,
    /// The most seconds that are added to `Retry-After`.
    pub(crate) retry_jitter: u64,
    pub(crate) on_denied: Option<Box<OnDenied>>,
    pub(crate) on_trouble: Option<Box<OnTrouble>>,
    pub(crate) warnings: Warnings,
}

pub(crate) type OnDenied = dyn Fn(&Decision, Response<Bytes>) -> Response<Bytes> + Send + Sync;
pub(crate) type OnTrouble = dyn Fn(&StoreError, Response<Bytes>) -> Response<Bytes> + Send + Sync;

/// A rule with everything filled in.
pub(crate) struct Gate {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) extractor: Extractor,
    pub(crate) counts_peers: bool,
    pub(crate) cost: Cost,
    pub(crate) reserves: bool,
    pub(crate) skip: Option<Arc<Skip>>,
    pub(crate) refund_if: Option<Arc<RefundIf>>,
    pub(crate) on_missing: OnMissing,
    pub(crate) on_invalid: OnInvalid,
    pub(crate) on_store_error: OnStoreError,
    pub(crate) when_full: OnStoreError,
    pub(crate) limit_headers: LimitHeaders,
    pub(crate) settings: Arc<Settings>,
}

/// What becomes of a request.
pub(crate) enum Ruling {
    /// It goes on uncounted.
    Pass,
    /// It goes on. What it took is there if some of it may be given back.
    Admit(Decision, Option<Asked>),
    /// It does not go on.
    Refuse(Box<Response<Bytes>>),
}

/// How far a request gets without waiting.
pub(crate) enum AtOnce {
    /// To the end.
    Ruled(Ruling),
    /// The store has to be waited for or, where it is not known what to ask it, the extractor before.
    Waits(Option<Asked>),
}

/// What is asked of the engine.
pub(crate) struct Asked {
    pub(crate) key: Key<'static>,
    pub(crate) cost: u32,
}

impl Gate {
    /// Goes as far as it can without waiting.
    pub(crate) fn at_once(&self, head: Head<'_>) -> AtOnce {
        if self.skip.as_ref().is_some_and(|skip| skip(head)) {
            return AtOnce::Ruled(Ruling::Pass);
        }
        if self.counts_peers {
            self.settings.warnings.look_for_proxy(head);
        }
        let Extractor::Now(extractor) = &self.extractor else { return AtOnce::Waits(None) };
        let key = match self.known(head, extractor.extract(head)) {
            Ok(key) => key,
            Err(ruling) => return AtOnce::Ruled(ruling),
        };
        let cost = self.cost(head);
        match self.engine.check_now(&key, cost) {
            Some(answer) => AtOnce::Ruled(self.rule(head, key, cost, answer)),
            None => AtOnce::Waits(Some(Asked { key: key.into_owned(), cost })),
        }
    }

    /// Goes on from there.
    pub(crate) async fn later(&self, head: Head<'_>, known: Option<Asked>) -> Ruling {
        let (key, cost) = match (known, &self.extractor) {
            (Some(Asked { key, cost }), _) => (key, cost),
            (None, extractor) => {
                let extracted = match extractor {
                    Extractor::Now(extractor) => extractor.extract(head),
                    Extractor::Later(extractor) => extractor.extract(head).await,
                };
                match self.known(head, extracted) {
                    Ok(key) => (key, self.cost(head)),
                    Err(ruling) => return ruling,
                }
            }
        };
        let answer = self.engine.check(&key, cost).await;
        self.rule(head, key, cost, answer)
    }

    fn cost(&self, head: Head<'_>) -> u32 {
        match &self.cost {
            Cost::Fixed(cost) => *cost,
            Cost::Of(cost) => cost(head),
        }
    }

    /// Whether an admitted request is told anything.
    pub(crate) fn writes_headers(&self) -> bool {
        self.limit_headers.format() != HeaderFormat::None
    }

    /// Writes what an admitted request is told.
    pub(crate) fn write_headers(&self, decision: &Decision, headers: &mut HeaderMap) {
        self.limit_headers.write(decision, headers);
        if let Some(exposes) = &self.settings.exposes {
            // Beside what the service exposes itself: browsers unite the lines.
            headers.append(ACCESS_CONTROL_EXPOSE_HEADERS, exposes.clone());
        }
    }

    fn known<'r>(&self, head: Head<'r>, extracted: Extracted<'r>) -> Result<Key<'r>, Ruling> {
        match extracted {
            Ok(Identity::Known(key)) => Ok(key),
            Ok(Identity::Missing(missing)) => {
                if missing.fault() == Fault::Setup {
                    let warnings = &self.settings.warnings;
                    let no_peer = self.counts_peers;
                    warnings.give(if no_peer { Warning::NoPeerAddress } else { Warning::NoIdentityBySetup });
                } else if self.on_missing == OnMissing::Skip {
                    return Err(Ruling::Pass);
                }
                Err(refuse(reply::missing(head.headers(), &missing, &self.on_missing)))
            }
            Err(invalid) => Err(refuse(reply::invalid(head.headers(), &invalid, &self.on_invalid))),
        }
    }

    fn rule(&self, head: Head<'_>, key: Key<'_>, cost: u32, answer: Result<Decision, StoreError>) -> Ruling {
        match answer {
            Ok(decision) if decision.is_allowed() => {
                let is_refundable = self.reserves || self.refund_if.is_some();
                Ruling::Admit(decision, is_refundable.then(|| Asked { key: key.into_owned(), cost }))
            }
            Ok(decision) => refuse(self.denied(head, &decision)),
            Err(error) => {
                let answer = if error == StoreError::Full { self.when_full } else { self.on_store_error };
                match answer {
                    OnStoreError::Admit => Ruling::Pass,
                    OnStoreError::Refuse => refuse(self.trouble(head, &error)),
                }
            }
        }
    }

    fn denied(&self, head: Head<'_>, decision: &Decision) -> Response<Bytes> {
        let mut denied = reply::denied(head.headers(), decision, self.engine.quotas(), &self.limit_headers);
        self.write_headers(decision, denied.headers_mut());
        if let Some(wait) = decision.retry_after().filter(|_| self.settings.retry_jitter > 0) {
            let jitter = fastrand::u64(0..=self.settings.retry_jitter);
            denied.headers_mut().insert(RETRY_AFTER, whole_seconds(wait).saturating_add(jitter).into());
        }
        match &self.settings.on_denied {
            Some(on_denied) if !reply::is_grpc(head.headers()) => on_denied(decision, denied),
            _ => denied,
        }
    }

    fn trouble(&self, head: Head<'_>, error: &StoreError) -> Response<Bytes> {
        let reply = reply::store_error(head.headers(), error);
        match &self.settings.on_trouble {
            Some(on_trouble) if !reply::is_grpc(head.headers()) => on_trouble(error, reply),
            _ => reply,
        }
    }
}

/// In a box, so that the way of those who go on moves less; a reply allocates anyhow.
fn refuse(reply: Response<Bytes>) -> Ruling {
    Ruling::Refuse(Box::new(reply))
}

/// Seconds, rounded up, or none at all.
pub(crate) fn jitter_seconds(jitter: Duration) -> u64 {
    if jitter.is_zero() { 0 } else { whole_seconds(jitter) }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("quotas", &self.engine.quotas()).finish_non_exhaustive()
    }
}
