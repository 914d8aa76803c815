//! A rule of policies as it is applied: from the head of a request to a ruling.

use std::sync::Arc;

use http::StatusCode;
use tollgate_policy::{Attributes, CheckError, PolicyDecision};

use crate::attributes::AttributeError;
use crate::gate::{Asked, Gate, Ruling, refuse};
use crate::key::{self, Missing};
use crate::policies::{self, Admitted, Decided, PolicyEngine, Takes};
use crate::reserving::Reserving;
use crate::taken::Taken;
use crate::warning::Warning;
use crate::{Denial, Head, reply};

impl Gate {
    /// `Err` if the store has to be waited for, with what it is asked.
    pub(crate) fn by_policies_at_once(
        &self,
        engine: &Arc<dyn PolicyEngine>,
        head: Head<'_>,
    ) -> Result<Ruling, Asked> {
        let attributes = match self.told(engine, head) {
            Ok(attributes) => attributes,
            Err(ruling) => return Ok(ruling),
        };
        let cost = self.cost(head);
        let Some(decided) = engine.decide_at_once(&attributes, cost, self.takes()) else {
            let attributes = attributes.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
            return Err(Asked::ByPolicies { attributes: Box::new(attributes.collect()), cost });
        };
        let (decision, taken) = with_taken(engine, cost, decided);
        Ok(self.rule_by_policies(head, decision, taken))
    }

    pub(crate) async fn by_policies_later(
        self: &Arc<Self>,
        engine: &Arc<dyn PolicyEngine>,
        head: Head<'_>,
        attributes: Box<Attributes<'static>>,
        cost: u32,
    ) -> Ruling {
        let (decision, taken) = if self.reserves {
            let engine = Arc::clone(engine);
            let step = async move {
                let decided = engine.decide(&attributes, cost, Takes::ToGiveBack).await;
                with_taken(&engine, cost, decided)
            };
            Reserving::new(self, step).await
        } else {
            with_taken(engine, cost, engine.decide(&attributes, cost, self.takes()).await)
        };
        self.rule_by_policies(head, decision, taken)
    }

    /// What the policies are told of this request. `Err` is its end.
    fn told<'r>(&self, engine: &'r Arc<dyn PolicyEngine>, head: Head<'r>) -> Result<Attributes<'r>, Ruling> {
        match engine.tell(head) {
            Ok(attributes) => {
                self.settings.warnings.look_for_proxy(head, || engine.counts_peers(head, &attributes));
                Ok(attributes)
            }
            Err(AttributeError::Invalid(invalid)) => Err(self.invalid(head, &invalid)),
            Err(AttributeError::Setup(what)) => {
                let no_peer = what == key::NO_PEER;
                let warning = if no_peer { Warning::NoPeerAddress } else { Warning::NoIdentityBySetup };
                self.settings.warnings.give(warning);
                Err(refuse(reply::missing(head.headers(), &Missing::by_setup(what), &self.on_missing)))
            }
        }
    }

    fn takes(&self) -> Takes {
        if self.gives_back() { Takes::ToGiveBack } else { Takes::ForGood }
    }

    fn rule_by_policies(
        &self,
        head: Head<'_>,
        decision: Result<PolicyDecision, CheckError>,
        taken: Option<Box<Taken>>,
    ) -> Ruling {
        match decision {
            Ok(decision) if decision.is_allowed() => {
                let headers = policies::headers(&decision);
                Ruling::AdmitByPolicies(Box::new(Admitted { decision, headers, taken }))
            }
            Ok(decision) => {
                let mut denied = policies::denied(head.headers(), &decision);
                denied.headers_mut().extend(policies::headers(&decision));
                let quota = decision.quota().map(|standing| standing.quota);
                refuse(self.denied(&Denial::new(decision.counted(), quota, head), denied))
            }
            Err(CheckError::Store(error)) => self.trouble(head, &error),
            Err(error) => {
                refuse(reply::refused(head.headers(), StatusCode::BAD_REQUEST, &error.to_string(), None))
            }
        }
    }
}

/// The decision, and what it took.
fn with_taken(
    engine: &Arc<dyn PolicyEngine>,
    units: u32,
    decided: Decided,
) -> (Result<PolicyDecision, CheckError>, Option<Box<Taken>>) {
    match decided {
        Ok((decision, reservation)) => {
            let taken = reservation.filter(|_| decision.is_allowed()).map(|reservation| {
                Box::new(Taken::ByPolicies { engine: Arc::clone(engine), reservation, units })
            });
            (Ok(decision), taken)
        }
        Err(error) => (Err(error), None),
    }
}
