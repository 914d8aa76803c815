//! Compares Tollgate's decisions with the naive reading.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;

use tollgate::{Charge, CountDenied, InFlightCharge, ManualClock, MemoryStore, Timestamp};
use tollgate_policy::{
    AttributeValue, Attributes, CheckError, Config, Outcome as Found, OverrideSet, Policy, PolicyLimiter,
    Refusal, Sources, Texts, TrialKind, UnknownValue, View,
};
use tollgate_testkit::block_on;

use crate::file::File;
use crate::judge::{self, Counted, Outcome, Request, Said, Trial, Values};
use crate::ledger::Ledger;
use crate::run_override::{Moment, RunOverrides};
use crate::run_set::set_of;

/// The charges of quotas, and units in flight.
type ChargedParts<'a> = (Vec<Charge<'a>>, Vec<InFlightCharge<'a>>);

pub(crate) struct Subject<'a> {
    file: &'a File,
    whos: Whos,
    limiter: PolicyLimiter<MemoryStore<ManualClock>>,
    ledger: Ledger,
    overrides: RunOverrides,
    set: OverrideSet,
}

/// Which key belongs to which client under a policy: exactly one for each.
#[derive(Default)]
struct Whos {
    by_key: HashMap<(String, Vec<u8>), String>,
    by_who: HashMap<(String, String), Vec<u8>>,
}

/// A request as a middleware sees it, with its own view.
struct Seen<'a> {
    request: &'a Request,
    said: Vec<(&'a str, Result<AttributeValue<'static>, UnknownValue>)>,
    sent_path: Option<AttributeValue<'static>>,
    /// The attributes that are known; `None` means all.
    known: Option<RefCell<BTreeSet<String>>>,
}

impl<'a> Seen<'a> {
    fn of(request: &'a Request, known: Option<BTreeSet<String>>) -> Self {
        let mut sent_path = None;
        let mut all = Vec::<(&str, Result<AttributeValue<'static>, UnknownValue>)>::new();
        for (name, said) in &request.attributes {
            let value: AttributeValue<'static> = match said {
                Said::Text(text) => text.clone().into(),
                Said::List(texts) => texts.clone().into(),
                Said::Unreadable => {
                    all.push((name.as_str(), Err(UnknownValue::Wrong)));
                    continue;
                }
            };
            let Some((value, sent)) = value.readings(name) else { continue };
            if name == "path" && !all.iter().any(|(other, _)| *other == "path") {
                sent_path = sent;
            }
            all.push((name.as_str(), Ok(value)));
        }
        Self { request, said: all, sent_path, known: known.map(RefCell::new) }
    }
}

impl View for Seen<'_> {
    fn value(&self, name: &str) -> Result<Option<Texts<'_>>, UnknownValue> {
        if self.known.as_ref().is_some_and(|known| !known.borrow().contains(name)) {
            return Err(UnknownValue::NotYet);
        }
        let said = self.said.iter().find(|(other, _)| *other == name);
        said.map(|(_, value)| value.as_ref().map(AttributeValue::texts).map_err(|wrong| *wrong)).transpose()
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        // Includes names without a value, because a middleware may name what a request does not have.
        ["x", "y", "method", "path", "ip", "units", "z"].into_iter()
    }

    fn sent_path(&self) -> Option<Texts<'_>> {
        // A path that is not known yet has no readings.
        self.value("path").ok().flatten()?;
        self.sent_path.as_ref().map(AttributeValue::texts)
    }

    fn is_verified(&self, name: &str) -> bool {
        !self.request.unverified.contains(name)
    }

    fn may_touch(&self, policy: &str) -> bool {
        self.request.within.as_ref().is_none_or(|within| within.contains(policy))
    }
}

