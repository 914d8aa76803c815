//! What Tollgate makes of a file and its requests, held against the naive reading.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;

use tollgate::Charge;
use tollgate_policy::{
    AttributeValue, Attributes, Config, Outcome as Found, Policy, Refusal, Sources, Texts, TrialKind,
    Unknown, View,
};

use crate::file::File;
use crate::judge::{self, Counted, Outcome, Request, Said, Trial};

pub(crate) struct Subject<'a> {
    file: &'a File,
    config: Config,
    whos: Whos,
}

/// Which key stands for whom under a policy: one for each, and each for one.
#[derive(Default)]
struct Whos {
    by_key: HashMap<(String, Vec<u8>), String>,
    by_who: HashMap<(String, String), Vec<u8>>,
}

/// Attributes that become known one by one, each when it is asked for.
struct Lazy<'a, 'v> {
    attributes: &'a Attributes<'v>,
    known: RefCell<BTreeSet<String>>,
}

impl View for Lazy<'_, '_> {
    fn value(&self, name: &str) -> Result<Option<Texts<'_>>, Unknown> {
        if self.known.borrow().contains(name) {
            Ok(self.attributes.value(name))
        } else {
            Err(Unknown::NotYet)
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        // Also those that come to nothing, as a middleware may name what a request does not have.
        ["x", "y", "method", "path", "ip", "units", "z"].into_iter()
    }
}

impl<'a> Subject<'a> {
    pub(crate) fn read(file: &'a File) -> Result<Self, String> {
        let texts = file.written();
        let mut sources = Sources::of("limits.yaml", texts.policies);
        for (name, text) in texts.beside {
            sources = sources.with_table("limits.yaml", &name, text);
        }
        let config = Config::parse_sources(&sources, |_| Vec::new());
        let config = config.map_err(|error| format!("the file is not taken: {error}"))?;
        Ok(Self { file, config, whos: Whos::default() })
    }

    /// What is not as expected of a request, if something is.
    pub(crate) fn agrees(&mut self, request: &Request) -> Result<(), String> {
        let Self { file, config, whos } = self;
        let (policies, values) = (config.policies(), request.values());
        let (matching, expected) = (judge::matching(file, &values), &judge::outcome(file, request));
        let pairs = request.attributes.iter().map(|(name, value)| match value {
            Said::Text(text) => (name.as_str(), AttributeValue::from(text.as_str())),
            Said::List(texts) => (name.as_str(), AttributeValue::from(texts.clone())),
        });
        let attributes: Attributes<'_> = pairs.collect();

        let scanned = policies.as_slice().iter().filter(|policy| policy.matches(&attributes) == Ok(true));
        same("a look at every policy", &matching, &scanned.map(Policy::name).collect())?;
        same("the index", &matching, &policies.matching(&attributes).map(Policy::name).collect())?;
        whos.check("a request", expected, policies.charges(&attributes, request.cost))?;

        let lazy = Lazy { attributes: &attributes, known: RefCell::default() };
        loop {
            match policies.charges(&lazy, request.cost) {
                Err(Refusal::Undecided { attribute, unknown: Unknown::NotYet }) => {
                    let mut known = lazy.known.borrow_mut();
                    if !judge::may_ask(file, &values, &known, &attribute) {
                        return Err(format!("`{attribute}` is asked for without need; known are {known:?}"));
                    }
                    known.insert(attribute.into());
                }
                found => return whos.check("a request of which nothing is known at first", expected, found),
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
            (Ok(Found::DenyUnknown { policy, .. }), Outcome::DeniedAsUnknown(names)) => {
                names.contains(policy.name())
            }
            (
                Err(Refusal::MissingKey { policy, .. } | Refusal::Cost { policy, .. }),
                Outcome::Wrong(names),
            ) => names.contains(policy.as_ref()),
            (Ok(Found::Charge(matched)), Outcome::Counted { deciding, tried }) => {
                self.are_charged(of, deciding.clone(), matched.enforced().collect())?;
                let kind = |kind| if kind == TrialKind::Shadow { Trial::Shadow } else { Trial::Candidate };
                let mut found: Vec<_> = matched
                    .trials()
                    .map(|trial| {
                        (trial.policy().name().to_owned(), kind(trial.kind()), trial.charges().collect())
                    })
                    .collect();
                found.sort_by(|(one, kind, _), (other, other_kind, _)| (one, kind).cmp(&(other, other_kind)));
                let mut tried: Vec<_> = tried.clone();
                tried.sort_by_key(|(trial, counted)| (counted.first().map(|it| it.policy.clone()), *trial));
                same(&format!("{of}: trials"), &tried.len(), &found.len())?;
                for ((trial, counted), (policy, kind, charges)) in tried.into_iter().zip(found) {
                    same(&format!("{of}: a trial of {policy}"), &trial, &kind)?;
                    self.are_charged(of, counted, charges)?;
                }
                true
            }
            _ => false,
        };
        if is_same { Ok(()) } else { Err(format!("{of}: expected {expected:?}, found {found:?}")) }
    }

    /// The charges as expected, in any order, each under a key that stands for whom it should.
    fn are_charged(
        &mut self,
        of: &str,
        mut expected: Vec<Counted>,
        charges: Vec<Charge<'_>>,
    ) -> Result<(), String> {
        expected.sort();
        let mut charges: Vec<(String, String, u32, Vec<u8>)> = charges
            .into_iter()
            .map(|charge| {
                let quota = charge.counter().quota();
                let policy = quota.policy().split(':').next().unwrap_or_default().to_owned();
                let key = charge.counter().key().canonical_bytes().into_owned();
                (policy, quota.quota().to_string(), charge.cost(), key)
            })
            .collect();
        charges.sort();
        let written = |charges: &[(String, String, u32, Vec<u8>)]| {
            charges
                .iter()
                .map(|(policy, quota, cost, _)| format!("{policy}: {quota} x {cost}"))
                .collect::<Vec<_>>()
        };
        let expected_charges: Vec<String> =
            expected.iter().map(|it| format!("{}: {} x {}", it.policy, it.quota, it.cost)).collect();
        same(&format!("{of}: charges"), &expected_charges, &written(&charges))?;
        for (Counted { who, .. }, (policy, _, _, key)) in expected.into_iter().zip(charges) {
            let known = self.by_key.entry((policy.clone(), key.clone())).or_insert_with(|| who.clone());
            same(&format!("{of}: one key of {policy} for two"), known, &who)?;
            let known = self.by_who.entry((policy.clone(), who)).or_insert_with(|| key.clone());
            same(&format!("{of}: two keys of {policy} for one"), known, &key)?;
        }
        Ok(())
    }
}
