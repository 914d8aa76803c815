//! Turns the figures of a replay into its report.

mod quota;

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate::Timestamp;
use tollgate_policy::{Policies, PolicyKind};

use self::quota::DeniedClients;
use super::clients::examples::Examples;
use super::clients::in_routes::clients_in_routes;
use super::clients::{ClientRecord, Clients, most_denied};
use super::load::calendar;
use super::noter::Noter;
use super::policies::CLIENT;
use super::{Replay, rungs};
use crate::followed::FollowedClients;
use crate::gate::{Gate, GateError, KnownNames};
use crate::report::{
    BaselineComparison, BusyClient, DayReport, DeniedClient, FullestWindow, Note, PolicyReport, Report,
    TimeShare, UndecidedReason,
};
use crate::role::Role;
use crate::time::written;

impl Replay {
    /// Ends the replay and returns its report.
    #[must_use]
    pub fn report(self) -> Report {
        let Self { decider, mut noter } = self;
        for track in noter.tracks.iter_mut() {
            let one_in = noter.subjects.get(track.subject).map_or(1, FollowedClients::one_in);
            track.quotas.iter_mut().for_each(|quota| quota.close(one_in));
        }
        noter.all.load.end();
        let routes =
            noter.traffic.as_mut().map(|traffic| traffic.routes.reports(noter.all.load.calendar.zone()));
        let mut report = noter.figures(decider.policies(), decider.is_comparing());
        report.routes = routes.unwrap_or_default();
        if let Some(subjects) = noter.subjects.get(CLIENT) {
            let busiest = report.busiest_clients.iter().map(|client| &*client.client);
            let listed: Vec<&str> =
                report.most_denied.iter().map(|client| &*client.client).chain(busiest).collect();
            report.clients_in_routes = clients_in_routes(&report.routes, subjects, &listed);
        }
        report
    }

    /// Returns the error of the first gate that names an unknown policy or class, or a value that is not measured: long
    /// before there is a report to check.
    ///
    /// # Errors
    ///
    /// As [`Gate::check`].
    pub fn expect_gates(&self, gates: &[Gate]) -> Result<(), GateError> {
        let Self { decider, noter } = self;
        let policies = noter.tracks.iter().map(|track| (&*track.name, track.role));
        let classes = noter.options.classes.names();
        let others = ["others"].into_iter().filter(|_| noter.options.classes.len() > 0);
        let askable = KnownNames {
            policies: policies.collect(),
            classes: classes.chain(others).collect(),
            is_compared: decider.is_comparing(),
        };
        gates.iter().try_for_each(|gate| gate.place(&askable).map(drop))
    }
}

impl Noter {
    fn figures(&self, policies: &Policies, is_compared: bool) -> Report {
        let one_client_in = self.subjects.get(CLIENT).map_or(1, FollowedClients::one_in);
        let all = &self.all;
        let verdicts = all.verdicts;
        let mut undecided_reasons: Vec<UndecidedReason> = all
            .undecided
            .iter()
            .map(|(reason, requests)| UndecidedReason { reason: reason.clone(), requests: *requests })
            .collect();
        undecided_reasons.sort_by(|a, b| b.requests.cmp(&a.requests).then_with(|| a.reason.cmp(&b.reason)));
        let span = all.load.span();
        let seconds = span.map_or(Duration::ZERO, |(first, last)| last.since(first));
        Report {
            read: None,
            zone: all.load.calendar.zone().iana_name().unwrap_or("UTC").to_owned(),
            first: span.map(|(first, _)| self.written(first)),
            last: span.map(|(_, last)| self.written(last)),
            seconds: seconds.as_secs_f64(),
            requests: verdicts.requests,
            denied: verdicts.denied,
            undecided: verdicts.undecided,
            undecided_reasons,
            unlimited: all.unlimited,
            denied_unmatched: all.denied_unmatched,
            refused_in_log: all.refused_in_log,
            statuses: all.statuses.reports(),
            clients: all.clients.count(|_| true) * one_client_in,
            denied_clients: all.clients.count(|client| client.denied > 0) * one_client_in,
            clientless: all.clientless,
            one_client_in,
            policies: self.policies(policies),
            most_denied: self.listed(
                all.clients.most_denied(self.options.listed_clients),
                &all.examples,
                Role::is_enforced,
            ),
            most_denied_on_trial: self.most_denied_on_trial(),
            classes: all.classes.reports(&self.options.classes, one_client_in),
            routes: Vec::new(),
            busiest_clients: self.busiest_clients(),
            compared: is_compared.then(|| self.compared(one_client_in)),
            week: self.week(),
            days: self.days(),
            peaks: all.load.peaks(),
            timeline: all.load.timeline(),
            notes: self.notes(policies),
            client: self.options.client.clone(),
            clients_in_routes: BTreeMap::new(),
            fingerprint: all.fingerprint,
        }
    }

