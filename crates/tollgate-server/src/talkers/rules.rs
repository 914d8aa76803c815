//! The talkers of Envoy's limits, where these decide instead of policies.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate::{Clock, SystemClock};
use tollgate_envoy::{CountedKey, Domains};

use super::subject::{SubjectTalkers, TalkersReport};
use super::{KeyMeaning, PeriodChoice, Talkers, TalkersBy};

/// The talkers of each limit of one version.
#[derive(Debug)]
pub(super) struct RuleTalkers {
    domains: Arc<Domains>,
    /// In the order of the limits.
    rules: Box<[Arc<SubjectTalkers>]>,
    places: HashMap<Box<str>, usize>,
}

impl Talkers {
    /// Counts a key of a request that was decided under these limits.
    pub(crate) fn note_rule(&self, domains: &Arc<Domains>, counted: CountedKey<'_>) {
        let rules = self.rules.load();
        // A request that was decided a moment before a change has no talkers: its limits may have others by now.
        let Some(rules) = rules.as_ref().filter(|rules| Arc::ptr_eq(&rules.domains, domains)) else { return };
        if let Some(talkers) = rules.rules.get(counted.rule) {
            let key = (counted.key, talkers.hash(counted.key));
            talkers.note(SystemClock.coarse_now(), key, counted.denies);
        }
    }

    /// Makes room for the limits of a new version. A limit that keeps its name keeps its talkers.
    pub(crate) fn follow_domains(&self, domains: &Arc<Domains>) {
        let before = self.rules.load();
        let kept = |name: &str| before.as_ref().and_then(|before| before.of(name)).map(Arc::clone);
        let new = |name: &str| Arc::new(SubjectTalkers::new(name, &self.secret, &self.memory));
        let names = domains.rule_names();
        let rules = names.iter().map(|name| kept(name).unwrap_or_else(|| new(name))).collect();
        let places = names.iter().cloned().zip(0..).collect();
        self.rules.store(Some(Arc::new(RuleTalkers { domains: Arc::clone(domains), rules, places })));
    }

    /// Returns the talkers of a limit, so many at most; `None` if there is no such limit.
    pub(crate) fn of_rule(
        &self,
        rule: &str,
        by: TalkersBy,
        period: PeriodChoice,
        limit: usize,
    ) -> Option<(TalkersReport, KeyMeaning)> {
        let rules = self.rules.load();
        let talkers = rules.as_ref()?.of(rule)?;
        Some((talkers.report(SystemClock.coarse_now(), by, period, limit), KeyMeaning::Descriptor))
    }
}

impl RuleTalkers {
    fn of(&self, rule: &str) -> Option<&Arc<SubjectTalkers>> {
        self.places.get(rule).and_then(|place| self.rules.get(*place))
    }
}
