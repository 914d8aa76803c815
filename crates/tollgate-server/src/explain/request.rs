//! A request and its outcome, of which a report is made.

use tollgate::{Anchor, Charge, CountDenied, QuotaKind, Timestamp};
use tollgate_policy::{
    Attributes, Condition, Conditions, MatchedPolicies, Mode, NoKey, Outcome, OverrideSet, Policies, Policy,
    PolicyKind, Position, Refusal, SentReading, Test, Texts, Value, View,
};

use super::report::{
    ChargeReport, ExplainReport, InFlightReport, OverrideReport, OverridesReport, PathReport, PolicyReport,
    QuotasFrom, TrialReport, WindowReport,
};

/// A request, and what it is explained under.
pub(crate) struct ExplainedRequest<'a, 'b> {
    pub(crate) policies: &'a Policies,
    pub(crate) attributes: &'a Attributes<'b>,
    pub(crate) cost: u32,
    pub(crate) at: Timestamp,
    /// `None` if they are not known.
    pub(crate) overrides: Option<&'a OverrideSet>,
}

impl<'a> ExplainReport<'a> {
    /// Creates the report on a request; of one that is known by a key, on the policy of the key alone. If something else has refused it already, the policies are not asked.
    pub(crate) fn new(
        request: &ExplainedRequest<'a, '_>,
        refusal: Option<Refusal>,
        file_of: impl Fn(Position) -> Option<&'a str>,
    ) -> Self {
        let ExplainedRequest { policies, attributes, cost, at, overrides } = *request;
        let outcome = match (refusal, overrides) {
            (Some(refusal), _) => Err(refusal),
            (None, Some(overrides)) => policies.charges_under(overrides, Some(at), attributes, cost),
            (None, None) => policies.charges(attributes, cost),
        };
        let request = Request { policies, attributes, cost, at, overrides, outcome };
        let only = attributes.only_policy();
        let is_asked = |policy: &&Policy| only.is_none_or(|only| only.name() == policy.name());
        let mut policies: Vec<&Policy> = policies.as_slice().iter().filter(is_asked).collect();
        policies.sort_by_key(|policy| policy.at());
        let policies = policies
            .into_iter()
            .map(|policy| PolicyReport { file: policy.at().and_then(&file_of), ..request.of(policy) })
            .collect();
        let (outcome, message) = request.summary();
        let reason = request.never_passing().map(|_| "cost_exceeds_limit");
        let text = |texts: Texts<'_>| texts.to_string();
        let path =
            SentReading::of(attributes).zip(attributes.value("path")).map(|(_, normalized)| PathReport {
                sent: attributes.sent_path().map(text).unwrap_or_default(),
                normalized: text(normalized),
            });
        let overrides = overrides.map(|overrides| OverridesReport {
            version: overrides.version().map(|version| version.to_string()),
            count: overrides.len(),
        });
        Self { at: at.as_unix_millis(), outcome, message, reason, path, overrides, policies }
    }
}

/// A request and its outcome.
struct Request<'a, 'b> {
    policies: &'a Policies,
    attributes: &'a Attributes<'b>,
    cost: u32,
    at: Timestamp,
    overrides: Option<&'a OverrideSet>,
    outcome: Result<Outcome<'a>, Refusal>,
}

