//! What decides in a service: its policies, or the domains of Envoy's rate-limit service.

use std::sync::Arc;

use tollgate::OnStoreFailure;
use tollgate_policy::{Generation, Mode, Policy, PolicyKind};

use crate::decide::engine::DecisionEngine;
use crate::decide::envoy::DomainEngine;
use crate::store::StoreState;

/// What decides, chosen once when the service starts.
pub(crate) enum Decider {
    Policies(Box<DecisionEngine>),
    Domains(Arc<DomainEngine>),
}

impl Decider {
    /// Returns the engine of the policies, if they decide.
    pub(crate) const fn policies(&self) -> Option<&DecisionEngine> {
        match self {
            Self::Policies(engine) => Some(engine),
            Self::Domains(_) => None,
        }
    }

    /// Returns the engine of the domains, if they decide.
    pub(crate) fn domains(&self) -> Option<&DomainEngine> {
        match self {
            Self::Policies(_) => None,
            Self::Domains(engine) => Some(engine),
        }
    }

    /// Like [`domains`](Self::domains), for as long as the caller likes.
    pub(crate) fn shared_domains(&self) -> Option<Arc<DomainEngine>> {
        match self {
            Self::Policies(_) => None,
            Self::Domains(engine) => Some(Arc::clone(engine)),
        }
    }

    /// Returns the generation of the live limits; `None` if the first are still to come.
    pub(crate) fn generation(&self) -> Option<Generation> {
        match self {
            Self::Policies(engine) => Some(engine.live().policies().generation()),
            Self::Domains(engine) => engine.generation(),
        }
    }

    /// Returns how many requests got no counter because memory was full.
    pub(crate) fn store_full(&self) -> u64 {
        match self {
            Self::Policies(engine) => engine.store_full(),
            Self::Domains(engine) => engine.store_full(),
        }
    }

    /// Returns the state of the store, at most a moment old.
    pub(crate) async fn store_state(&self) -> StoreState {
        match self {
            Self::Policies(engine) => engine.store_state().await,
            Self::Domains(engine) => engine.store_state().await,
        }
    }

    /// Returns whether checks get decisions, and no domain is missing.
    pub(crate) async fn is_ready(&self) -> bool {
        let is_complete = !self.awaits_limits() && !self.lacks_domains();
        let is_ready = is_complete && self.decides_in(&self.store_state().await);
        if is_ready {
            self.note_ready();
        }
        is_ready
    }

    /// Notes that requests are decided.
    pub(crate) fn note_ready(&self) {
        if let Self::Domains(engine) = self {
            engine.note_ready();
        }
    }

    /// Returns whether the first limits are still to come.
    pub(crate) fn awaits_limits(&self) -> bool {
        self.domains().is_some_and(DomainEngine::awaits_limits)
    }

    /// Returns whether the service is not ready because there is no domain.
    pub(crate) fn lacks_domains(&self) -> bool {
        self.domains().is_some_and(DomainEngine::lacks_domains)
    }

    /// Returns whether checks get decisions in this state of the store. During an outage they do if the policies admit
    /// or count locally then.
    pub(crate) fn decides_in(&self, state: &StoreState) -> bool {
        match state {
            // Also with `closed`, because most decisions come from the other servers.
            StoreState::Answers | StoreState::FailsInPart(..) => true,
            StoreState::Fails(_) => self.without_store() != [OnStoreFailure::Closed.name()],
        }
    }

    /// Returns what decides when the store fails, each `on_store_failure` once.
    pub(crate) fn without_store(&self) -> Vec<&'static str> {
        let mut names: Vec<&str> = match self {
            Self::Policies(engine) => {
                let live = engine.live();
                let counting =
                    live.policies().as_slice().iter().filter(|policy| {
                        policy.mode() == Mode::Enforce && policy.kind() == PolicyKind::Count
                    });
                counting.map(Policy::on_store_failure).map(OnStoreFailure::name).collect()
            }
            Self::Domains(engine) => vec![engine.on_store_failure().name()],
        };
        names.sort_unstable();
        names.dedup();
        names
    }
}
