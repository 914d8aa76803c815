//! Gates: conditions on a report, so that a change of policies can be refused.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use thiserror::Error;

use crate::decimal::Decimal;
use crate::output::number::{counted, grouped};
use crate::replay::Clientless;
use crate::{ClassReport, Compared, PolicyReport, Report, Role, percent};

/// A condition under which a change fails, such as `denied > 0.1%`, `login.denied_clients > 0`, `denied{bot} > 5%` or
/// `login.denied_clients{known} > 0`.
///
/// # Examples
///
/// ```
/// use tollgate_simulate::Gate;
///
/// let gate: Gate = "login.denied_clients > 0".parse()?;
/// assert_eq!(gate.to_string(), "login.denied_clients > 0");
/// let error = "login.denied_client > 0".parse::<Gate>().unwrap_err();
/// assert!(error.to_string().contains("denied_clients"), "{error}");
/// # Ok::<(), tollgate_simulate::GateError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    text: String,
    scope: Scope,
    measure: Measure,
    comparison: Comparison,
    bound: Decimal,
    is_share: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Scope {
    All,
    Policy(String),
    /// Requests in a class: of all policies, or of one.
    Class {
        policy: Option<String>,
        class: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measure {
    Denied,
    DeniedClients,
    NewlyDenied,
    NewlyDeniedClients,
    NewlyAllowed,
    Undecided,
    Unparsed,
    Late,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// A gate that is invalid, or about something that the report does not have. The user can correct it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GateError {
    /// It has no comparison.
    #[error("gate `{0}`: expected [POLICY.]MEASURE[{{CLASS}}] > NUMBER[%], such as 'denied > 0.1%'")]
    Form(String),
    /// There is no such measure.
    #[error(
        "gate `{gate}`: unknown measure `{measure}`: expected denied, denied_clients, newly_denied, \
         newly_denied_clients, newly_allowed, undecided, unparsed or late"
    )]
    Measure {
        /// The gate.
        gate: String,
        /// The measure.
        measure: String,
    },
    /// The comparison is not followed by a number of at least 0.
    #[error("gate `{0}`: expected a number from 0 with up to 12 decimals, or a percentage such as 0.1%")]
    Number(String),
    /// The measure is not counted for a policy or a class.
    #[error("gate `{gate}`: only {known} can be measured for {scope}")]
    Unmeasured {
        /// The gate.
        gate: String,
        /// The subject of the gate.
        scope: &'static str,
        /// The measures of this subject.
        known: &'static str,
    },
    /// There is no such policy.
    #[error("gate `{gate}`: no policy `{policy}`: expected one of {known}")]
    UnknownPolicy {
        /// The gate.
        gate: String,
        /// The name.
        policy: String,
        /// The known names.
        known: String,
    },
    /// There is no such class.
    #[error("gate `{gate}`: no class `{class}`; --class makes one, and --known the class `known`")]
    UnknownClass {
        /// The gate.
        gate: String,
        /// The name.
        class: String,
    },
    /// There are no policies to compare with.
    #[error("gate `{0}`: new denials are only known with --baseline")]
    NoBaseline(String),
}

/// The result of a gate.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GateResult {
    /// The gate, as it was written.
    pub gate: String,
    /// Whether it held.
    pub held: Held,
    /// The measured value, in words.
    pub measured: String,
    /// The allowed value, in words.
    pub allowed: String,
}

/// Whether a gate held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// It held.
    Held,
    /// There was nothing to measure, or too little. This is not a pass.
    NoAnswer,
    /// It failed.
    Failed,
}

/// A part of a whole, and what both are.
struct Measured {
    part: u64,
    all: u64,
    /// Their name, in singular.
    of: &'static str,
    is_estimate: bool,
    /// For clients: the requests because of which some would count that are not counted.
    clientless: u64,
}

impl Measured {
    const fn requests(part: u64, all: u64) -> Self {
        Self { part, all, of: "request", is_estimate: false, clientless: 0 }
    }

    /// Clients, of which one in so many was followed, and the requests of clients that are not counted.
    const fn clients(part: u64, all: u64, one_in: u64, clientless: u64) -> Self {
        Self { part, all, of: "client", is_estimate: one_in > 1, clientless }
    }

    /// Whether clients that are not counted could turn an answer into another one. Each has at least one request. An
    /// estimate takes them into account, unless it is 0.
    fn is_open(&self, is_met: impl Fn(u64, u64) -> bool) -> bool {
        let Self { part, all, clientless, .. } = *self;
        match self.is_estimate {
            true => part == 0 && clientless > 0,
            false => {
                let with_all = is_met(part.saturating_add(clientless), all.saturating_add(clientless));
                is_met(part, all) != with_all
            }
        }
    }
}