impl<'a> Request<'a, '_> {
    /// Returns a word for programs and a line for people.
    fn summary(&self) -> (&'static str, String) {
        match &self.outcome {
            Ok(Outcome::Charge(matched)) => {
                if let Some(charge) = self.never_passing() {
                    return ("deny", why_it_never_passes(&charge));
                }
                let mut limits = matched.in_flight(1).map(|charge| charge.in_flight());
                if let Some(nothing) = limits.find(|limit| limit.in_flight().limit() == 0) {
                    let policy = nothing.policy();
                    return (
                        "deny",
                        format!("denied: the limit of `{policy}` is 0, and everything is denied"),
                    );
                }
                let in_flight: Vec<&str> =
                    matched.in_flight(1).map(|charge| charge.in_flight().policy()).collect();
                if !in_flight.is_empty() {
                    return ("hold", needs_hold(&in_flight, matched.enforced().count()));
                }
                let message = match (
                    matched.enforced().count(),
                    matched.enforced().filter(is_overdraft).count(),
                ) {
                    (0, _) => "allowed: no policy counts it".to_owned(),
                    (1, 0) => "allowed if its quota has room".to_owned(),
                    (1, _) => "allowed if its quota has a unit left".to_owned(),
                    (count, 0) => format!("allowed if all {count} quotas have room"),
                    (count, _) => {
                        format!(
                            "allowed if all {count} quotas have room; for an overdraft, one unit is enough"
                        )
                    }
                };
                ("charge", message)
            }
            Ok(Outcome::Deny(policy)) => {
                ("deny", format!("denied: `{}` denies everything that it matches", policy.name()))
            }
            Ok(Outcome::DenyOverride { policy, .. }) => {
                ("deny", format!("denied: an override of `{}` denies the request", policy.name()))
            }
            Ok(Outcome::DenyUnmatched) => {
                ("deny", format!("denied: no policy matches {}, and `unmatched` is `deny`", self.unmatched()))
            }
            Ok(Outcome::Exempt(policy)) => {
                ("exempt", format!("allowed and not counted: `{}` exempts it", policy.name()))
            }
            Ok(Outcome::DenyUnknown { policy, no_key: NoKey { attribute, fault, .. } }) => {
                ("deny", format!("denied: the key of `{}` needs `{attribute}`, which {fault}", policy.name()))
            }
            Err(refusal) => ("refuse", format!("refused as a caller error: {refusal}")),
        }
    }

    /// Returns a charge that is denied whatever is used, if there is one.
    fn never_passing(&self) -> Option<Charge<'_>> {
        let Ok(Outcome::Charge(matched)) = &self.outcome else { return None };
        matched.enforced().find(never_passes)
    }

    /// Returns the reading of the request that no policy matches, of a request that is denied for it.
    fn unmatched(&self) -> String {
        let is_matched = self.policies.matching(self.attributes).next().is_some();
        let Some(sent) = SentReading::of(self.attributes).filter(|_| is_matched) else {
            return "it".to_owned();
        };
        // The second reading has no other one, so it is matched alone.
        let (path, reading) = match self.policies.charges(&sent, self.cost) {
            Ok(Outcome::DenyUnmatched) => (self.attributes.sent_path(), "the path as sent"),
            _ => (self.attributes.value("path"), "the normalized path"),
        };
        format!("`{}`, {reading}", path.unwrap_or(Texts::One("")))
    }

    fn of(&self, policy: &'a Policy) -> PolicyReport<'a> {
        let mut report = PolicyReport {
            policy: policy.name(),
            file: None,
            line: policy.at().map(|at| at.line),
            mode: policy.mode().name(),
            matches: policy.matches(self.attributes) == Ok(true),
            only_as: self.only_as(policy),
            exempt: policy.is_exempt(),
            denies: policy.kind() == PolicyKind::Deny,
            because: self.why_not(policy),
            counts: None,
            by_override: None,
            quotas_from: Vec::new(),
            has_two_lists: false,
            charges: Vec::new(),
            in_flight: None,
            trials: Vec::new(),
        };
        if report.because.is_empty()
            && policy.kind() == PolicyKind::Count
            && let Ok(Outcome::Charge(matched)) = &self.outcome
        {
            self.add_counts(&mut report, policy, matched);
        }
        if let Ok(Outcome::DenyOverride { policy: denying, .. }) = &self.outcome
            && denying.name() == policy.name()
        {
            report.by_override = self.applied_override(policy);
        }
        report
    }

    /// Returns why the policy counts nothing; empty if it counts.
    fn why_not(&self, policy: &Policy) -> Vec<String> {
        if policy.mode() == Mode::Off {
            return vec!["it is off".to_owned()];
        }
        let failing = self.failing(policy);
        if !failing.is_empty() || self.is_exempted_by(policy) || self.is_denied_by(policy) {
            return failing;
        }
        let missing = self.what_is_missing(policy);
        match &self.outcome {
            Ok(Outcome::Exempt(exempt)) => vec![format!("`{}` exempts the request", exempt.name())],
            Ok(Outcome::Charge(matched))
                if matched.would_deny().any(|other| other.name() == policy.name()) =>
            {
                let trial = "it is in shadow mode; enforced, it would deny the request".to_owned();
                missing.into_iter().chain([trial]).collect()
            }
            Ok(Outcome::Charge(_)) => missing.into_iter().collect(),
            Ok(Outcome::DenyUnmatched) => {
                vec![missing.unwrap_or_else(|| format!("no policy matches {}", self.unmatched()))]
            }
            _ => match self.ended_by() {
                Some(other) if other != policy.name() => {
                    vec![format!("`{other}` decides before anything is counted")]
                }
                _ => vec![missing.unwrap_or_else(|| "the request is refused".to_owned())],
            },
        }
    }

    /// Returns the policy that fails the request, whatever the others decide.
    fn ended_by(&self) -> Option<&str> {
        match &self.outcome {
            Ok(
                Outcome::Deny(policy)
                | Outcome::DenyUnknown { policy, .. }
                | Outcome::DenyOverride { policy, .. },
            ) => Some(policy.name()),
            Err(
                Refusal::MissingKey { policy, .. }
                | Refusal::Cost { policy, .. }
                | Refusal::Limit { policy, .. },
            ) => Some(policy),
            _ => None,
        }
    }

    fn is_exempted_by(&self, policy: &Policy) -> bool {
        policy.is_exempt() && matches!(&self.outcome, Ok(Outcome::Exempt(_)))
    }

    fn is_denied_by(&self, policy: &Policy) -> bool {
        matches!(
            &self.outcome,
            Ok(Outcome::Deny(denying) | Outcome::DenyOverride { policy: denying, .. })
                if denying.name() == policy.name()
        )
    }

    /// Returns the reading of the path in which alone the conditions of the policy hold.
    fn only_as(&self, policy: &Policy) -> Option<&'static str> {
        let sent = SentReading::of(self.attributes).filter(|_| policy.mode() != Mode::Off)?;
        let conditions = policy.conditions();
        match (conditions.holds(self.attributes), conditions.holds(&sent)) {
            (Ok(true), Ok(false)) => Some("normalized"),
            (Ok(false), Ok(true)) => Some("sent"),
            _ => None,
        }
    }

    /// Returns why the conditions of the policy fail; empty if it applies.
    fn failing(&self, policy: &Policy) -> Vec<String> {
        // It has counted a request with this key.
        if self.attributes.only_policy().is_some() {
            return Vec::new();
        }
        let mut failing = failing(policy.conditions(), self.attributes);
        let Some(sent) = SentReading::of(self.attributes) else { return failing };
        let as_sent = self::failing(policy.conditions(), &sent);
        if !policy.is_exempt() && (failing.is_empty() || as_sent.is_empty()) {
            return Vec::new();
        }
        let only = self.only_as(policy);
        let only =
            only.map(|reading| format!("it matches only the {reading} path and would have to match both"));
        let others: Vec<String> = as_sent.into_iter().filter(|reason| !failing.contains(reason)).collect();
        failing.extend(others.into_iter().chain(only));
        failing
    }

    fn what_is_missing(&self, policy: &Policy) -> Option<String> {
        if let Err(no_key) = policy.identity().key(self.attributes) {
            return Some(match no_key {
                NoKey { choices: Some(choices), .. } => {
                    format!("its key needs one of {choices}, and the request has none")
                }
                NoKey { attribute: "", .. } => {
                    "its key needs an attribute, and the request has none".to_owned()
                }
                NoKey { attribute, fault, .. } => format!("its key needs `{attribute}`, which {fault}"),
            });
        }
        if let Err(error) = policy.cost().of(self.attributes, self.cost) {
            return Some(error.to_string());
        }
        match &self.outcome {
            Err(Refusal::Limit { policy: other, error }) if **other == *policy.name() => {
                Some(error.to_string())
            }
            _ => None,
        }
    }

    fn add_counts(&self, report: &mut PolicyReport<'a>, policy: &'a Policy, matched: &MatchedPolicies<'a>) {
        report.counts = policy.identity().describe(self.attributes).ok();
        if matched.overridden().any(|(other, _)| other.name() == policy.name()) {
            report.by_override = self.applied_override(policy);
        } else {
            self.add_lists(report, policy);
        }
        let enforced = matched.enforced().filter(|charge| charge.counter().quota().policy() == policy.name());
        report.charges = enforced.map(|charge| self.charge(&charge)).collect();
        let mut in_flight = matched.in_flight(1);
        report.in_flight =
            in_flight.find(|charge| charge.in_flight().policy() == policy.name()).map(InFlightReport::from);
        let trials = matched.trials().filter(|trial| trial.policy().name() == policy.name());
        report.trials = trials
            .map(|trial| TrialReport {
                kind: TrialReport::name(trial.kind()),
                answer: None,
                charges: trial.charges().map(|charge| self.charge(&charge)).collect(),
                in_flight: trial.in_flight(1).map(InFlightReport::from),
            })
            .collect();
    }

    /// Returns the override of the policy that decides.
    fn applied_override(&self, policy: &Policy) -> Option<OverrideReport> {
        self.overrides?.applied(policy, self.attributes, self.at).map(OverrideReport::from)
    }

    /// Adds where the file has the quotas, if not in the policy itself.
    fn add_lists(&self, report: &mut PolicyReport<'a>, policy: &'a Policy) {
        let sent = SentReading::of(self.attributes).filter(|_| report.only_as != Some("normalized"));
        let normalized = (report.only_as != Some("sent")).then(|| quotas_from(policy, self.attributes));
        let sent = sent.map(|sent| quotas_from(policy, &sent));
        report.has_two_lists = normalized.is_some() && sent.is_some() && normalized != sent;
        report.quotas_from = normalized.into_iter().chain(sent).flatten().collect();
        report.quotas_from.dedup();
    }

    fn charge(&self, charge: &Charge<'_>) -> ChargeReport {
        let (quota, key) = (charge.counter().quota().quota(), charge.counter().key());
        let window = (quota.kind() == QuotaKind::Window).then(|| quota.window_at(key, self.at));
        let (overdraft, most) = (is_overdraft(charge), quota.most_in_any_window());
        ChargeReport {
            quota: quota.to_string(),
            limit: charge.limit(),
            cost: charge.cost(),
            most_in_any_window: (!overdraft).then_some(most),
            overdraft,
            window: window.map(|window| WindowReport {
                start: window.start().as_unix_millis(),
                end: window.end().as_unix_millis(),
                first_hit: quota.anchor() == Anchor::FirstHit,
            }),
            length: quota.window(),
            // Around the end of a fixed window, all of it can be used at once.
            is_spread: window.is_none() && quota.capacity() < most,
            zone: quota.zone().map(str::to_owned),
        }
    }
}

