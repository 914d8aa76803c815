//! The rules of the service, policies or domains: what decides by them, and the files that they follow.

use std::sync::Arc;

use tollgate_policy::PolicyLimiter;
use tracing::info;

use super::announced_limits;
use super::background::BackgroundTasks;
use super::example::StartExample;
use crate::decide::counting::CountingParts;
use crate::decide::decider::Decider;
use crate::decide::engine::DecisionEngine;
use crate::decide::envoy::{DomainEngine, InitialDomains};
use crate::decide::live_domains::LiveDomains;
use crate::decide::live_policies::LivePolicies;
use crate::http::Dialect;
use crate::live::reload::{Reload, Reloads};
use crate::observe::warning_log;
use crate::settings::{InitialPolicies, InitialRules};

/// The rules of the service, in force.
pub(super) struct Rules {
    pub(super) decider: Arc<Decider>,
    /// The files that they follow; `None` if flags are the rules.
    pub(super) reloads: Option<Arc<dyn Reload>>,
    /// A summary of the limits, for people.
    pub(super) summary: String,
    /// A command to try, if there is one.
    pub(super) example: Option<StartExample>,
}

impl Rules {
    /// Puts the first rules, from this source, into force.
    pub(super) fn start(
        initial: InitialRules,
        source: &str,
        dialect: Option<&'static Dialect>,
        counting: &CountingParts,
        background: &mut BackgroundTasks,
    ) -> anyhow::Result<Self> {
        match initial {
            InitialRules::Policies(initial) => {
                Self::of_policies(initial, source, dialect, counting, background)
            }
            InitialRules::Domains(initial) => Self::of_domains(initial, counting, background),
        }
    }

    fn of_policies(
        initial: InitialPolicies,
        source: &str,
        dialect: Option<&'static Dialect>,
        counting: &CountingParts,
        background: &mut BackgroundTasks,
    ) -> anyhow::Result<Self> {
        let InitialPolicies { policies, file, warnings, other_store } = initial;
        let summary = announced_limits::rule(&policies, file.as_ref());
        let example = StartExample::of_policies(&policies, file.as_ref(), dialect);
        let limiter = PolicyLimiter::new(counting.store.clone(), policies, source)
            .memory(counting.memory.clone())
            .when_full(counting.when_full)
            .max_value_bytes(counting.max_attribute_bytes);
        let limiter = Arc::new(limiter);
        let reloads = match file {
            None => {
                let warnings = warnings.iter().map(|warning| {
                    format!("policy `{}`: {} [{}]", warning.policy(), warning.kind(), warning.code())
                });
                warning_log::log_first(warnings, source, "correct these to see them");
                None
            }
            Some(mut file) => {
                file.log_warnings(&warnings);
                if other_store {
                    info!(file = file.name(), "`--store` overrides `store:` of the file");
                }
                let reloads = Arc::new(Reloads::new(file, LivePolicies::new(Arc::clone(&limiter))));
                background.follow(Arc::clone(&reloads))?;
                Some(reloads as Arc<dyn Reload>)
            }
        };
        let engine = DecisionEngine::new(limiter, counting.when_full, Arc::clone(&counting.metrics));
        Ok(Self { decider: Arc::new(Decider::Policies(engine)), reloads, summary, example })
    }

    fn of_domains(
        initial: InitialDomains,
        counting: &CountingParts,
        background: &mut BackgroundTasks,
    ) -> anyhow::Result<Self> {
        let summary = initial.rule.clone();
        let (engine, mut files) = DomainEngine::new(counting, initial);
        let engine = Arc::new(engine);
        files.log_warnings(&engine.live());
        let reloads = Arc::new(Reloads::new(files, LiveDomains::new(Arc::clone(&engine))));
        background.follow(Arc::clone(&reloads))?;
        let example = Some(StartExample::of_domains());
        Ok(Self { decider: Arc::new(Decider::Domains(engine)), reloads: Some(reloads), summary, example })
    }
}