impl<'a> Subject<'a> {
    pub(crate) fn read(file: &'a File, overrides: &RunOverrides) -> Result<Self, String> {
        let texts = file.written();
        let mut sources = Sources::of("limits.yaml", texts.policies);
        for (name, text) in texts.beside {
            sources = sources.with_table("limits.yaml", &name, text);
        }
        let config = Config::parse_sources(&sources, |_| Vec::new());
        let config = config.map_err(|error| format!("the file is not taken: {error}"))?;
        let store = MemoryStore::builder().clock(ManualClock::default()).max_counters(1_000).build();
        let limiter = PolicyLimiter::new(store, config.into_policies(), "limits.yaml");
        let (set, overrides) = set_of(file, limiter.live().policies(), overrides)?;
        Ok(Self { file, whos: Whos::default(), limiter, ledger: Ledger::default(), overrides, set })
    }

    /// Returns the overrides that can be named.
    pub(crate) const fn overrides(&self) -> &RunOverrides {
        &self.overrides
    }

    /// Returns the first difference from the expected outcome of a request, if any.
    pub(crate) fn agrees(&mut self, request: &Request) -> Result<(), String> {
        self.agrees_under_overrides(request)?;
        let Self { file, whos, limiter, ledger, .. } = self;
        let live = limiter.live();
        let (policies, values) = (live.policies(), request.values());
        let none = RunOverrides::default();
        let outcome = |values: &Values| judge::outcome(file, values, request.cost, (&none, Moment::Known));
        let (matching, expected) = (judge::matching(file, &values), outcome(&values));

        let seen = Seen::of(request, None);
        let scanned = policies.as_slice().iter().filter(|policy| policy.matches(&seen) == Ok(true));
        same("a look at every policy", &matching, &scanned.map(Policy::name).collect())?;
        same("the index", &matching, &policies.matching(&seen).map(Policy::name).collect())?;
        whos.check("a request", &expected, policies.charges(&seen, request.cost))?;

        if values.are_readable() {
            let pairs = request.attributes.iter().filter_map(|(name, said)| match said {
                Said::List(texts) => Some((name.as_str(), AttributeValue::from(texts.clone()))),
                Said::Text(text) => Some((name.as_str(), AttributeValue::from(text.as_str()))),
                // Repeated, because the first value counts.
                Said::Unreadable => None,
            });
            let attributes: Attributes<'_> = pairs.collect();
            let within: Option<BTreeSet<Box<str>>> = request
                .within
                .as_ref()
                .map(|within| within.iter().map(|name| name.as_str().into()).collect());
            let attributes = match &within {
                Some(within) => attributes.within(within),
                None => attributes,
            };
            // A caller of the service is trusted for its attributes.
            let values = Values { unverified: BTreeSet::new(), ..values.clone() };
            let expected = outcome(&values);
            same(
                "the index by attributes",
                &matching,
                &policies.matching(&attributes).map(Policy::name).collect(),
            )?;
            whos.check("attributes", &expected, policies.charges(&attributes, request.cost))?;
            if let Outcome::Counted { deciding, .. } = &expected {
                let decision = block_on(limiter.check(&attributes, request.cost));
                match deciding.iter().find(|counted| counted.quota.contains("~in_flight")) {
                    // A check cannot end a hold.
                    Some(limit) => {
                        let needs = |error: &CheckError| matches!(error, CheckError::NeedsHold { policy } if **policy == *limit.policy);
                        let needs_hold = decision.as_ref().is_err_and(needs);
                        same(&format!("a check that meets {limit:?} needs a hold"), &true, &needs_hold)?;
                    }
                    None => {
                        let decision = decision.map_err(|error| format!("it is not counted: {error}"))?;
                        same("the verdict", &ledger.decide(deciding), &decision.is_allowed())?;
                    }
                }
            }
        }

        let lazy = Seen::of(request, Some(BTreeSet::new()));
        loop {
            match policies.charges(&lazy, request.cost) {
                Err(Refusal::Undecided { attribute, unknown: UnknownValue::NotYet }) => {
                    let mut known = lazy.known.as_ref().expect("not all are known").borrow_mut();
                    if !judge::may_ask(file, &none, &values, &known, &attribute) {
                        return Err(format!("`{attribute}` is asked for without need; known are {known:?}"));
                    }
                    known.insert(attribute.into());
                }
                found => {
                    return whos.check("a request of which nothing is known at first", &expected, found);
                }
            }
        }
    }
}

