//! A rule of policies as it is applied: from the head of a request to a ruling.

use std::sync::Arc;

use http::StatusCode;
use tollgate_policy::{CheckError, Ground, PolicyDecision, Refusal, Unknown};

use crate::attributes::{AttributeError, RequestView, Values};
use crate::gate::{Admitted, Asked, Gate, Ruling, refuse};
use crate::key::{self, Missing};
use crate::policies::{Decided, PolicyEngine, Takes};
use crate::reserving::Reserving;
use crate::taken::Taken;
use crate::warning::Warning;
use crate::{Denial, Head, reply};

impl Gate {
    /// `Err` if the store or a value has to be waited for, with what is known and the cost.
    pub(crate) fn by_policies_at_once(
        &self,
        engine: &Arc<dyn PolicyEngine>,
        head: Head<'_>,
    ) -> Result<Ruling, Asked> {
        self.settings.warnings.look_for_proxy(head, || engine.counts_peers());
        let mut view = engine.view(head);
        let cost = self.cost(head);
        loop {
            let Some(decided) = engine.decide_at_once(view.values(), cost, self.takes()) else { break };
            match self.rule_on(engine, head, &view, with_taken(decided)) {
                Ok(ruling) => return Ok(ruling),
                Err(needed) if !view.find_at_once(&needed) => break,
                Err(_) => {}
            }
        }
        Err(Asked::ByPolicies { known: Box::new(view.into_values()), cost })
    }

    pub(crate) async fn by_policies_later(
        self: &Arc<Self>,
        engine: &Arc<dyn PolicyEngine>,
        head: Head<'_>,
        known: Box<Values<'static>>,
        cost: u32,
    ) -> Ruling {
        let mut view = engine.resumed_view(head, *known);
        loop {
            let decided = if self.reserves {
                let (engine, values) = (Arc::clone(engine), view.values().to_static());
                let step = async move {
                    let decided = engine.decide(&values, cost, Takes::ToGiveBack).await;
                    with_taken(decided)
                };
                Reserving::new(self, step).await
            } else {
                with_taken(engine.decide(view.values(), cost, self.takes()).await)
            };
            match self.rule_on(engine, head, &view, decided) {
                Ok(ruling) => return ruling,
                Err(needed) => _ = view.find(&needed).await,
            }
        }
    }

    fn takes(&self) -> Takes {
        if self.gives_back() { Takes::ToGiveBack } else { Takes::ForGood }
    }

    /// `Err` if the decision needs the value of an attribute that is not known yet.
    fn rule_on(
        &self,
        engine: &Arc<dyn PolicyEngine>,
        head: Head<'_>,
        view: &RequestView<'_>,
        (decision, taken): (Result<PolicyDecision, CheckError>, Option<Box<Taken>>),
    ) -> Result<Ruling, Box<str>> {
        Ok(match decision {
            Ok(decision) if decision.is_allowed() => {
                let told_by = decision.counted().map(|_| engine.limit_headers(&decision));
                Ruling::AdmitByPolicies(Box::new(Admitted { decision, told_by, taken }))
            }
            Ok(decision) => self.deny_by_policies(engine, head, &decision),
            Err(CheckError::Refused(Refusal::Undecided { attribute, unknown: Unknown::NotYet })) => {
                return Err(attribute);
            }
            Err(CheckError::Refused(Refusal::Undecided { attribute, unknown: Unknown::Wrong })) => {
                self.wrong(head, view.fault(&attribute))
            }
            Err(CheckError::Store(error)) => self.trouble(head, &error),
            Err(error) => {
                refuse(reply::refused(head.headers(), StatusCode::BAD_REQUEST, &error.to_string(), None))
            }
        })
    }

    #[cold]
    fn deny_by_policies(
        &self,
        engine: &Arc<dyn PolicyEngine>,
        head: Head<'_>,
        decision: &PolicyDecision,
    ) -> Ruling {
        let status = StatusCode::from_u16(decision.deny_status()).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
        let (counted, told_by) = match (decision.counted(), decision.ground()) {
            (Some(counted), _) => (counted, engine.limit_headers(decision)),
            (None, ground) => {
                let denied = match ground {
                    Ground::MissingKey { policy, no_key } => {
                        let detail = format!("policy `{}`: {no_key}", policy.name());
                        reply::denied_uncounted(head.headers(), status, &detail)
                    }
                    _ => reply::refused(head.headers(), status, "no policy matches the request", None),
                };
                return refuse(self.denied(&Denial::new(None, None, head), denied));
            }
        };
        let quotas: Vec<_> = decision.quotas().map(|standing| standing.quota).collect();
        self.deny(head, status, counted, quotas.iter().copied(), &told_by)
    }

    /// What a policy needs to know is wrong, or no request has it.
    #[cold]
    fn wrong(&self, head: Head<'_>, fault: Option<&AttributeError>) -> Ruling {
        match fault {
            Some(AttributeError::Invalid(invalid)) => self.invalid(head, invalid),
            Some(AttributeError::Setup(what)) => {
                let no_peer = *what == key::NO_PEER;
                let warning = if no_peer { Warning::NoPeerAddress } else { Warning::NoIdentityBySetup };
                self.settings.warnings.give(warning);
                refuse(reply::missing(head.headers(), &Missing::by_setup(what), &self.on_missing))
            }
            None => unreachable!("what is wrong has a fault"),
        }
    }
}

/// The decision, and what it took.
fn with_taken(decided: Decided) -> (Result<PolicyDecision, CheckError>, Option<Box<Taken>>) {
    match decided {
        Ok((decision, taken)) => (Ok(decision), taken),
        Err(error) => (Err(error), None),
    }
}
