//! What became of requests.

use tollgate_policy::{CheckError, PolicyDecision};

use super::bits::Bits;
use crate::Classes;
use crate::report::ClassReport;

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    Denied,
    /// It lacks something, and live it would be answered as an error.
    Undecided,
}

/// How many requests came to which verdict, under the policies and under those to compare with.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Verdicts {
    pub(super) requests: u64,
    pub(super) denied: u64,
    pub(super) undecided: u64,
    pub(super) denied_before: u64,
    pub(super) newly_denied: u64,
    pub(super) newly_allowed: u64,
    /// Requests that only one of both could decide on.
    pub(super) incomparable: u64,
}

/// Requests of each class, and the clients that made them. Those that are in no class come first.
#[derive(Debug, Default)]
pub(super) struct ByClass(Vec<OfClass>);

#[derive(Debug, Default)]
struct OfClass {
    requests: u64,
    denied: u64,
    clients: Bits,
    denied_clients: Bits,
}

impl ByClass {
    /// For so many classes. Without any, nothing is counted.
    pub(super) fn new(classes: usize) -> Self {
        let counted = if classes == 0 { 0 } else { classes + 1 };
        Self(std::iter::repeat_with(OfClass::default).take(counted).collect())
    }

    /// Notes a request of a class, counted from 1, and of a client, if it is followed.
    pub(super) fn note(&mut self, class: u8, client: Option<u32>, is_denied: bool) {
        let Some(of_class) = self.0.get_mut(usize::from(class)) else { return };
        of_class.requests += 1;
        of_class.denied += u64::from(is_denied);
        let Some(client) = client else { return };
        of_class.clients.insert(client);
        if is_denied {
            of_class.denied_clients.insert(client);
        }
    }

    /// Keeps the clients that had these numbers.
    pub(super) fn keep(&mut self, kept: &[u32]) {
        for of_class in &mut self.0 {
            of_class.clients.keep(kept);
            of_class.denied_clients.keep(kept);
        }
    }

    /// The figures of classes with these names; those in no class are `others`, and last.
    pub(super) fn reports(&self, classes: &Classes, one_client_in: u64) -> Vec<ClassReport> {
        let names = classes.names().chain(["others"]).map(str::to_owned);
        let figures = self.0.iter().skip(1).chain(self.0.first());
        let reports = names.zip(figures).map(|(class, figures)| ClassReport {
            class,
            requests: figures.requests,
            denied: figures.denied,
            clients: figures.clients.count() * one_client_in,
            denied_clients: figures.denied_clients.count() * one_client_in,
        });
        reports.collect()
    }
}

impl Verdict {
    pub(super) fn of(decision: &Result<PolicyDecision, CheckError>) -> Self {
        match decision {
            Ok(decision) if decision.is_allowed() => Self::Allowed,
            Ok(_) => Self::Denied,
            Err(_) => Self::Undecided,
        }
    }
}

impl Verdicts {
    pub(super) fn note(&mut self, verdict: Verdict, before: Option<Verdict>) {
        self.requests += 1;
        self.denied += u64::from(verdict == Verdict::Denied);
        self.undecided += u64::from(verdict == Verdict::Undecided);
        let Some(before) = before else { return };
        self.denied_before += u64::from(before == Verdict::Denied);
        match (before, verdict) {
            (Verdict::Allowed, Verdict::Denied) => self.newly_denied += 1,
            (Verdict::Denied, Verdict::Allowed) => self.newly_allowed += 1,
            (Verdict::Undecided, Verdict::Undecided) => {}
            (Verdict::Undecided, _) | (_, Verdict::Undecided) => self.incomparable += 1,
            _ => {}
        }
    }
}
