//! The denials of each policy, and their clients.

mod burst;
mod calculable;
pub(crate) mod classes;
pub(crate) mod quota;

use tollgate::PolicyQuota;
use tollgate_policy::{Identity, Mode, Policies, Policy, PolicyKind, QuotaSpec};

use self::calculable::is_calculable;
use self::classes::ByClass;
use self::quota::{QuotaRequest, QuotaTrack};
use super::clients::Met;
use super::clients::per_client::PerClient;
use super::statuses::DeniedStatuses;
use super::verdict::Verdict;
use crate::report::Clientless;
use crate::role::Role;

/// The kind of key of the clients of figures over all policies.
pub(crate) const CLIENT: usize = 0;

/// Quotas whose figures of each client are prefetched. A request may match none of them.
const MOST_NEAR: usize = 4;

/// The counts of one policy in one role.
#[derive(Debug)]
pub(crate) struct PolicyTrack {
    /// Its place among the policies, and its name.
    pub(crate) policy: usize,
    pub(crate) name: Box<str>,
    pub(crate) role: Role,
    /// Which kind of key it counts by.
    pub(crate) subject: usize,
    pub(crate) requests: u64,
    pub(crate) denied: u64,
    /// Requests for which one of its quotas had no room.
    pub(crate) denied_by_quotas: u64,
    /// Whether the denials of other limits follow from the windows of its clients, as far as the policies show it.
    pub(crate) is_calculable: bool,
    /// Requests on which another policy has decided too.
    pub(crate) joined: u64,
    /// Requests for which it charges nothing because another policy denies them, if it is in shadow mode.
    pub(crate) uncharged: u64,
    /// Requests that it denies and that the policies to compare with do not.
    pub(crate) newly_denied: u64,
    pub(crate) denied_by_status: DeniedStatuses,
    pub(crate) clientless: Clientless,
    pub(crate) clients: Met,
    /// Requests of each client that were answered with a status from 400 to 499, if the suggested limit depends on
    /// them.
    pub(crate) failed: PerClient<u32>,
    pub(crate) classes: ByClass,
    pub(crate) quotas: Vec<QuotaTrack>,
}

/// The counts of all policies.
#[derive(Debug, Default)]
pub(crate) struct Tracks {
    tracks: Vec<PolicyTrack>,
    /// Where each quota is counted, by the place in memory of the policies' own quotas.
    places: Vec<(usize, (usize, usize))>,
    /// Quotas that count the clients of figures over all policies, if they are few: most requests have one of them.
    near: Vec<(usize, usize)>,
    /// Policies whose charges were begun, with the client.
    begun: Vec<NotedRequest>,
    /// The memory for the clients of classes.
    class_bytes: usize,
    /// Admissions that quotas remember to measure bursts, and how many they may.
    admissions: usize,
    pub(crate) max_admissions: usize,
}

/// The verdict of a policy on a request.
#[derive(Debug)]
pub(crate) struct NotedRequest {
    pub(crate) track: usize,
    pub(crate) client: Option<u32>,
    /// The class of the request, counted from 1; 0 if it is in none.
    pub(crate) class: u8,
    /// The status of the request in the log.
    pub(crate) status: Option<u16>,
    /// What the policy makes of it.
    pub(crate) verdict: Verdict,
    /// What the policies to compare with make of it, if the policy decides.
    pub(crate) before: Option<Verdict>,
}

impl PolicyTrack {
    /// Returns whether policies that seem to be apart have met in a request, as in a path with two readings. What one
    /// denies then changes the windows of the other, so nothing follows from these.
    pub(crate) const fn has_met_another(&self) -> bool {
        self.is_calculable && self.joined > 0
    }

    fn new(place: usize, policy: &Policy, role: Role, subject: usize, classes: usize) -> Self {
        Self {
            policy: place,
            name: policy.name().into(),
            role,
            subject,
            requests: 0,
            denied: 0,
            denied_by_quotas: 0,
            is_calculable: false,
            joined: 0,
            uncharged: 0,
            newly_denied: 0,
            denied_by_status: DeniedStatuses::default(),
            clientless: Clientless::default(),
            clients: Met::default(),
            failed: PerClient::default(),
            classes: ByClass::new(classes),
            quotas: Vec::new(),
        }
    }
}

/// The place in memory of a quota that belongs to the policies, and so stays where it is.
fn address(quota: &PolicyQuota) -> usize {
    std::ptr::from_ref(quota).addr()
}