/// What gates may ask about. It is known before anything is replayed.
pub(crate) struct Askable<'a> {
    /// In the order of the report.
    pub(crate) policies: Vec<(&'a str, Role)>,
    pub(crate) classes: Vec<&'a str>,
    /// Whether there are policies to compare with.
    pub(crate) is_compared: bool,
}

/// What a gate is about: a policy, a class, a class of a policy, or everything.
pub(crate) struct Place {
    policy: Option<usize>,
    class: Option<usize>,
}

impl<'a> Askable<'a> {
    fn of(report: &'a Report) -> Self {
        Self {
            policies: report.policies.iter().map(|policy| (policy.policy.as_str(), policy.role)).collect(),
            classes: report.classes.iter().map(|class| class.class.as_str()).collect(),
            is_compared: report.compared.is_some(),
        }
    }
}

/// The figures of a policy, or of a class.
struct Figures {
    requests: u64,
    denied: u64,
    newly_denied: u64,
    clients: u64,
    denied_clients: u64,
    newly_denied_clients: u64,
    one_in: u64,
    clientless: Clientless,
}

impl Figures {
    const fn of_policy(policy: &PolicyReport) -> Self {
        Self {
            requests: policy.requests,
            denied: policy.denied,
            newly_denied: policy.newly_denied,
            clients: policy.clients,
            denied_clients: policy.denied_clients,
            newly_denied_clients: policy.newly_denied_clients,
            one_in: policy.one_client_in,
            clientless: policy.clientless,
        }
    }

    const fn of_class(class: &ClassReport, one_in: u64) -> Self {
        Self {
            requests: class.requests,
            denied: class.denied,
            newly_denied: class.newly_denied,
            clients: class.clients,
            denied_clients: class.denied_clients,
            newly_denied_clients: class.newly_denied_clients,
            one_in,
            clientless: class.clientless,
        }
    }
}

impl Gate {
    /// Returns how many requests it should have for an answer, unless somebody knows better: 1,000 if it is about all
    /// requests. One policy or class may see few, and still deny the wrong ones, so there it is 1.
    #[must_use]
    pub const fn usual_requests(&self) -> u64 {
        if matches!(self.scope, Scope::All) { 1_000 } else { 1 }
    }

    /// Holds the report against the gate. If there are fewer requests than `least`, or none, there is no answer.
    ///
    /// # Errors
    ///
    /// If it names an unknown policy or class, or a value that is not measured.
    pub fn check(&self, report: &Report, least: u64) -> Result<GateResult, GateError> {
        let place = self.place(&Askable::of(report))?;
        let (measured, requests) = self.measure(report, &place);
        let is_missed = measured.is_open(|part, all| self.is_met(part, all));
        let Measured { part, all, of, is_estimate, clientless } = measured;
        let is_sample = of != "line" && report.read.as_ref().is_some_and(|read| read.is_sample);
        let held = match self.is_met(part, all) {
            _ if is_missed || all == 0 || requests < least.max(1) => Held::NoAnswer,
            true => Held::Failed,
            // A sample shows fewer denials than there were.
            false if is_sample && matches!(self.comparison, Comparison::Above | Comparison::AtLeast) => {
                Held::NoAnswer
            }
            false => Held::Held,
        };
        let about = match (is_estimate, is_sample) {
            (true, _) => ", estimated",
            (false, true) => ", perhaps in a sample",
            (false, false) => "",
        };
        let measured = match held {
            Held::NoAnswer if is_missed => {
                format!(
                    "{}, of none of the {of}s that are counted: they lack the key, or --max-clients left theirs out",
                    counted(clientless, "request")
                )
            }
            Held::NoAnswer if requests < least.max(1) => {
                let which = if self.is_of_decisions() { " that a policy decides on" } else { "" };
                let needed = grouped(least.max(1));
                format!("{}{which}, of at least {needed} needed", counted(requests, "request"))
            }
            Held::NoAnswer if all == 0 => counted(0, of),
            _ => format!("{} ({} of {}{about})", percent(part, all), grouped(part), counted(all, of)),
        };
        Ok(GateResult { gate: self.text.clone(), held, measured, allowed: self.allowed() })
    }