/// Returns what is said of a request that meets limits in flight of these policies, and so many quotas.
fn needs_hold(policies: &[&str], quotas: usize) -> String {
    let names: Vec<String> = policies.iter().map(|name| format!("`{name}`")).collect();
    let (names, verb) = (names.join(", "), if policies.len() == 1 { "limits" } else { "limit" });
    let room = match quotas {
        0 => String::new(),
        1 => " and the quota has room".to_owned(),
        count => format!(" and all {count} quotas have room"),
    };
    format!(
        "a hold is allowed if a unit in flight is free{room}; a check is refused with needs_hold, because {names} {verb} \
         units in flight"
    )
}

fn is_overdraft(charge: &Charge<'_>) -> bool {
    charge.counter().quota().count_denied() == CountDenied::Overdraft
}

/// Returns whether the charge is denied whatever is used.
fn never_passes(charge: &Charge<'_>) -> bool {
    u64::from(charge.cost()) > charge.limit() && (charge.limit() == 0 || !is_overdraft(charge))
}

fn why_it_never_passes(charge: &Charge<'_>) -> String {
    let (cost, limit, quota) = (charge.cost(), charge.limit(), charge.counter().quota());
    let (policy, quota) = (quota.policy(), quota.quota());
    match limit {
        0 => format!("denied: the limit of `{policy}` is 0, and everything is denied"),
        _ => format!(
            "denied, whatever is used: it costs {cost}, and {quota} of `{policy}` has room for {limit} at most"
        ),
    }
}

