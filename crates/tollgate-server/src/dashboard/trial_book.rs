//! Since when limits have been on trial as they are, and what was counted since.
//!
//! The tally of a policy goes on when a reload changes the policy. Figures of two limits together would say nothing about
//! either, so the book notes what was counted before a trial. It looks once a second.

use std::collections::HashMap;

use tollgate::Timestamp;
use tollgate_policy::{FileOverride, Mode, Policy, PolicySet, TrialKind, TrialTally};

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct TrialBook {
    /// The version of the policies at the last look. The policies themselves are not kept: a reload waits until nobody
    /// holds the old ones.
    version: Option<u64>,
    /// One for each policy, by its name.
    entries: HashMap<Box<str>, TrialEntry>,
}

/// A trial that runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunningTrial {
    pub(crate) kind: TrialKind,
    pub(crate) since: Timestamp,
    /// What was counted since then.
    pub(crate) tally: TrialTally,
}

/// The trials of a policy: in shadow mode, and of candidates.
#[derive(Debug)]
struct TrialEntry {
    /// The policy when its trial began; `None` without one.
    policy: Option<Box<Policy>>,
    since: Timestamp,
    /// Whether they run.
    run: [bool; 2],
    /// What was counted before `since`.
    before: [TrialTally; 2],
    now: [TrialTally; 2],
}

const KINDS: [TrialKind; 2] = [TrialKind::Shadow, TrialKind::Candidate];

impl TrialBook {
    /// Notes what the policies have counted until now.
    pub(crate) fn look(&mut self, now: Timestamp, live: &PolicySet) {
        let is_known_version = self.version.replace(live.version()) == Some(live.version());
        let mut known = std::mem::take(&mut self.entries);
        for (policy, tally) in live.tally() {
            let (name, counted) = (policy.name(), [tally.shadow, tally.candidate]);
            let new = || TrialEntry::new(policy, live.since(), counted);
            let (name, entry) = match known.remove_entry(name) {
                None => (name.into(), new()),
                // Another policy took the name.
                Some((name, last)) if last.is_above(&counted) => (name, new()),
                Some((name, last)) if is_known_version || last.is_of(policy) => {
                    (name, TrialEntry { now: counted, ..last })
                }
                // Nothing was on trial, so all that is new is of this trial.
                Some((name, last)) if last.run == [false; 2] => {
                    (name, TrialEntry { before: last.now, ..new() })
                }
                // What came since the last look may be of either trial, so it is left out.
                Some((name, _)) => (name, TrialEntry { since: now, before: counted, ..new() }),
            };
            self.entries.insert(name, entry);
        }
    }

    /// Returns the trials of a policy.
    pub(crate) fn of(&self, policy: &str) -> impl Iterator<Item = RunningTrial> {
        self.entries.get(policy).into_iter().flat_map(|TrialEntry { since, run, before, now, .. }| {
            let tallies = now.iter().zip(before).map(|(now, before)| difference(now, before));
            let trials = KINDS.into_iter().zip(tallies).zip(run).filter(|(_, runs)| **runs);
            trials.map(|((kind, tally), _)| RunningTrial { kind, since: *since, tally })
        })
    }
}

impl TrialEntry {
    fn new(policy: &Policy, since: Timestamp, now: [TrialTally; 2]) -> Self {
        let run = kinds(policy);
        let policy = (run != [false; 2]).then(|| Box::new(policy.clone()));
        Self { policy, since, run, before: Default::default(), now }
    }

    /// Returns whether its figures go on under this policy: it is on trial, and means the same.
    fn is_of(&self, policy: &Policy) -> bool {
        /// Settings that no verdict depends on.
        const IDLE: [&str; 3] = ["description", "headers", "deny_status"];
        let is_idle = |name: &str| IDLE.contains(&name);
        let changed = self.policy.as_ref().map(|last| last.changed_settings(policy));
        changed.is_some_and(|changed| changed.iter().all(|setting| is_idle(setting.name())))
    }

    /// Returns whether it has counted more than these: then they are of another policy.
    fn is_above(&self, counted: &[TrialTally; 2]) -> bool {
        let tried = |tally: &TrialTally| tally.allowed + tally.denied + tally.failed;
        self.now.iter().zip(counted).any(|(last, now)| tried(last) > tried(now))
    }
}

