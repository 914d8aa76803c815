//! What decisions say, noted for the report: of all requests, of each policy, and of trials.

use tollgate::{CountDenied, PolicyQuota, Quota, QuotaState, Timestamp};
use tollgate_policy::{
    Ground, Outcome, Policy, PolicyDecision, QuotaStanding, Trial, TrialAnswer, TrialDecision,
};

use super::BATCH;
use super::all::All;
use super::clients::denier::Denier;
use super::decider::{DecidedRequest, RequestPart};
use super::error::ReplayError;
use super::options::Options;
use super::policies::classes::ByClass;
use super::policies::quota::QuotaRequest;
use super::policies::{CLIENT, NotedRequest, Tracks};
use super::rungs::{Charge, Rungs};
use super::traffic::Traffic;
use super::verdict::{Verdict, Verdicts};
use crate::fingerprint::mix;
use crate::followed::{ClientLookup, FollowedClients, digest};
use crate::hit::Hit;
use crate::report::Clientless;
use crate::role::Role;

/// Notes decisions, and tries other limits on the same requests.
pub(super) struct Noter {
    /// The first are the clients of figures over all policies.
    pub(super) subjects: Vec<FollowedClients>,
    pub(super) tracks: Tracks,
    pub(super) rungs: Rungs,
    pub(super) all: All,
    /// Routes and the busiest clients, if they were asked for.
    pub(super) traffic: Option<Traffic>,
    /// The most memory for the clients of classes, and whether it did not suffice.
    pub(super) max_class_bytes: usize,
    pub(super) is_short_of_class_bytes: bool,
    pub(super) options: Options,
    /// Policies whose limits in flight are skipped.
    pub(super) in_flight: Vec<String>,
    /// Room for the clients of a request, which is used again.
    room: Vec<Option<RequestClient>>,
}

/// A client of a request: the digest of its key, and its number, if it is followed.
#[derive(Clone, Copy)]
struct RequestClient {
    digest: u128,
    number: Option<u32>,
}

/// A request that is being noted.
struct Request<'h, 'a> {
    hit: &'h Hit<'a>,
    now: Timestamp,
    /// Its class, counted from 1; 0 if it is in none.
    class: u8,
    /// The client's number for each kind of key; `None` until it is looked up.
    clients: Vec<Option<RequestClient>>,
}

/// A quota that was charged for a request, and how the key was found.
struct ChargedQuota<'c, K> {
    /// As the policies have it, and as it was charged.
    declared: &'c PolicyQuota,
    quota: &'c Quota,
    cost: u32,
    state: &'c QuotaState,
    /// Digests the key.
    key: K,
}

impl Request<'_, '_> {
    /// The number of its client of this kind of key, if it is known and followed.
    fn number(&self, subject: usize) -> Option<u32> {
        self.clients.get(subject).copied().flatten()?.number
    }
}

impl Noter {
    pub(super) fn new(
        subjects: Vec<FollowedClients>,
        tracks: Tracks,
        rungs: Rungs,
        options: Options,
    ) -> Self {
        Self {
            subjects,
            tracks,
            rungs,
            all: All::new(&options),
            traffic: options.routes.then(|| Traffic::new(options.listed_clients)),
            max_class_bytes: ByClass::MAX_BYTES,
            is_short_of_class_bytes: false,
            options,
            in_flight: Vec::new(),
            room: Vec::new(),
        }
    }

    /// Notes what was decided on requests, and tries other limits on them. Returns the part's error, if there is one.
    pub(super) fn note(&mut self, part: &mut RequestPart<'_>) -> Result<(), ReplayError> {
        for (hits, decided) in part.hits.chunks(BATCH).zip(part.decided.chunks(BATCH)) {
            self.prefetch(decided);
            hits.iter().zip(decided).for_each(|(hit, decided)| self.note_one(hit, decided));
        }
        part.error.take().map_or(Ok(()), Err)
    }

