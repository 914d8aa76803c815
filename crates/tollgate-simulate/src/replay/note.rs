//! What a decision says, noted for the report: of all requests, of each policy, and of trials.

use tollgate::{PolicyQuota, QuotaState, Timestamp};
use tollgate_policy::{Ground, Outcome, Policy, PolicyDecision, QuotaStanding, TrialAnswer, TrialDecision};

use super::outcome::Verdict;
use super::policy_track::{CLIENT, Noted};
use super::quota_track::Seen;
use super::subjects::{Subjects, digest};
use super::{Replay, Request, Role};

/// A quota that was charged for a request, and how the key was found.
struct Charged<'c, K> {
    /// As the policies have it.
    quota: &'c PolicyQuota,
    cost: u32,
    state: &'c QuotaState,
    /// Digests the key.
    key: K,
}

impl Replay {
    pub(super) fn note_all(
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
        self.all.calendar.note(now, verdict.is_denied());
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

    pub(super) fn note_policies(
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
            Ground::Denied(policy) | Ground::MissingKey { policy, .. } => {
                self.note_uncounted(request, policy, Role::Enforced, Verdict::Denied, before);
            }
            Ground::Unlimited => self.all.unlimited += 1,
            _ => {}
        }
        let charged = decision.quotas().map(|QuotaStanding { policy, declared: quota, state, .. }| {
            let cost = policy.cost().of(&hit.attributes, 1).unwrap_or(1);
            let key = move || policy.identity().key(&hit.attributes).ok().map(|key| digest(&key));
            Charged { quota, cost, state, key }
        });
        self.note_charges(request, charged, before);
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
        let client = request.numbers.get(subject).copied().flatten().flatten();
        let class = request.class;
        self.tracks.note_request(Noted { track, client, class, verdict, before });
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
                    let Some(of_match) = counting.next() else { continue };
                    let charges = of_match.declared().iter().zip(of_match.charges()).zip(counted);
                    let charged = charges.map(|((quota, charge), state)| Charged {
                        quota,
                        cost: charge.cost(),
                        state,
                        key: move || Some(digest(charge.counter().key())),
                    });
                    self.note_charges(request, charged, None);
                }
                _ => _ = counting.next(),
            }
        }
    }

    /// Notes whose request is allowed, and would be denied by a policy on trial.
    pub(super) fn note_tried(&mut self, request: &Request<'_, '_>, decision: &PolicyDecision) {
        let denies = |trial: TrialDecision<'_>| trial.answer.verdict() == Some(tollgate::Verdict::Denied);
        if !decision.is_allowed() || !decision.trials().any(denies) {
            return;
        }
        let Some(number) = request.numbers.get(CLIENT).copied().flatten().flatten() else { return };
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

    /// Notes the charges of policies, each of which has its charges together. Trials are compared with nothing.
    fn note_charges<'c, K: FnOnce() -> Option<u128>>(
        &mut self,
        request: &mut Request<'_, '_>,
        charges: impl Iterator<Item = Charged<'c, K>>,
        before: Option<Verdict>,
    ) {
        let mut last: Option<(usize, Option<u32>)> = None;
        for Charged { quota, cost, state, key } in charges {
            let Some((track, place)) = self.tracks.find(quota) else { continue };
            let number = match last {
                Some((same, number)) if same == track => number,
                _ => {
                    let Some(subject) = self.tracks.of(track).map(|track| track.subject) else { continue };
                    let number = match request.numbers.get(subject).copied().flatten() {
                        Some(number) => number,
                        None => key().and_then(|digest| self.number(subject, digest, request)),
                    };
                    self.tracks.begin(track, number, request.class, before);
                    number
                }
            };
            last = Some((track, number));
            self.note_quota(track, place, number, cost, state);
        }
        self.tracks.end();
    }

    fn note_quota(&mut self, track: usize, place: usize, client: Option<u32>, cost: u32, state: &QuotaState) {
        let subject = self.tracks.of(track).map_or(0, |track| track.subject);
        let one_in = self.subjects.get(subject).map_or(1, Subjects::one_in);
        self.tracks.note(track, place, Seen { client, one_in, cost, state });
    }
}

/// A number that depends on every request, given that of the requests before. What comes out is hashed again before
/// anybody sees it.
pub(crate) fn mix(fingerprint: u128, digest: u128, now: Timestamp) -> u128 {
    // An odd constant with bits all over.
    const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    let time = u128::from(now.as_unix_millis().cast_unsigned());
    (fingerprint.rotate_left(29) ^ digest ^ time).wrapping_mul(SPREAD)
}
