//! A rule's engine: policies, from a file or in code, as in the service.

use std::sync::Arc;

use http::StatusCode;
use tollgate::{
    Answer, AnyStore, Clock, HoldAnswer, HoldEnding, HoldKeeper, HoldPlace, HoldStep, QuotaStates, Step,
    StepDeadline, Store, StoreError,
};
use tollgate_policy::{CheckError, LimitError, PolicyDecision, PolicyLimiter, Refusal, UnknownValue};
use tollgate_wire::headers::PolicyHeaders;

use crate::attributes::{AttributeError, AttributeSources, KnownValues, RequestView};
use crate::engine::AnyPolicyEngine;
use crate::head::Head;
use crate::key::MissingIdentity;
use crate::outcome::{
    AdmittedRequest, DenialCause, PendingDecision, RequestOutcome, UnitHandling, is_limited,
};
use crate::policy_units::PolicyUnits;
use crate::reservation::HeldReceipt;
use crate::warning::SetupWarning;

/// A policy limiter with its sources of attributes. Clones share it.
pub(crate) struct PolicyEngine<S, C>(Arc<LimiterWithSources<S, C>>);

struct LimiterWithSources<S, C> {
    limiter: Arc<PolicyLimiter<S, C>>,
    /// The store on which units are given back.
    store: AnyStore,
    sources: AttributeSources,
    headers: PolicyHeaders,
}

/// A part that a decision still needs.
enum MissingPart {
    /// The value of this attribute, which is not known yet.
    Value(Box<str>),
    /// Somebody who ends what the request holds.
    Hold,
}

impl<S: Store + 'static, C: Clock + 'static> PolicyEngine<S, C> {
    pub(crate) fn new(limiter: &Arc<PolicyLimiter<S, C>>, sources: AttributeSources) -> Self {
        Self(Arc::new(LimiterWithSources {
            limiter: Arc::clone(limiter),
            store: AnyStore::new(LimiterStore(Arc::clone(limiter))),
            sources,
            headers: PolicyHeaders::new(&limiter.live()),
        }))
    }
}

impl<S: Store + 'static, C: Clock + 'static> AnyPolicyEngine for PolicyEngine<S, C> {
    fn decide(
        &self,
        head: Head<'_>,
        cost: u32,
        handling: &UnitHandling,
        keeper: Option<&HoldKeeper>,
    ) -> Result<RequestOutcome, PendingDecision> {
        let Self(by) = self;
        let mut view = by.sources.view(head);
        while let Some(checked) = by.limiter.check_at_once(view.values(), cost) {
            match by.decided(checked, view.values(), handling) {
                Ok(decided) => return Ok(decided),
                Err(MissingPart::Hold) => break,
                Err(MissingPart::Value(needed)) if !view.find_at_once(&needed) => break,
                Err(MissingPart::Value(_)) => {}
            }
        }
        let (by, known, handling) = (self.clone(), view.into_values(), handling.clone());
        let keeper = keeper.cloned();
        Err(Box::new(move |head| Box::pin(by.decide_later(head, known, cost, handling, keeper))))
    }

    fn counts_peers(&self) -> bool {
        self.0.sources.counts_peers() && self.0.limiter.live().policies().attributes().contains("ip")
    }

    fn source(&self) -> Box<str> {
        self.0.limiter.live().source().into()
    }
}

impl<S: Store + 'static, C: Clock + 'static> PolicyEngine<S, C> {
    async fn decide_later(
        self,
        head: Head<'_>,
        mut known: KnownValues<'static>,
        cost: u32,
        handling: UnitHandling,
        keeper: Option<HoldKeeper>,
    ) -> RequestOutcome {
        loop {
            let (Self(by), may_give_back) = (self.clone(), handling.clone());
            let step = async move {
                let checked = by.limiter.check(&known, cost).await;
                (by.decided(checked, &known, &may_give_back), known)
            };
            match handling.take(step, |(decided, _)| decided.ok()?.into_taken()).await {
                (Ok(decided), _) => return decided,
                (Err(MissingPart::Hold), values) => match &keeper {
                    None => return RequestOutcome::Setup(SetupWarning::NoKeeper),
                    Some(keeper) => match self.hold(values.to_static(), cost, keeper).await {
                        Ok(decided) => return decided,
                        // The policies were replaced meanwhile: they are checked again.
                        Err(MissingPart::Hold) => known = values,
                        Err(MissingPart::Value(needed)) => known = self.found(head, values, &needed).await,
                    },
                },
                (Err(MissingPart::Value(needed)), values) => known = self.found(head, values, &needed).await,
            }
        }
    }

