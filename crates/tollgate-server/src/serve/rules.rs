//! The rules of the service, policies or domains: what decides by them, and the files that they follow.

use std::sync::Arc;

use anyhow::Context as _;
use tollgate_policy::PolicyLimiter;
use tracing::info;

use super::announced_limits;
use super::background::BackgroundTasks;
use super::example::StartExample;
use super::override_parts::OverrideParts;
use super::signals::hangup;
use crate::decide::counting::CountingParts;
use crate::decide::decider::Decider;
use crate::decide::engine::DecisionEngine;
use crate::decide::envoy::DomainEngine;
use crate::decide::live_domains::LiveDomains;
use crate::decide::live_policies::LivePolicies;
use crate::decide::policy_files::PolicyFiles;
use crate::http::Dialect;
use crate::live::reload::Reloads;
use crate::live::rule_source::RuleSource;
use crate::metrics::XdsStatus;
use crate::observe::live_warnings::{LiveWarning, LiveWarnings};
use crate::observe::warning_log;
use crate::overrides::Overrides;
use crate::settings::{DomainSource, InitialPolicies, InitialRules, SourcedDomains};
use crate::xds::{XdsClient, XdsLimits};

/// The rules of the service, in force.
pub(super) struct Rules {
    pub(super) decider: Arc<Decider>,
    /// Where new ones come from.
    pub(super) source: RuleSource,
    /// The state of xDS, if they come that way.
    pub(super) xds: Option<Arc<XdsStatus>>,
    pub(super) overrides: Arc<Overrides>,
    /// Probable mistakes in the live rules.
    pub(super) warnings: LiveWarnings,
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
        overrides: OverrideParts,
        background: &mut BackgroundTasks,
    ) -> anyhow::Result<Self> {
        match initial {
            InitialRules::Policies(initial) => {
                Self::of_policies(initial, source, dialect, counting, overrides, background)
            }
            InitialRules::Domains(initial) => Self::of_domains(initial, counting, background),
        }
    }

    fn of_policies(
        initial: InitialPolicies,
        source: &str,
        dialect: Option<&'static Dialect>,
        counting: &CountingParts,
        overrides: OverrideParts,
        background: &mut BackgroundTasks,
    ) -> anyhow::Result<Self> {
        let InitialPolicies { policies, file, warnings, other_store, fit } = initial;
        let summary = announced_limits::rule(&policies, file.as_ref());
        let example = StartExample::of_policies(&policies, file.as_ref(), dialect);
        let setup = overrides.setup(fit);
        let limiter = PolicyLimiter::new(counting.store.clone(), policies, source)
            .memory(counting.memory.clone())
            .when_full(counting.when_full)
            .max_value_bytes(counting.max_attribute_bytes)
            .with_overrides(setup.empty_set());
        let limiter = Arc::new(limiter);
        let overrides = Overrides::start(setup, Arc::clone(&limiter)).context("the overrides")?;
        let live_warnings = file.as_ref().map(PolicyFiles::live_warnings).unwrap_or_default();
        let source = match file {
            None => {
                live_warnings.replace(warnings.iter().map(LiveWarning::from));
                let warnings = warnings.iter().map(|warning| {
                    format!("policy `{}`: {} [{}]", warning.policy(), warning.kind(), warning.code())
                });
                warning_log::log_first(warnings, source, "correct these to see them");
                RuleSource::Flags
            }
            Some(mut file) => {
                file.log_warnings(&warnings);
                if other_store {
                    info!(file = file.name(), "`--store` overrides `store:` of the file");
                }
                let reloads = Arc::new(Reloads::new(file, LivePolicies::new(Arc::clone(&limiter))));
                background.follow(Arc::clone(&reloads))?;
                RuleSource::Files(reloads)
            }
        };
        let (metrics, page) = (Arc::clone(&counting.metrics), counting.page.clone());
        let engine = DecisionEngine::new(limiter, counting.when_full, metrics, page)
            .with_talkers(counting.talkers.clone());
        let (decider, overrides) = (Arc::new(Decider::Policies(Box::new(engine))), Arc::new(overrides));
        Ok(Self { decider, source, xds: None, overrides, warnings: live_warnings, summary, example })
    }

    fn of_domains(
        domains: SourcedDomains,
        counting: &CountingParts,
        background: &mut BackgroundTasks,
    ) -> anyhow::Result<Self> {
        let SourcedDomains { initial, source } = domains;
        let summary = initial.rule.clone();
        let engine = Arc::new(DomainEngine::new(counting, initial));
        let target = LiveDomains::new(Arc::clone(&engine));
        let mut warnings = LiveWarnings::default();
        let (source, xds) = match source {
            DomainSource::Files(mut files) => {
                warnings = files.live_warnings();
                files.log_warnings(&engine.live());
                let reloads = Arc::new(Reloads::new(files, target));
                background.follow(Arc::clone(&reloads))?;
                (RuleSource::Files(reloads), None)
            }
            DomainSource::Xds(settings) => {
                let status = Arc::new(XdsStatus::new(engine.source()));
                let limits =
                    XdsLimits::new(target, settings.same_domain, Arc::clone(&status), warnings.clone());
                let limits = Arc::new(limits);
                let source = RuleSource::Xds(Arc::clone(limits.reloads()));
                background.add(XdsClient::new(*settings, limits).follow(hangup()?));
                (source, Some(status))
            }
        };
        let example = Some(StartExample::of_domains());
        let (decider, overrides) = (Arc::new(Decider::Domains(engine)), Arc::new(Overrides::none()));
        Ok(Self { decider, source, xds, overrides, warnings, summary, example })
    }
}