    /// Prefetches what is noted of their clients.
    fn prefetch(&self, decided: &[DecidedRequest]) {
        let Some(subjects) = self.subjects.get(CLIENT).filter(|_| decided.len() > 1) else { return };
        decided.iter().filter_map(|decided| decided.digest).for_each(|digest| subjects.prefetch(digest));
        self.tracks.prefetch_oldest(decided.len());
        for DecidedRequest { digest, decision, .. } in decided {
            let Some(client) = digest.and_then(|digest| subjects.known(digest)) else { continue };
            self.all.clients.prefetch(client);
            let Ok(decision) = decision else { continue };
            for quota in decision.quotas() {
                let Some((track, place)) = self.tracks.find_near(quota.declared) else { continue };
                self.tracks.prefetch(track, place, client);
                let digest = digest.filter(|_| !self.rungs.is_empty());
                digest.iter().for_each(|digest| self.rungs.prefetch(track, place, *digest));
            }
            if decision.trials().next().is_some() {
                self.tracks.prefetch_trials(client);
            }
        }
    }

    fn note_one(&mut self, hit: &Hit<'_>, decided: &DecidedRequest) {
        let DecidedRequest { now, digest, verdict, before, .. } = *decided;
        self.all.late += u64::from(hit.time < now);
        let class = self.options.classes.of(&hit.attributes);
        let mut clients = std::mem::take(&mut self.room);
        clients.clear();
        clients.resize(self.subjects.len(), None);
        let mut request = Request { hit, now, class, clients };
        self.note_all(&mut request, digest, verdict, before);
        self.note_traffic(&request, digest, verdict);
        match &decided.decision {
            Ok(decision) => {
                if verdict.is_denied() {
                    self.note_denier(&request, decision);
                }
                self.note_policies(&mut request, decision, before);
                self.note_tried(&request, decision);
            }
            Err(reason) => self.all.note_undecided(reason),
        }
        self.room = request.clients;
        self.bound_classes();
    }

    fn note_all(
        &mut self,
        request: &mut Request<'_, '_>,
        digest: Option<u128>,
        verdict: Verdict,
        before: Option<Verdict>,
    ) {
        let Request { hit, now, class, .. } = *request;
        let is_refused = hit.status.is_some_and(|status| matches!(status, 429 | 503));
        self.all.refused_in_log += u64::from(is_refused);
        self.all.verdicts.note(verdict, before);
        self.all.load.note(now, verdict);
        self.all.statuses.note(hit.status, verdict.is_denied());
        let number = digest.and_then(|digest| {
            self.all.fingerprint = mix(self.all.fingerprint, digest, now);
            self.number(CLIENT, digest, request)
        });
        self.all.classes.note(class, number, verdict, before);
        self.all.clientless.note(number, verdict, before);
        let Some(number) = number else { return };
        let was_denied = before.is_some_and(Verdict::is_denied);
        self.all.clients.note(number, now, verdict.is_denied(), was_denied, class);
        if verdict.is_denied() {
            let clients = &self.all.clients;
            self.all.examples.note(number, hit, |client| clients.denied(client));
        }
        if was_denied {
            let clients = &self.all.clients;
            self.all.before_examples.note(number, hit, |client| clients.denied_before(client));
        }
        let is_listed = verdict.is_denied() || was_denied;
        if let Some(subjects) = self.subjects.get_mut(CLIENT).filter(|_| is_listed) {
            subjects.remember_name(number, &hit.attributes);
        }
    }

    /// Notes what has denied a request.
    fn note_denier(&mut self, request: &Request<'_, '_>, decision: &PolicyDecision) {
        let Some(number) = request.number(CLIENT) else { return };
        let denying = decision.quotas().find(|quota| !quota.state.has_room());
        let track = denying.and_then(|quota| self.tracks.find(quota.declared)).map(|(track, _)| track);
        // It decides alone, so no other one denies the same request.
        let alone = track.filter(|track| self.tracks.of(*track).is_some_and(|track| track.is_calculable));
        let denier = alone.and_then(Denier::of).unwrap_or_else(Denier::others);
        self.all.clients.note_denier(number, denier);
    }

    /// Notes whose request this is, and for which route.
    fn note_traffic(&mut self, request: &Request<'_, '_>, digest: Option<u128>, verdict: Verdict) {
        let Some(traffic) = &mut self.traffic else { return };
        let Request { hit, now, .. } = *request;
        traffic.routes.note(hit, now, digest, verdict.is_denied());
        let Some(number) = request.number(CLIENT) else { return };
        let is_new = traffic.clients.note(number, self.all.clients.requests(number), hit.user_agent);
        if let Some(subjects) = self.subjects.get_mut(CLIENT).filter(|_| is_new) {
            subjects.remember_name(number, &hit.attributes);
        }
    }