impl Tracks {
    /// Tracks for policies that stay where they are in memory, and so many classes. `subject` says which kind of key
    /// this is.
    pub(crate) fn new(
        policies: &Policies,
        classes: usize,
        mut subject: impl FnMut(&Identity) -> usize,
    ) -> Self {
        let mut all = Self { max_admissions: burst::MOST, ..Self::default() };
        for (place, policy) in policies.as_slice().iter().enumerate() {
            let subject = match policy.kind() {
                _ if policy.mode() == Mode::Off => continue,
                PolicyKind::Count => subject(policy.identity()),
                PolicyKind::Exempt | PolicyKind::Deny => 0,
            };
            // A policy that exempts does so in every mode.
            let is_trial = policy.mode() == Mode::Shadow && policy.kind() != PolicyKind::Exempt;
            let role = if is_trial { Role::Shadow } else { Role::Enforced };
            all.add(PolicyTrack::new(place, policy, role, subject, classes), policies, policy);
            let mut override_candidates = policy.overrides().iter().flat_map(|over| over.candidates());
            if !policy.candidates().is_empty() || override_candidates.any(|list| !list.is_empty()) {
                all.add(PolicyTrack::new(place, policy, Role::Candidate, subject, classes), policies, policy);
            }
        }
        let tracks = all.tracks.iter().enumerate().filter(|(_, track)| track.subject == CLIENT);
        let near = tracks.flat_map(|(number, track)| {
            let own = track.quotas.iter().take_while(|quota| quota.of_override.is_none());
            own.enumerate().map(move |(place, _)| (number, place))
        });
        all.near = near.take(MOST_NEAR).collect();
        all.places.sort_unstable();
        all
    }

    fn add(&mut self, mut track: PolicyTrack, policies: &Policies, policy: &Policy) {
        let is_candidate = track.role == Role::Candidate;
        let mut specs: Vec<(QuotaSpec<'_>, Option<usize>)> = match is_candidate {
            true => policy.candidate_specs().map(|spec| (spec, None)).collect(),
            false => policy.quota_specs().map(|spec| (spec, None)).collect(),
        };
        for over in policy.overrides() {
            let line = Some(over.at().line);
            match is_candidate {
                true => specs.extend(over.candidate_specs().map(|spec| (spec, line))),
                false => specs.extend(over.quota_specs().map(|spec| (spec, line))),
            }
        }
        let number = self.tracks.len();
        for (place, (spec, line)) in specs.into_iter().enumerate() {
            self.places.push((address(spec.quota()), (number, place)));
            track.quotas.push(QuotaTrack::new(spec, line));
        }
        let own = track.quotas.first();
        track.is_calculable = own.is_some_and(|own| is_calculable(policies, policy, track.role, &own.quota));
        self.tracks.push(track);
    }

    /// Where a quota of the policies is counted.
    pub(crate) fn find(&self, quota: &PolicyQuota) -> Option<(usize, usize)> {
        let found = self.places.binary_search_by_key(&address(quota), |(address, _)| *address).ok()?;
        self.places.get(found).map(|(_, place)| *place)
    }

    /// Where a policy is counted in this role.
    pub(crate) fn find_policy(&self, policy: &Policy, role: Role) -> Option<usize> {
        self.tracks.iter().position(|track| track.role == role && *track.name == *policy.name())
    }

    /// Notes a request for which a policy in shadow mode charges nothing.
    pub(crate) fn note_uncharged(&mut self, policy: &Policy) {
        let track = self.find_policy(policy, Role::Shadow).and_then(|track| self.tracks.get_mut(track));
        track.into_iter().for_each(|track| track.uncharged += 1);
    }

    /// Notes a request on which another policy than this trial has decided.
    pub(crate) fn note_joined(&mut self, policy: &Policy, role: Role) {
        let track = self.find_policy(policy, role).and_then(|track| self.tracks.get_mut(track));
        track.into_iter().for_each(|track| track.joined += 1);
    }