    fn written(&self, time: Timestamp) -> String {
        written(time, self.all.load.calendar.zone())
    }

    fn policies(&self, policies: &Policies) -> Vec<PolicyReport> {
        let denied_clients = DeniedClients::of(&self.all.clients);
        let reports = self.tracks.iter().enumerate().filter_map(|(number, track)| {
            let policy = policies.as_slice().get(track.policy)?;
            let one_client_in = self.subjects.get(track.subject).map_or(1, FollowedClients::one_in);
            let quotas = (0..).zip(&track.quotas).filter(|(_, quota)| {
                // A table of overrides may have thousands, most of which no request had.
                quota.of_override.is_none() || quota.requests > 0
            });
            let quotas = quotas.filter_map(|(place, _)| self.quota_report(number, place, &denied_clients));
            Some(PolicyReport {
                policy: policy.name().to_owned(),
                role: track.role,
                key: match policy.kind() {
                    PolicyKind::Count => policy.identity().to_string(),
                    PolicyKind::Exempt => "exempt".to_owned(),
                    PolicyKind::Deny => "deny".to_owned(),
                },
                requests: track.requests,
                denied: track.denied,
                newly_denied: track.newly_denied,
                denied_by_status: track.denied_by_status.reports(),
                clients: track.clients.all() * one_client_in,
                denied_clients: track.clients.denied() * one_client_in,
                newly_denied_clients: track.clients.newly_denied() * one_client_in,
                one_client_in,
                clientless: track.clientless,
                classes: track.classes.reports(&self.options.classes, one_client_in),
                quotas: quotas.collect(),
            })
        });
        reports.collect()
    }

    fn most_denied_on_trial(&self) -> Vec<DeniedClient> {
        let clients = self.all.clients.iter().filter_map(|(number, client)| {
            let denied = self.all.tried.get(number).copied().filter(|times| *times > 0)?;
            Some((number, ClientRecord { denied: denied.into(), ..client }))
        });
        let clients = most_denied(clients.collect(), self.options.listed_clients, |client| client.denied);
        self.listed(clients, &self.all.tried_examples, |role| !role.is_enforced())
    }

    /// The clients as the report lists them, with their fullest windows under policies of some roles.
    fn listed(
        &self,
        clients: Vec<(u32, ClientRecord)>,
        examples: &Examples,
        is_of_interest: fn(Role) -> bool,
    ) -> Vec<DeniedClient> {
        let names: Vec<&str> = self.options.classes.names().collect();
        let listed = clients.into_iter().map(|(number, client)| {
            let example = examples.of(number);
            let class = usize::from(client.class).checked_sub(1).and_then(|place| names.get(place));
            DeniedClient {
                client: self.subjects.get(CLIENT).map_or("", |subjects| subjects.name(number)).to_owned(),
                requests: client.requests,
                denied: client.denied,
                denied_before: client.denied_before,
                first: self.written(client.first),
                last: self.written(client.last),
                fullest: self.fullest(number, is_of_interest),
                class: class.map(|class| (*class).to_owned()),
                user_agent: example.user_agent.map(String::from),
                path: example.path.map(String::from),
            }
        });
        listed.collect()
    }

    /// The window that exceeds its limit most, of policies that count by the same key.
    fn fullest(&self, client: u32, is_of_interest: fn(Role) -> bool) -> Option<FullestWindow> {
        let tracks = self.tracks.iter().filter(|track| track.subject == CLIENT && is_of_interest(track.role));
        let windows = tracks.flat_map(|track| track.quotas.iter().map(move |quota| (track, quota)));
        let windows = windows.filter_map(|(track, quota)| {
            let (start, asked) = quota.fullest(client)?;
            let share = asked as f64 / quota.quota.quota().limit().max(1) as f64;
            Some((share, track, quota, start, asked))
        });
        let (_, track, quota, start, asked) = windows.max_by(|(a, ..), (b, ..)| a.total_cmp(b))?;
        Some(FullestWindow {
            policy: track.name.to_string(),
            quota: quota.quota.quota().to_string(),
            start: self.written(start),
            asked,
        })
    }

    fn busiest_clients(&self) -> Vec<BusyClient> {
        let busiest = self.traffic.iter().flat_map(|traffic| traffic.clients.iter());
        let clients = busiest.filter_map(|busiest| {
            let client = self.all.clients.get(busiest.number)?;
            Some(BusyClient {
                client: self.subjects.get(CLIENT)?.name(busiest.number).to_owned(),
                requests: client.requests,
                denied: client.denied,
                first: self.written(client.first),
                last: self.written(client.last),
                user_agent: busiest.user_agent.as_deref().map(str::to_owned),
            })
        });
        clients.collect()
    }