    fn note_policies(
        &mut self,
        request: &mut Request<'_, '_>,
        decision: &PolicyDecision,
        before: Option<Verdict>,
    ) {
        let hit = request.hit;
        match decision.ground() {
            Ground::Exempt(policy) => {
                self.note_uncounted(request, policy, Role::Enforced, Verdict::Allowed, before);
            }
            Ground::Denied(policy)
            | Ground::DeniedByOverride { policy, .. }
            | Ground::MissingKey { policy, .. } => {
                self.note_uncounted(request, policy, Role::Enforced, Verdict::Denied, before);
                self.rungs.note_denial(request.number(CLIENT));
            }
            Ground::Unmatched => {
                self.all.denied_unmatched += 1;
                self.rungs.note_denial(request.number(CLIENT));
            }
            Ground::Unlimited => self.all.unlimited += 1,
            _ => {}
        }
        let charged = decision.quotas().map(|QuotaStanding { policy, declared, quota, state, .. }| {
            let cost = policy.cost().of(&hit.attributes, 1).unwrap_or(1);
            let key = move || policy.identity().key(&hit.attributes).ok().map(|key| digest(&key));
            ChargedQuota { declared, quota: quota.quota(), cost, state, key }
        });
        self.note_charges(request, charged, before, true);
        if decision.trials().next().is_some() {
            self.note_trials(request, decision);
        }
    }

    /// Notes a request that a policy exempts or denies without a count.
    fn note_uncounted(
        &mut self,
        request: &Request<'_, '_>,
        policy: &Policy,
        role: Role,
        verdict: Verdict,
        before: Option<Verdict>,
    ) {
        let Some(track) = self.tracks.find_policy(policy, role) else { return };
        let subject = self.tracks.of(track).map_or(CLIENT, |track| track.subject);
        let client = request.number(subject);
        let (class, status) = (request.class, request.hit.status);
        self.tracks.note_request(NotedRequest { track, client, class, status, verdict, before });
    }

    /// The charges of quotas on trial are not in the decision, so they are determined once more.
    fn note_trials(&mut self, request: &mut Request<'_, '_>, decision: &PolicyDecision) {
        let set = decision.policies();
        let Ok(Outcome::Charge(matched)) = set.policies().charges(&request.hit.attributes, 1) else { return };
        // Those that count nothing come first, then the others in the order in which they matched.
        let mut counting = matched.trials();
        for trial in decision.trials() {
            match trial.answer {
                TrialAnswer::Denied => {
                    let role = Role::of(trial.kind);
                    self.note_uncounted(request, trial.policy, role, Verdict::Denied, None);
                }
                TrialAnswer::Quotas(counted) => {
                    let Some(matched) = counting.next() else { continue };
                    let takes = decision.is_allowed() || is_charged_though_denied(&matched, decision);
                    if decision.quotas().any(|quota| quota.policy.name() != trial.policy.name()) {
                        self.tracks.note_joined(trial.policy, Role::of(trial.kind));
                    }
                    if !takes {
                        self.tracks.note_uncharged(trial.policy);
                    }
                    let charges = matched.declared().zip(matched.charges()).zip(counted);
                    let charged = charges.map(|((declared, charge), state)| ChargedQuota {
                        declared,
                        quota: charge.counter().quota().quota(),
                        cost: charge.cost(),
                        state,
                        key: move || Some(digest(charge.counter().key())),
                    });
                    self.note_charges(request, charged, None, takes);
                }
                _ => _ = counting.next(),
            }
        }
    }

    /// Notes whose request is allowed, and would be denied by a policy on trial.
    fn note_tried(&mut self, request: &Request<'_, '_>, decision: &PolicyDecision) {
        let denies = |trial: TrialDecision<'_>| trial.answer.verdict() == Some(tollgate::Verdict::Denied);
        if !decision.is_allowed() || !decision.trials().any(denies) {
            return;
        }
        let Some(number) = request.number(CLIENT) else { return };
        if let Some(times) = self.all.tried.of(number) {
            *times = times.saturating_add(1);
        }
        let tried = &self.all.tried;
        self.all
            .tried_examples
            .note(number, request.hit, |client| tried.get(client).map_or(0, |times| (*times).into()));
        if let Some(subjects) = self.subjects.get_mut(CLIENT) {
            subjects.remember_name(number, &request.hit.attributes);
        }
    }

