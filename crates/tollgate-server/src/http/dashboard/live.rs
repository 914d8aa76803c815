//! `GET /v1/live`: the state of this process, and its figures of the last minute.

use bytes::Bytes;
use http::Request;
use hyper::body::Incoming;
use tokio::task::block_in_place;
use tollgate::{Clock, SystemClock, Timestamp};
use tollgate_wire::body::TimeText;

use super::shared_body;
use crate::access::caller::Caller;
use crate::answer::rejection::Rejection;
use crate::dashboard::series::Recorder;
use crate::dashboard::{Dashboard, OverrideCounts, PolicyText, TrialBook};
use crate::http::override_body::OverridesVersionText;
use crate::http::wire::{
    DomainRow, DomainRows, EventRow, Latency, LiveMemory, LiveOverrides, LiveProcess, LiveReply, LiveStore,
    LiveTotals, PolicyRows, ServiceState, SourceCounts, WarningRow,
};
use crate::http::{Edge, Reply, reply};
use crate::live::record::ReloadOutcome;
use crate::metrics::{EnvoyFigures, Snapshot};

/// The most policies, or domains, in an answer.
const MAX_ROWS: usize = 1_000;

/// The most warnings in an answer.
pub(super) const MAX_WARNINGS: usize = 50;

/// What an answer is made from.
#[derive(Clone, Copy)]
struct LiveFigures<'a> {
    snapshot: &'a Snapshot,
    recorder: &'a Recorder,
    trials: &'a TrialBook,
    overrides: &'a OverrideCounts,
    texts: &'a [PolicyText],
}

impl Edge {
    /// The figures cover all policies, so callers that may use only some are refused.
    pub(in crate::http) async fn live(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        caller.may_touch_all()?;
        let dashboard = self.dashboard()?;
        if !dashboard.viewers.admit(SystemClock.now()) {
            return Err(Rejection::too_many_viewers());
        }
        let second = dashboard.recorder().second();
        let body = dashboard.live.get(second, async |last| self.live_body(dashboard, last).await).await;
        Ok(shared_body::answer(request.headers(), &body, "application/json", "no-store"))
    }

    async fn live_body(&self, dashboard: &Dashboard, room: usize) -> Bytes {
        let readiness = self.ready_text().await;
        let (state, state_text) = match &readiness {
            Ok(text) => (ServiceState::Ready, text.trim_end()),
            Err(rejection) if self.phase.is_leaving() => (ServiceState::Draining, rejection.detail()),
            Err(rejection) => (ServiceState::NotReady, rejection.detail()),
        };
        // No check waits for a page: other tasks of this thread go on elsewhere meanwhile.
        block_in_place(|| {
            let snapshot = dashboard.snapshot();
            let overrides = dashboard.override_counts(&snapshot.policies.live);
            let mut texts = dashboard.texts();
            let policies = snapshot.policies.live.policies().as_slice();
            let policies = policies.get(..MAX_ROWS).unwrap_or(policies);
            let texts = texts.of(snapshot.policies.live.version(), policies);
            let (recorder, trials) = (dashboard.recorder(), dashboard.trials());
            let (recorder, trials, overrides) = (&*recorder, &*trials, &*overrides);
            let figures = LiveFigures { snapshot: &snapshot, recorder, trials, overrides, texts };
            reply::bytes_like(room, &self.live_reply(dashboard, figures, (state, state_text)))
        })
    }

    fn live_reply<'a>(
        &'a self,
        dashboard: &'a Dashboard,
        LiveFigures { snapshot, recorder, trials, overrides, texts }: LiveFigures<'a>,
        (state, state_text): (ServiceState, &str),
    ) -> LiveReply<'a> {
        let (span_seconds, process) = recorder.minute();
        let (live, envoy) = (&snapshot.policies.live, snapshot.envoy.as_ref());
        let failure = snapshot.policies.reloads.as_ref().and_then(|reloads| reloads.failure());
        let awaits_limits = self.decider.awaits_limits();
        let domains = self.decider.domains();
        let policies = if envoy.is_none() { live.policies().as_slice() } else { &[] };
        let warnings = dashboard.warnings.all();
        LiveReply {
            seq: recorder.second(),
            at: TimeText(SystemClock.now()),
            process: LiveProcess {
                host: &dashboard.host,
                pid: std::process::id(),
                started: TimeText(recorder.started()),
                version: env!("CARGO_PKG_VERSION"),
            },
            state,
            state_text: state_text.to_owned(),
            decided_by: if envoy.is_none() { "policies" } else { "domains" },
            policies_version: domains.map_or_else(|| live.version(), |engine| engine.version()),
            generation: self.decider.generation().map(|generation| generation.to_string()),
            overrides_version: OverridesVersionText::of(live),
            overrides: snapshot.overrides.as_ref().map(LiveOverrides::from),
            source: domains.map_or_else(|| live.source(), |engine| engine.source()),
            since: TimeText(if envoy.is_none() { live.since() } else { replaced_at(snapshot, recorder) }),
            in_step: failure.is_none() && !awaits_limits,
            failure: failure.map(|failure| failure.to_string()),
            warnings: warnings.iter().take(MAX_WARNINGS).map(WarningRow::from).collect(),
            warnings_count: warnings.len(),
            span_seconds,
            totals: LiveTotals::new(&process, &recorder.total().minute(), recorder.checks_now()),
            sources: SourceCounts::new(&process),
            latency_ms: Latency::of(&process.decisions),
            memory: LiveMemory::new(&snapshot.memory, &process),
            store: snapshot.shared.as_ref().map(|(_, status)| {
                // Not the state of this moment: an outage that is shown has its mark among the events.
                let down_since = recorder.store_down_since();
                let kind = dashboard.store_kind.unwrap_or_default();
                LiveStore::new(kind, down_since, status, &process, self.decider.without_store())
            }),
            talkers: dashboard.talkers.as_ref().map_or("off", |talkers| talkers.names().name()),
            policies: PolicyRows {
                policies: policies.get(..MAX_ROWS).unwrap_or(policies),
                texts,
                recorder,
                trials,
                overrides,
            },
            policies_count: policies.len(),
            envoy: envoy.map(|envoy| DomainRows {
                domains: domain_rows(envoy, dashboard.talkers.is_some(), recorder),
            }),
            events: recorder.events().map(EventRow::from).collect(),
        }
    }
}

fn domain_rows<'a>(envoy: &'a EnvoyFigures, are_counted: bool, recorder: &Recorder) -> Vec<DomainRow<'a>> {
    /// A page offers a choice of so many.
    const MAX_RULES: usize = 100;
    let mut domains: Vec<_> = envoy.live.limits_by_name().collect();
    let rules_of = |domain| {
        let names = if are_counted { envoy.live.rule_names_of(domain) } else { &[] };
        names.iter().map(AsRef::as_ref).take(MAX_RULES).collect()
    };
    domains.sort_unstable();
    domains
        .into_iter()
        .take(MAX_ROWS)
        .map(|(name, limits)| DomainRow::new(name, limits, rules_of(name), recorder))
        .collect()
}

/// Returns when the live limits of domains became live.
fn replaced_at(snapshot: &Snapshot, recorder: &Recorder) -> Timestamp {
    let records = snapshot.policies.reloads.iter().flat_map(|reloads| reloads.records());
    let replaced = records.into_iter().find(|record| matches!(record.outcome, ReloadOutcome::Replaced(_)));
    replaced.map_or_else(|| recorder.started(), |record| record.at)
}