    /// Whether the condition is met by a part of a whole.
    fn is_met(&self, part: u64, all: u64) -> bool {
        let order =
            if self.is_share { self.bound.order_of_percentage(part, all) } else { self.bound.order_of(part) };
        match self.comparison {
            Comparison::Above => order.is_gt(),
            Comparison::AtLeast => order.is_ge(),
            Comparison::Below => order.is_lt(),
            Comparison::AtMost => order.is_le(),
        }
    }

    /// What is measured, and the requests that it is measured of.
    fn measure(&self, report: &Report, place: &Place) -> (Measured, u64) {
        let policy = place.policy.and_then(|place| report.policies.get(place));
        let classes = policy.map_or(&report.classes, |policy| &policy.classes);
        let class = place.class.and_then(|place| classes.get(place));
        match (policy, class) {
            (None, None) => (self.of_all(report), self.requests_of_all(report)),
            (Some(policy), None) => (self.of_figures(&Figures::of_policy(policy)), policy.requests),
            (policy, Some(class)) => {
                let one_in = policy.map_or(report.one_client_in, |policy| policy.one_client_in);
                (self.of_figures(&Figures::of_class(class, one_in)), class.decided)
            }
        }
    }

    /// What is measured of a policy or a class.
    const fn of_figures(&self, figures: &Figures) -> Measured {
        let Figures { requests, clients, one_in, clientless, .. } = *figures;
        match self.measure {
            Measure::NewlyDenied => Measured::requests(figures.newly_denied, requests),
            Measure::DeniedClients => {
                Measured::clients(figures.denied_clients, clients, one_in, clientless.denied)
            }
            Measure::NewlyDeniedClients => {
                Measured::clients(figures.newly_denied_clients, clients, one_in, clientless.newly_denied)
            }
            // Others are not measured of them.
            _ => Measured::requests(figures.denied, requests),
        }
    }

    fn of_all(&self, report: &Report) -> Measured {
        let requests = |part| Measured::requests(part, report.requests);
        let clients =
            |part, clientless| Measured::clients(part, report.clients, report.one_client_in, clientless);
        let all = report.read.as_ref().map_or(0, |read| read.lines);
        let lines = |part| Measured { of: "line", ..Measured::requests(part, all) };
        let compared = |figure: fn(&Compared) -> u64| report.compared.as_ref().map_or(0, figure);
        match self.measure {
            Measure::Denied => requests(report.denied),
            Measure::Undecided => requests(report.undecided),
            Measure::DeniedClients => clients(report.denied_clients, report.clientless.denied),
            Measure::NewlyDenied => requests(compared(|compared| compared.newly_denied)),
            Measure::NewlyAllowed => requests(compared(|compared| compared.newly_allowed)),
            Measure::NewlyDeniedClients => {
                clients(compared(|compared| compared.newly_denied_clients), report.clientless.newly_denied)
            }
            Measure::Unparsed => lines(report.read.as_ref().map_or(0, |read| read.unparsed_lines)),
            Measure::Late => lines(report.read.as_ref().map_or(0, |read| read.late)),
        }
    }

    /// The requests that say something, where it is about all.
    fn requests_of_all(&self, report: &Report) -> u64 {
        match self.measure {
            _ if !self.is_of_decisions() => report.requests,
            // A limit that is gone allows requests that it decided on.
            Measure::NewlyAllowed => {
                report.decided().max(report.compared.as_ref().map_or(0, |compared| compared.denied_before))
            }
            _ => report.decided(),
        }
    }

    /// What it is about, of what it may ask about.
    pub(crate) fn place(&self, known: &Askable<'_>) -> Result<Place, GateError> {
        const OF_PARTS: &str = "denied, denied_clients, newly_denied and newly_denied_clients";
        let (policy, class) = match &self.scope {
            Scope::All => (None, None),
            Scope::Policy(policy) => (Some(policy), None),
            Scope::Class { policy, class } => (policy.as_ref(), Some(class)),
        };
        let policy = policy.map(|name| self.policy(known, name)).transpose()?;
        let class = class.map(|name| {
            let place = known.classes.iter().position(|class| class == name);
            place.ok_or_else(|| GateError::UnknownClass { gate: self.text.clone(), class: name.clone() })
        });
        let place = Place { policy: policy.map(|(place, _)| place), class: class.transpose()? };
        let is_new = matches!(
            self.measure,
            Measure::NewlyDenied | Measure::NewlyDeniedClients | Measure::NewlyAllowed
        );
        match self.measure {
            // Trials deny nobody, so nothing is new about them.
            _ if is_new && policy.is_some_and(|(_, role)| role != Role::Enforced) => {
                Err(self.unmeasured("policies on trial", "denied and denied_clients"))
            }
            Measure::Denied | Measure::DeniedClients => Ok(place),
            Measure::NewlyDenied | Measure::NewlyDeniedClients if known.is_compared => Ok(place),
            Measure::NewlyDenied | Measure::NewlyDeniedClients => {
                Err(GateError::NoBaseline(self.text.clone()))
            }
            _ if place.class.is_some() => Err(self.unmeasured("one class", OF_PARTS)),
            _ if place.policy.is_some() => Err(self.unmeasured("one policy", OF_PARTS)),
            Measure::NewlyAllowed if !known.is_compared => Err(GateError::NoBaseline(self.text.clone())),
            _ => Ok(place),
        }
    }