/// Returns the override that gives the quotas in one reading of a request.
fn quotas_from<V: View>(policy: &Policy, view: &V) -> Option<QuotasFrom> {
    let over = policy.override_for(view).ok().flatten()?;
    let when = match over.table() {
        None => over.when().map(lines).unwrap_or_default(),
        Some(table) => {
            let (name, value) = (table.attribute(), view.value(table.attribute()));
            vec![format!("{name}: {}", value.ok().flatten().unwrap_or(Texts::One("")))]
        }
    };
    Some(QuotasFrom { line: over.at().line, when })
}

/// Returns why these conditions fail in one reading of a request.
fn failing<V: View>(conditions: &Conditions, view: &V) -> Vec<String> {
    let each = |conditions: &[Condition]| -> Vec<String> {
        let failing = conditions.iter().filter(|condition| condition.holds(view) != Ok(true));
        failing.map(|condition| why_it_fails(condition, view)).collect()
    };
    let mut failing = each(conditions.all());
    // For each alternative, the first condition that fails.
    let alternatives: Vec<Option<String>> =
        conditions.any().map(|any| each(any).into_iter().next()).collect();
    if !alternatives.is_empty() && alternatives.iter().all(Option::is_some) {
        let reasons: Vec<String> = alternatives.into_iter().flatten().collect();
        failing.push(format!("none of `any` holds: {}", reasons.join(", ")));
    }
    failing
}

fn why_it_fails<V: View>(condition: &Condition, view: &V) -> String {
    let name = condition.attribute();
    let Ok(Some(value)) = view.value(name) else {
        return format!("{condition} does not hold: there is no `{name}`");
    };
    match Value::of(name, value).counted() {
        Err(fault) if *condition.test() == Test::Present => {
            format!("{condition} does not hold: `{name}` {fault}")
        }
        _ => format!("{condition} does not match `{value}`"),
    }
}

/// Returns the conditions, one a line, in the notation of the file.
fn lines(conditions: &Conditions) -> Vec<String> {
    let all = conditions.all().iter().map(Condition::to_string);
    let any = conditions.any().map(|any| any.iter().map(Condition::to_string).collect::<Vec<_>>().join(", "));
    let any: Vec<String> = any.map(|any| format!("{{ {any} }}")).collect();
    all.chain((!any.is_empty()).then(|| format!("any: [{}]", any.join(", ")))).collect()
}
