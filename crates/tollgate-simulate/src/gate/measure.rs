//! What a gate measures in a report.

use super::place::GateTarget;
use super::{Gate, Measure};
use crate::report::{BaselineComparison, ClassReport, Clientless, PolicyReport, Report};

/// A part of a whole, and what both are.
pub(super) struct MeasuredPart {
    pub(super) part: u64,
    pub(super) all: u64,
    /// Their name, in singular.
    pub(super) of: &'static str,
    pub(super) is_estimate: bool,
    /// For clients: the requests because of which some would count that are not counted.
    pub(super) clientless: u64,
}

impl MeasuredPart {
    const fn requests(part: u64, all: u64) -> Self {
        Self { part, all, of: "request", is_estimate: false, clientless: 0 }
    }

    /// Clients, of which one in so many was followed, and the requests of clients that are not counted.
    const fn clients(part: u64, all: u64, one_in: u64, clientless: u64) -> Self {
        Self { part, all, of: "client", is_estimate: one_in > 1, clientless }
    }

    /// Whether clients that are not counted could turn an answer into another one. Each has at least one request. An
    /// estimate takes them into account, unless it is 0.
    pub(super) fn is_open(&self, is_met: impl Fn(u64, u64) -> bool) -> bool {
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
    /// Returns the measured value, and the number of its requests.
    pub(super) fn measure(&self, report: &Report, place: &GateTarget) -> (MeasuredPart, u64) {
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
    const fn of_figures(&self, figures: &Figures) -> MeasuredPart {
        let Figures { requests, clients, one_in, clientless, .. } = *figures;
        match self.measure {
            Measure::NewlyDenied => MeasuredPart::requests(figures.newly_denied, requests),
            Measure::DeniedClients => {
                MeasuredPart::clients(figures.denied_clients, clients, one_in, clientless.denied)
            }
            Measure::NewlyDeniedClients => {
                MeasuredPart::clients(figures.newly_denied_clients, clients, one_in, clientless.newly_denied)
            }
            // Others are not measured of them.
            _ => MeasuredPart::requests(figures.denied, requests),
        }
    }

    fn of_all(&self, report: &Report) -> MeasuredPart {
        let requests = |part| MeasuredPart::requests(part, report.requests);
        let clients =
            |part, clientless| MeasuredPart::clients(part, report.clients, report.one_client_in, clientless);
        let all = report.read.as_ref().map_or(0, |read| read.lines);
        let lines = |part| MeasuredPart { of: "line", ..MeasuredPart::requests(part, all) };
        let compared = |figure: fn(&BaselineComparison) -> u64| report.compared.as_ref().map_or(0, figure);
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

    /// This many requests, without those on which only one of the two versions of the policies can decide.
    fn comparable(report: &Report, requests: u64) -> u64 {
        requests.saturating_sub(report.compared.as_ref().map_or(0, |compared| compared.incomparable))
    }

    /// The requests that say something, where it is about all.
    fn requests_of_all(&self, report: &Report) -> u64 {
        match self.measure {
            _ if !self.is_of_decisions() => report.requests,
            // A limit that is gone allows requests that it decided on.
            Measure::NewlyAllowed => {
                let denied_before = report.compared.as_ref().map_or(0, |compared| compared.denied_before);
                Self::comparable(report, report.decided().max(denied_before))
            }
            Measure::NewlyDenied | Measure::NewlyDeniedClients => Self::comparable(report, report.decided()),
            _ => report.decided(),
        }
    }
}