impl Subject<'_> {
    /// Like [`agrees`](Self::agrees), under the overrides of the case.
    fn agrees_under_overrides(&mut self, request: &Request) -> Result<(), String> {
        let Self { file, whos, limiter, overrides, set, .. } = self;
        let live = limiter.live();
        let (policies, values) = (live.policies(), request.values());
        // Where nothing is charged, no step compares ends, and the estimate is the time.
        let expected = |moment| match judge::outcome(file, &values, request.cost, (overrides, moment)) {
            counted @ Outcome::Counted { .. } => counted,
            _ => judge::outcome(file, &values, request.cost, (overrides, Moment::Known)),
        };
        let now = Timestamp::from_unix_millis(overrides.now);
        let seen = Seen::of(request, None);
        for (of, moment, at) in [
            ("under overrides", Moment::Known, Some(now)),
            ("under overrides, by an estimate", Moment::Estimated, None),
        ] {
            let found = policies.charges_under(set, at, &seen, request.cost);
            if let (Ok(Found::DenyOverride { policy, .. }), Outcome::DeniedByOverride(names)) =
                (&found, &expected(moment))
            {
                same(of, &names.first().map(String::as_str), &Some(policy.name()))?;
            }
            whos.check(of, &expected(moment), found)?;
        }
        let lazy = Seen::of(request, Some(BTreeSet::new()));
        loop {
            match policies.charges_under(set, Some(now), &lazy, request.cost) {
                Err(Refusal::Undecided { attribute, unknown: UnknownValue::NotYet }) => {
                    let mut known = lazy.known.as_ref().expect("not all are known").borrow_mut();
                    if !judge::may_ask(file, overrides, &values, &known, &attribute) {
                        return Err(format!("`{attribute}` is asked for without need; known are {known:?}"));
                    }
                    known.insert(attribute.into());
                }
                found => {
                    let of = "under overrides, if nothing is known at first";
                    return whos.check(of, &expected(Moment::Known), found);
                }
            }
        }
    }
}

fn same<T: PartialEq + Debug>(of: &str, expected: &T, found: &T) -> Result<(), String> {
    if expected == found { Ok(()) } else { Err(format!("{of}: expected {expected:?}, found {found:?}")) }
}