    pub(crate) fn of(&self, track: usize) -> Option<&PolicyTrack> {
        self.tracks.get(track)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PolicyTrack> {
        self.tracks.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut PolicyTrack> {
        self.tracks.iter_mut()
    }

    /// Begins to note the charges of a policy for a request, which is allowed until one of them has no room.
    pub(crate) fn begin(&mut self, noted: NotedRequest) {
        self.begun.push(noted);
    }

    /// Notes one charge of the policy begun last.
    pub(crate) fn note(&mut self, track: usize, place: usize, seen: QuotaRequest<'_>) {
        let quota = self.tracks.get_mut(track).and_then(|track| track.quotas.get_mut(place));
        if let Some(quota) = quota {
            self.admissions -= quota.burst.len();
            quota.note(seen);
            self.admissions += quota.burst.len();
            if self.admissions > self.max_admissions {
                self.forget_admissions();
            }
        }
        if let Some(begun) = self.begun.last_mut().filter(|_| !seen.state.has_room()) {
            begun.verdict = Verdict::Denied;
        }
    }

    /// Measures no burst of the quota that remembers most.
    #[cold]
    fn forget_admissions(&mut self) {
        let quotas = self.tracks.iter_mut().flat_map(|track| &mut track.quotas);
        if let Some(most) = quotas.max_by_key(|quota| quota.burst.len()) {
            self.admissions -= most.burst.len();
            most.burst.give_up();
        }
    }

    /// Notes what the charges of each policy have come to.
    pub(crate) fn end(&mut self) {
        let mut begun = std::mem::take(&mut self.begun);
        let are_joined = begun.len() > 1;
        for noted in begun.drain(..) {
            if let Some(track) = self.tracks.get_mut(noted.track) {
                track.denied_by_quotas += u64::from(noted.verdict.is_denied());
                track.joined += u64::from(are_joined);
            }
            self.note_request(noted);
        }
        // Its room is used again.
        self.begun = begun;
    }

    /// Notes a request that a policy exempts, denies without a count, or has counted.
    pub(crate) fn note_request(&mut self, noted: NotedRequest) {
        let NotedRequest { track, client, class, status, verdict, before } = noted;
        let Some(track) = self.tracks.get_mut(track) else { return };
        let is_new = before.is_some_and(Verdict::is_allowed);
        track.requests += 1;
        track.denied += u64::from(verdict.is_denied());
        track.newly_denied += u64::from(verdict.is_denied() && is_new);
        if verdict.is_denied() {
            track.denied_by_status.note(status);
        }
        track.clientless.note(client, verdict, before);
        let bytes = track.classes.bytes();
        track.classes.note(class, client, verdict, before);
        self.class_bytes += track.classes.bytes() - bytes;
        if let Some(client) = client {
            track.clients.note(client, verdict, before);
            let is_failed = status.is_some_and(|status| (400..500).contains(&status));
            if is_failed && track.is_calculable && track.subject == CLIENT {
                track.failed.of(client).into_iter().for_each(|failed| *failed = failed.saturating_add(1));
            }
        }
    }

    /// Where a quota is counted, if it counts the clients of figures over all policies.
    pub(crate) fn find_near(&self, quota: &PolicyQuota) -> Option<(usize, usize)> {
        let found = self.find(quota)?;
        self.tracks.get(found.0).filter(|track| track.subject == CLIENT).map(|_| found)
    }

    /// Prefetches what a quota counts of a client.
    pub(crate) fn prefetch(&self, track: usize, place: usize, client: u32) {
        let quota = self.tracks.get(track).and_then(|track| track.quotas.get(place));
        quota.into_iter().for_each(|quota| quota.prefetch(client));
    }

    /// Prefetches what quotas on trial count of a client.
    pub(crate) fn prefetch_trials(&self, client: u32) {
        let on_trial = self.near_tracks().filter(|(track, _)| !track.role.is_enforced());
        on_trial.for_each(|(_, quota)| quota.prefetch(client));
    }

    /// Prefetches the clients whose admissions are the next to be forgotten.
    pub(crate) fn prefetch_oldest(&self, count: usize) {
        self.near_tracks().for_each(|(_, quota)| quota.burst.prefetch_oldest(count));
    }

    fn near_tracks(&self) -> impl Iterator<Item = (&PolicyTrack, &QuotaTrack)> {
        self.near.iter().filter_map(|(track, place)| {
            let track = self.tracks.get(*track)?;
            Some((track, track.quotas.get(*place)?))
        })
    }

    /// Keeps the clients of this kind of key that had these numbers.
    pub(crate) fn keep(&mut self, subject: usize, kept: &[u32]) {
        for track in self.tracks.iter_mut().filter(|track| track.subject == subject) {
            // Nobody knows which of them were of clients that are still followed.
            track.clientless = Clientless { denied: track.denied, newly_denied: track.newly_denied };
            track.clients.keep(kept);
            track.failed.keep(kept);
            track.classes.keep(kept);
            track.quotas.iter_mut().for_each(|quota| quota.keep(kept));
        }
        self.class_bytes = self.tracks.iter().map(|track| track.classes.bytes()).sum();
        let quotas = self.tracks.iter().flat_map(|track| &track.quotas);
        self.admissions = quotas.map(|quota| quota.burst.len()).sum();
    }

    /// The memory that the clients of classes take.
    pub(crate) const fn class_bytes(&self) -> usize {
        self.class_bytes
    }

    /// Of that, the part of this kind of key.
    pub(crate) fn class_bytes_of(&self, subject: usize) -> usize {
        let same_key = self.tracks.iter().filter(|track| track.subject == subject);
        same_key.map(|track| track.classes.bytes()).sum()
    }
}