    /// Notes the charges of policies, each of which has its charges together, and whether they are counted if there is
    /// room. Trials are compared with nothing.
    fn note_charges<'c, K: FnOnce() -> Option<u128>>(
        &mut self,
        request: &mut Request<'_, '_>,
        charges: impl Iterator<Item = ChargedQuota<'c, K>>,
        before: Option<Verdict>,
        takes: bool,
    ) {
        let mut last: Option<(usize, Option<RequestClient>)> = None;
        // Nested iterators are faster when they drive the loop.
        charges.for_each(|ChargedQuota { declared, quota, cost, state, key }| {
            let Some((track, place)) = self.tracks.find(declared) else { return };
            let client = match last {
                Some((same, client)) if same == track => client,
                _ => {
                    let Some(subject) = self.tracks.of(track).map(|track| track.subject) else { return };
                    if request.clients.get(subject).copied().flatten().is_none() {
                        key().and_then(|digest| self.number(subject, digest, request));
                    }
                    let client = request.clients.get(subject).copied().flatten();
                    let (number, class) = (client.and_then(|client| client.number), request.class);
                    let (status, verdict) = (request.hit.status, Verdict::Allowed);
                    self.tracks.begin(NotedRequest { track, client: number, class, status, verdict, before });
                    client
                }
            };
            last = Some((track, client));
            let number = client.and_then(|client| client.number);
            let subject = self.tracks.of(track).map_or(0, |track| track.subject);
            let one_in = self.subjects.get(subject).map_or(1, FollowedClients::one_in);
            self.tracks.note(track, place, QuotaRequest { client: number, one_in, cost, quota, state });
            if let Some(RequestClient { digest, .. }) = client.filter(|_| !self.rungs.is_empty()) {
                let charge = Charge { track, place, digest, client: number, cost, quota, state };
                self.rungs.ask(charge, &request.hit.attributes, declared);
            }
        });
        self.tracks.end();
        self.rungs.decide(request.now, request.number(CLIENT), takes);
    }

    /// The number of the client with this key, if it is followed.
    fn number(&mut self, subject: usize, digest: u128, request: &mut Request<'_, '_>) -> Option<u32> {
        let number = loop {
            match self.subjects.get_mut(subject)?.find(digest) {
                ClientLookup::Client(number) => break Some(number),
                ClientLookup::NotFollowed => break None,
                ClientLookup::NoRoom => self.halve(subject),
            }
        };
        if let Some(client) = request.clients.get_mut(subject) {
            *client = Some(RequestClient { digest, number });
        }
        number
    }

    /// Follows fewer clients while those of classes take too much memory: of the kind that takes most.
    fn bound_classes(&mut self) {
        while self.all.classes.bytes() + self.tracks.class_bytes() > self.max_class_bytes {
            let taken = |subject: &usize| {
                let class_bytes = if *subject == CLIENT { self.all.classes.bytes() } else { 0 };
                class_bytes + self.tracks.class_bytes_of(*subject)
            };
            let Some(subject) = (0..self.subjects.len()).max_by_key(taken) else { return };
            self.is_short_of_class_bytes = true;
            self.halve(subject);
        }
    }

    fn halve(&mut self, subject: usize) {
        let Some(subjects) = self.subjects.get_mut(subject) else { return };
        let kept = subjects.halve();
        self.tracks.keep(subject, &kept);
        self.rungs.keep(subject, &self.tracks, &kept);
        if subject == CLIENT {
            let Verdicts { denied, newly_denied, .. } = self.all.verdicts;
            self.all.clientless = Clientless { denied, newly_denied };
            self.all.clients.keep(&kept);
            self.all.examples.keep(&kept);
            self.all.before_examples.keep(&kept);
            self.all.tried.keep(&kept);
            self.all.tried_examples.keep(&kept);
            self.all.classes.keep(&kept);
            self.traffic.iter_mut().for_each(|traffic| traffic.clients.keep(&kept));
        }
    }
}

/// Whether a trial counts a request that is denied: if only its own policy denies it, or as an overdraft.
fn is_charged_though_denied(trial: &Trial<'_>, decision: &PolicyDecision) -> bool {
    let denies =
        |quota: &QuotaStanding<'_>| !quota.state.has_room() && quota.policy.name() != trial.policy().name();
    let is_overdraft =
        |charge: tollgate::Charge<'_>| charge.counter().quota().count_denied() == CountDenied::Overdraft;
    trial.charges().any(is_overdraft) || !decision.quotas().any(|quota| denies(&quota))
}