    /// `login` is the policy, enforced or in shadow mode; `login:candidate` its candidates.
    fn policy(&self, known: &Askable<'_>, name: &str) -> Result<(usize, Role), GateError> {
        let (policy, is_candidate) = match name.strip_suffix(":candidate") {
            Some(policy) => (policy, true),
            None => (name, false),
        };
        let is_asked =
            |(other, role): &(&str, Role)| *other == policy && (*role == Role::Candidate) == is_candidate;
        let place = known.policies.iter().position(is_asked);
        let found = place.and_then(|place| Some((place, known.policies.get(place)?.1)));
        found.ok_or_else(|| GateError::UnknownPolicy {
            gate: self.text.clone(),
            policy: name.to_owned(),
            known: known.policies.iter().map(|(name, role)| role.title(name)).collect::<Vec<_>>().join(", "),
        })
    }

    /// Whether it is about what policies decide, so that other requests say nothing.
    const fn is_of_decisions(&self) -> bool {
        !matches!(self.measure, Measure::Undecided | Measure::Unparsed | Measure::Late)
    }

    fn unmeasured(&self, scope: &'static str, known: &'static str) -> GateError {
        GateError::Unmeasured { gate: self.text.clone(), scope, known }
    }

    fn allowed(&self) -> String {
        let bound = format!("{}{}", self.bound, if self.is_share { " %" } else { "" });
        match self.comparison {
            Comparison::Above => format!("at most {bound}"),
            Comparison::AtLeast => format!("less than {bound}"),
            Comparison::Below => format!("at least {bound}"),
            Comparison::AtMost => format!("more than {bound}"),
        }
    }
}

impl FromStr for Gate {
    type Err = GateError;

    fn from_str(text: &str) -> Result<Self, GateError> {
        let form = || GateError::Form(text.to_owned());
        let at = text.find(['>', '<']).ok_or_else(form)?;
        let (subject, rest) = text.split_at(at);
        let (comparison, number) = [
            (">=", Comparison::AtLeast),
            ("<=", Comparison::AtMost),
            (">", Comparison::Above),
            ("<", Comparison::Below),
        ]
        .into_iter()
        .find_map(|(sign, comparison)| Some((comparison, rest.strip_prefix(sign)?)))
        .ok_or_else(form)?;
        let (number, is_share) = match number.trim().strip_suffix('%') {
            Some(number) => (number.trim(), true),
            None => (number.trim(), false),
        };
        let bound = Decimal::parse(number).ok_or_else(|| GateError::Number(text.to_owned()))?;
        let subject = subject.trim();
        let (subject, class) = match subject.split_once('{') {
            Some((subject, class)) => (subject, Some(class.strip_suffix('}').ok_or_else(form)?)),
            None => (subject, None),
        };
        let (policy, measure) = match subject.rsplit_once('.') {
            Some((policy, measure)) => (Some(policy), measure),
            None => (None, subject),
        };
        let scope = match (policy, class) {
            (None, None) => Scope::All,
            (Some(policy), None) => Scope::Policy(policy.to_owned()),
            (policy, Some(class)) => {
                Scope::Class { policy: policy.map(str::to_owned), class: class.to_owned() }
            }
        };
        let measure = Measure::named(measure)
            .ok_or_else(|| GateError::Measure { gate: text.to_owned(), measure: measure.to_owned() })?;
        Ok(Self { text: text.to_owned(), scope, measure, comparison, bound, is_share })
    }
}

impl Measure {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "denied" => Self::Denied,
            "denied_clients" => Self::DeniedClients,
            "newly_denied" => Self::NewlyDenied,
            "newly_denied_clients" => Self::NewlyDeniedClients,
            "newly_allowed" => Self::NewlyAllowed,
            "undecided" => Self::Undecided,
            "unparsed" => Self::Unparsed,
            "late" => Self::Late,
            _ => return None,
        })
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