impl Whos {
    fn check(
        &mut self,
        of: &str,
        expected: &Outcome,
        found: Result<Found<'_>, Refusal>,
    ) -> Result<(), String> {
        let is_same = match (&found, expected) {
            (Ok(Found::Exempt(policy)), Outcome::Exempt(names)) => names.contains(policy.name()),
            (Ok(Found::DenyUnmatched), Outcome::DeniedAsUnmatched) => true,
            (Ok(Found::Deny(policy)), Outcome::DeniedAsListed) => policy.name() == "deny",
            (Ok(Found::DenyOverride { policy, .. }), Outcome::DeniedByOverride(names)) => {
                names.contains(policy.name())
            }
            (Ok(Found::DenyUnknown { policy, .. }), Outcome::DeniedAsUnknown(names)) => {
                names.first().is_some_and(|name| name == policy.name())
            }
            (
                Err(
                    Refusal::MissingKey { policy, .. }
                    | Refusal::Cost { policy, .. }
                    | Refusal::Limit { policy, .. },
                ),
                Outcome::Wrong { policies, .. },
            ) => policies.contains(policy.as_ref()),
            (
                Err(Refusal::Undecided { attribute, unknown: UnknownValue::Wrong }),
                Outcome::Wrong { unreadable, .. },
            ) => unreadable.contains(attribute.as_ref()),
            (Err(Refusal::OtherPolicy { policy }), Outcome::Wrong { foreign, .. }) => {
                foreign.contains(policy.as_ref())
            }
            (Ok(Found::Charge(matched)), Outcome::Counted { deciding, tried, would_deny }) => {
                let in_flight = matched.in_flight(1).collect();
                self.are_charged(of, deciding.clone(), matched.enforced().collect(), in_flight)?;
                let denying = matched.would_deny().map(|policy| policy.name().to_owned()).collect();
                same(&format!("{of}: would deny"), would_deny, &denying)?;
                let kind = |kind| if kind == TrialKind::Shadow { Trial::Shadow } else { Trial::Candidate };
                let mut found: Vec<_> = matched
                    .trials()
                    .map(|trial| {
                        let in_flight = trial.in_flight(1).into_iter().collect();
                        let charged: ChargedParts<'_> = (trial.charges().collect(), in_flight);
                        (trial.policy().name().to_owned(), kind(trial.kind()), charged)
                    })
                    .collect();
                found.sort_by(|(one, kind, _), (other, other_kind, _)| (one, kind).cmp(&(other, other_kind)));
                let mut tried: Vec<_> = tried.clone();
                tried.sort_by_key(|(trial, counted)| (counted.first().map(|it| it.policy.clone()), *trial));
                same(&format!("{of}: trials"), &tried.len(), &found.len())?;
                for ((trial, counted), (policy, kind, (charges, in_flight))) in tried.into_iter().zip(found) {
                    same(&format!("{of}: a trial of {policy}"), &trial, &kind)?;
                    self.are_charged(of, counted, charges, in_flight)?;
                }
                true
            }
            _ => false,
        };
        if is_same { Ok(()) } else { Err(format!("{of}: expected {expected:?}, found {found:?}")) }
    }

    /// Whether the charges are as expected, in any order, each under the key of its client.
    fn are_charged(
        &mut self,
        of: &str,
        mut expected: Vec<Counted>,
        charges: Vec<Charge<'_>>,
        in_flight: Vec<InFlightCharge<'_>>,
    ) -> Result<(), String> {
        expected.sort();
        let mut charges: Vec<(String, String, u32, Vec<u8>, bool)> = charges
            .into_iter()
            .map(|charge| {
                let quota = charge.counter().quota();
                let policy = quota.policy().split(':').next().unwrap_or_default().to_owned();
                let key = charge.counter().key().canonical_bytes().into_owned();
                let is_overdraft = quota.count_denied() == CountDenied::Overdraft;
                (policy, quota.quota().to_string(), charge.cost(), key, is_overdraft)
            })
            .collect();
        charges.extend(in_flight.into_iter().map(|charge| {
            let (limit, key) = (charge.in_flight(), charge.key().canonical_bytes().into_owned());
            (limit.policy().to_owned(), limit.in_flight().to_string(), charge.units(), key, false)
        }));
        charges.sort();
        let written = |policy: &str, quota: &str, cost: u32, is_overdraft: bool| {
            format!("{policy}: {quota} x {cost}{}", if is_overdraft { " (overdraft)" } else { "" })
        };
        let found_charges: Vec<String> = charges
            .iter()
            .map(|(policy, quota, cost, _, over)| written(policy, quota, *cost, *over))
            .collect();
        let expected_charges: Vec<String> =
            expected.iter().map(|it| written(&it.policy, &it.quota, it.cost, it.overdraft)).collect();
        same(&format!("{of}: charges"), &expected_charges, &found_charges)?;
        for (Counted { who, .. }, (policy, _, _, key, _)) in expected.into_iter().zip(charges) {
            let known = self.by_key.entry((policy.clone(), key.clone())).or_insert_with(|| who.clone());
            same(&format!("{of}: one key of {policy} for two"), known, &who)?;
            let known = self.by_who.entry((policy.clone(), who)).or_insert_with(|| key.clone());
            same(&format!("{of}: two keys of {policy} for one"), known, &key)?;
        }
        Ok(())
    }
}