    fn compared(&self, one_client_in: u64) -> BaselineComparison {
        let verdicts = &self.all.verdicts;
        let is_newly_denied = |client: &ClientRecord| client.denied > 0 && client.denied_before == 0;
        let is_newly_allowed = |client: &ClientRecord| client.denied == 0 && client.denied_before > 0;
        let clients: &Clients = &self.all.clients;
        let newly = clients.iter().filter(|(_, client)| is_newly_denied(client)).collect();
        let newly = most_denied(newly, self.options.listed_clients, |client| client.denied);
        let allowed = clients.iter().filter(|(_, client)| is_newly_allowed(client)).collect();
        let allowed = most_denied(allowed, self.options.listed_clients, |client| client.denied_before);
        BaselineComparison {
            denied_before: verdicts.denied_before,
            newly_denied: verdicts.newly_denied,
            newly_allowed: verdicts.newly_allowed,
            same: verdicts.same,
            incomparable: verdicts.incomparable,
            newly_denied_clients: clients.count(is_newly_denied) * one_client_in,
            newly_allowed_clients: clients.count(is_newly_allowed) * one_client_in,
            most_newly_denied: self.listed(newly, &self.all.examples, Role::is_enforced),
            most_newly_allowed: self.listed(allowed, &self.all.before_examples, Role::is_enforced),
        }
    }

    fn week(&self) -> Vec<Vec<TimeShare>> {
        let week = self.all.load.calendar.week.iter();
        week.map(|day| day.iter().map(|share| share.reported()).collect()).collect()
    }

    fn days(&self) -> Vec<DayReport> {
        let days = self.all.load.calendar.days().map(|(day, share)| DayReport {
            day: day.to_string(),
            requests: share.requests,
            denied: share.denied,
        });
        days.collect()
    }

    /// The policies that count no request: their conditions may be wrong.
    fn idle_policies(&self, policies: &Policies) -> Option<Note> {
        let mut requests = BTreeMap::new();
        for track in self.tracks.iter().filter(|track| !track.quotas.is_empty()) {
            *requests.entry(track.policy).or_insert(0) += track.requests;
        }
        let idle = requests.into_iter().filter(|(_, requests)| *requests == 0);
        let idle = idle.filter_map(|(policy, _)| Some(policies.as_slice().get(policy)?.name().to_owned()));
        let idle: Vec<String> = idle.collect();
        let has_undecided = self.all.verdicts.undecided > 0;
        (!idle.is_empty()).then_some(Note::IdlePolicies { policies: idle, has_undecided })
    }

    fn notes(&self, policies: &Policies) -> Vec<Note> {
        let has_policies = !policies.as_slice().is_empty();
        let mut notes: Vec<Note> = has_policies.then_some(Note::DeniedClientsContinue).into_iter().collect();
        notes.extend([Note::CachedRequests, Note::SharedAddresses]);
        if self.all.refused_in_log > 0 {
            let requests = self.all.verdicts.requests;
            notes.push(Note::RefusedInLog { refused: self.all.refused_in_log, requests });
        }
        if self.all.late > 0 {
            notes.push(Note::OutOfOrder { requests: self.all.late });
        }
        let one_in = self.subjects.iter().map(FollowedClients::one_in).max().unwrap_or(1);
        if one_in > 1 {
            let is_short_of_class_bytes = self.is_short_of_class_bytes;
            notes.push(Note::FollowedClients { one_in, is_short_of_class_bytes });
        }
        if !self.in_flight.is_empty() {
            notes.push(Note::SkippedInFlight { policies: self.in_flight.clone() });
        }
        if self.all.verdicts.requests > 0 {
            notes.extend(self.idle_policies(policies));
            let uncharged = self.tracks.iter().filter(|track| track.uncharged > 0);
            let policies: Vec<(String, u64)> =
                uncharged.map(|track| (track.name.to_string(), track.uncharged)).collect();
            if !policies.is_empty() {
                notes.push(Note::UnchargedShadows { policies });
            }
            let classes = self.all.classes.reports(&self.options.classes, 1).into_iter();
            let empty = classes.filter(|class| class.requests == 0 && class.class != "others");
            notes.extend(empty.map(|class| Note::EmptyClass { class: class.class }));
        }
        let examples = [&self.all.examples, &self.all.before_examples, &self.all.tried_examples];
        if examples.into_iter().any(Examples::is_short) {
            notes.push(Note::MissingExamples);
        }
        let quotas = self.tracks.iter().flat_map(|track| &track.quotas);
        let unmeasured = quotas.filter(|quota| quota.burst.is_lost()).count();
        if unmeasured > 0 {
            notes.push(Note::UnmeasuredBursts { quotas: unmeasured as u64 });
        }
        notes.extend(rungs::notes(policies, &self.tracks, &self.rungs, self.options.rungs));
        notes
    }
}

impl calendar::RequestCounts {
    const fn reported(&self) -> TimeShare {
        TimeShare { requests: self.requests, denied: self.denied }
    }
}
