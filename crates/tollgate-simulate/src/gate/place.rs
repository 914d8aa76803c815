//! What a gate is about, found by names alone.

use super::{Gate, GateError, GateScope, Measure};
use crate::report::Report;
use crate::role::Role;

/// What gates may ask about. It is known before anything is replayed.
pub(crate) struct KnownNames<'a> {
    /// In the order of the report.
    pub(crate) policies: Vec<(&'a str, Role)>,
    pub(crate) classes: Vec<&'a str>,
    /// Whether there are policies to compare with.
    pub(crate) is_compared: bool,
}

/// What a gate is about: a policy, a class, a class of a policy, or everything.
pub(crate) struct GateTarget {
    pub(super) policy: Option<usize>,
    pub(super) class: Option<usize>,
}

impl<'a> KnownNames<'a> {
    pub(super) fn of(report: &'a Report) -> Self {
        Self {
            policies: report.policies.iter().map(|policy| (policy.policy.as_str(), policy.role)).collect(),
            classes: report.classes.iter().map(|class| class.class.as_str()).collect(),
            is_compared: report.compared.is_some(),
        }
    }
}

impl Gate {
    /// What it is about, of what it may ask about.
    pub(crate) fn place(&self, known: &KnownNames<'_>) -> Result<GateTarget, GateError> {
        const OF_PARTS: &str = "denied, denied_clients, newly_denied and newly_denied_clients";
        let (policy, class) = match &self.scope {
            GateScope::All => (None, None),
            GateScope::Policy(policy) => (Some(policy), None),
            GateScope::Class { policy, class } => (policy.as_ref(), Some(class)),
        };
        let policy = policy.map(|name| self.policy(known, name)).transpose()?;
        let class = class.map(|name| {
            let place = known.classes.iter().position(|class| class == name);
            place.ok_or_else(|| GateError::UnknownClass { gate: self.text.clone(), class: name.clone() })
        });
        let place = GateTarget { policy: policy.map(|(place, _)| place), class: class.transpose()? };
        let is_new = matches!(
            self.measure,
            Measure::NewlyDenied | Measure::NewlyDeniedClients | Measure::NewlyAllowed
        );
        match self.measure {
            // Trials deny nobody, so nothing is new about them.
            _ if is_new && policy.is_some_and(|(_, role)| role != Role::Enforced) => {
                Err(self.unmeasured("policies on trial", "denied and denied_clients"))
            }
            Measure::Denied | Measure::DeniedClients => Ok(place),
            Measure::NewlyDenied | Measure::NewlyDeniedClients if known.is_compared => Ok(place),
            Measure::NewlyDenied | Measure::NewlyDeniedClients => {
                Err(GateError::NoBaseline(self.text.clone()))
            }
            _ if place.class.is_some() => Err(self.unmeasured("one class", OF_PARTS)),
            _ if place.policy.is_some() => Err(self.unmeasured("one policy", OF_PARTS)),
            Measure::NewlyAllowed if !known.is_compared => Err(GateError::NoBaseline(self.text.clone())),
            _ => Ok(place),
        }
    }

    /// `login` is the policy, enforced or in shadow mode; `login:candidate` its candidates.
    fn policy(&self, known: &KnownNames<'_>, name: &str) -> Result<(usize, Role), GateError> {
        let (policy, is_candidate) = match name.strip_suffix(":candidate") {
            Some(policy) => (policy, true),
            None => (name, false),
        };
        let is_asked =
            |(other, role): &(&str, Role)| *other == policy && (*role == Role::Candidate) == is_candidate;
        let place = known.policies.iter().position(is_asked);
        let found = place.and_then(|place| Some((place, known.policies.get(place)?.1)));
        found.ok_or_else(|| GateError::UnknownPolicy {
            gate: self.text.clone(),
            policy: name.to_owned(),
            known: known.policies.iter().map(|(name, role)| role.title(name)).collect::<Vec<_>>().join(", "),
        })
    }

    fn unmeasured(&self, scope: &'static str, known: &'static str) -> GateError {
        GateError::Unmeasured { gate: self.text.clone(), scope, known }
    }
}