    /// Finds another value.
    async fn found(&self, head: Head<'_>, known: KnownValues<'static>, needed: &str) -> KnownValues<'static> {
        let mut view = RequestView::resumed(&self.0.sources, head, known);
        let _ = view.find(needed).await;
        view.into_values()
    }

    /// Decides on a request that holds something while it is in flight. If this is dropped before it is done, the keeper
    /// ends what the store may have.
    async fn hold(
        &self,
        values: KnownValues<'static>,
        cost: u32,
        keeper: &HoldKeeper,
    ) -> Result<RequestOutcome, MissingPart> {
        let Self(by) = self;
        let known = values.to_static();
        let units = Arc::new(PolicyUnits::new(&by.limiter, values, cost));
        let mut kept = keeper.keep(Arc::clone(&units) as _, HoldEnding::Keep);
        let checked = units.reserve().await;
        let is_unknown = matches!(&checked, Err(CheckError::Store(error)) if error.may_have_charged());
        let decided = by.decided(checked, &known, &UnitHandling::ForGood);
        match (decided, units.hold()) {
            (Ok(RequestOutcome::Allowed(allowed)), Some(hold)) => {
                match hold.place() {
                    HoldPlace::Nowhere => kept.uncounted(),
                    HoldPlace::Store | HoldPlace::Process => kept.admitted(hold.length()),
                }
                Ok(RequestOutcome::Allowed(AdmittedRequest { hold: Some(Box::new(kept)), ..allowed }))
            }
            (decided, _) => {
                match is_unknown {
                    // Dropped, the guard ends what the store may have, and nothing of it stays charged.
                    true => kept.on_drop(HoldEnding::GiveBack),
                    false => kept.denied(),
                }
                decided
            }
        }
    }
}

impl<S: Store, C: Clock> LimiterWithSources<S, C> {
    /// `Err` is what is needed to decide.
    fn decided(
        &self,
        checked: Result<PolicyDecision, CheckError>,
        values: &KnownValues<'_>,
        handling: &UnitHandling,
    ) -> Result<RequestOutcome, MissingPart> {
        Ok(match checked {
            Ok(decision) if decision.is_allowed() => {
                let counted = decision.counted().cloned();
                let own_headers = is_limited(&decision).then(|| self.headers.of(&decision));
                let gives_back = handling.may_give_back() && counted.is_some();
                let taken = gives_back.then(|| HeldReceipt::boxed(&self.store, decision.receipt()));
                RequestOutcome::Allowed(AdmittedRequest {
                    counted,
                    own_headers,
                    decision: Some(Box::new(decision)),
                    taken,
                    ..AdmittedRequest::default()
                })
            }
            Ok(decision) => self.denied(decision),
            Err(CheckError::Refused(Refusal::Undecided { attribute, unknown: UnknownValue::NotYet })) => {
                return Err(MissingPart::Value(attribute));
            }
            Err(CheckError::NeedsHold { .. }) => return Err(MissingPart::Hold),
            Err(CheckError::Refused(Refusal::Undecided { attribute, unknown: UnknownValue::Wrong })) => {
                wrong(values.fault(&attribute))
            }
            Err(CheckError::Refused(Refusal::Limit { error: LimitError::Unverified(_), .. })) => {
                RequestOutcome::Setup(SetupWarning::UnverifiedLimit)
            }
            Err(CheckError::Store(error) | CheckError::Uncountable { error, .. }) => {
                RequestOutcome::Failed(error)
            }
            Err(error) => RequestOutcome::Lacking(error.to_string()),
        })
    }

    #[cold]
    fn denied(&self, decision: PolicyDecision) -> RequestOutcome {
        let status = StatusCode::from_u16(decision.deny_status()).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
        let own_headers = self.headers.of(&decision);
        RequestOutcome::Denied(status, DenialCause::Policies(Box::new(decision), own_headers))
    }
}

/// A value that a policy needs is invalid, or no request has it.
#[cold]
fn wrong(fault: Option<&AttributeError>) -> RequestOutcome {
    match fault {
        Some(AttributeError::Invalid(invalid)) => RequestOutcome::Invalid(invalid.clone()),
        Some(AttributeError::Setup(what)) => RequestOutcome::missing(&MissingIdentity::by_setup(what)),
        None => unreachable!("what is wrong has a fault"),
    }
}

impl<S, C> Clone for PolicyEngine<S, C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// The store of a limiter, with its policies for outages.
struct LimiterStore<S, C>(Arc<PolicyLimiter<S, C>>);

impl<S: Store, C: Clock> Store for LimiterStore<S, C> {
    fn step_until<'a>(
        &'a self,
        step: Step<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<QuotaStates, StoreError>> + Send> {
        self.0.fallback().step_until(step, deadline)
    }

    fn step_each_until<'a>(
        &'a self,
        steps: &'a [Step<'a>],
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Vec<Result<QuotaStates, StoreError>>> + Send> {
        self.0.fallback().step_each_until(steps, deadline)
    }

    fn hold_until<'a>(
        &'a self,
        step: HoldStep<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<HoldAnswer, StoreError>> + Send> {
        self.0.fallback().hold_until(step, deadline)
    }

    fn hold_in<'a>(
        &'a self,
        place: HoldPlace,
        step: HoldStep<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<HoldAnswer, StoreError>> + Send> {
        self.0.fallback().hold_in(place, step, deadline)
    }
}