/// Returns whether a policy is on trial itself, and whether candidates of it are.
fn kinds(policy: &Policy) -> [bool; 2] {
    if policy.mode() == Mode::Off {
        return [false; 2];
    }
    let by_overrides = policy.overrides().iter().flat_map(FileOverride::written_candidates);
    let has_candidates = policy.written_candidates().chain(by_overrides).next().is_some();
    [policy.mode() == Mode::Shadow && !policy.is_exempt(), has_candidates]
}

fn difference(now: &TrialTally, before: &TrialTally) -> TrialTally {
    let mut tally = *now;
    tally.allowed = now.allowed.saturating_sub(before.allowed);
    tally.denied = now.denied.saturating_sub(before.denied);
    tally.failed = now.failed.saturating_sub(before.failed);
    tally.denied_by_both = now.denied_by_both.saturating_sub(before.denied_by_both);
    tally.denied_only_now = now.denied_only_now.saturating_sub(before.denied_only_now);
    tally
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::MemoryStore;
    use tollgate_policy::{Attributes, Config, Policies, PolicyLimiter};

    use super::*;

    /// The policy `live` with these lines, and `dark` in shadow mode with this quota.
    fn policies(live: &str, dark: &str) -> Policies {
        let text = format!(
            "policies:
  - {{ name: live, key: [user], quotas: [2/1d], {live} }}
  - {{ name: dark, mode: shadow, key: [user], quotas: [{dark}] }}"
        );
        Config::parse("p.yaml", &text).unwrap().into_policies()
    }

    #[test]
    fn a_trial_has_what_was_counted_since_it_began() {
        let limiter = PolicyLimiter::new(MemoryStore::new(), policies("", "1/1d"), "p.yaml");
        let check = |requests: usize| {
            let attributes: Attributes<'_> = [("user", "alice")].into_iter().collect();
            (0..requests).for_each(|_| drop(limiter.check_at_once(&attributes, 1)));
        };
        let (mut book, mut seconds) = (TrialBook::default(), 0);
        let at = |second| Timestamp::from_unix_millis(1_000_000_000_000) + Duration::from_secs(second);
        let mut look = || {
            seconds += 1;
            let live = limiter.live();
            book.look(at(seconds), &live);
            let trials = |policy| {
                let trials = book.of(policy).map(|RunningTrial { kind, since, tally }| {
                    let TrialTally { allowed, denied, denied_by_both, denied_only_now, .. } = tally;
                    let since = if since == live.since() { 0 } else { since.since(at(0)).as_secs() };
                    (kind, since, [allowed, denied, denied_by_both, denied_only_now])
                });
                trials.collect::<Vec<_>>()
            };
            [trials("live"), trials("dark")]
        };
        let shadow = |since, counts| vec![(TrialKind::Shadow, since, counts)];
        let candidate = |since, counts| vec![(TrialKind::Candidate, since, counts)];

        let started = limiter.live().since();
        check(5);
        assert_eq!(look(), [vec![], shadow(0, [1, 4, 3, 0])]);
        // What is of no account for verdicts ends no trial. A candidate begins one where there was none.
        limiter.replace(policies("description: a, candidate: [1/1d]", "1/1d"), "p.yaml");
        check(2);
        let [live, dark] = look();
        assert_eq!(live, candidate(0, [1, 1, 1, 1]));
        assert_eq!(dark[0].2, [1, 6, 5, 0]);
        // The trial is an older one than this version.
        assert_eq!(dark[0].1, started.since(at(0)).as_secs());
        // Another quota is another trial. Of the second in which it began, nothing counts.
        check(1);
        limiter.replace(policies("description: b, candidate: [1/1d]", "9/1d"), "p.yaml");
        check(1);
        let [live, dark] = look();
        assert_eq!((live[0].2, dark), ([1, 3, 3, 1], shadow(3, [0; 4])));
        check(3);
        let [_, dark] = look();
        assert_eq!(dark, shadow(3, [3, 0, 0, 3]));
        // Whatever was tried out before is not counted for the next candidate.
        limiter.replace(policies("", "9/1d"), "p.yaml");
        assert_eq!(look()[0], []);
        limiter.replace(policies("candidate: [30/1d]", "9/1d"), "p.yaml");
        check(2);
        assert_eq!(look()[0], candidate(0, [2, 0, 0, 2]));
    }
}
