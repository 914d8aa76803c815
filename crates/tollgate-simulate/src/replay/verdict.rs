//! The outcomes of requests.

use tollgate_policy::{Ground, PolicyDecision};

use crate::report::Clientless;

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed,
    /// It is allowed because no policy limits it.
    Unlimited,
    Denied,
    /// It lacks something, and live it would be answered as an error.
    Undecided,
}

/// How many requests came to which verdict, under the policies and under those to compare with.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Verdicts {
    pub(crate) requests: u64,
    pub(crate) denied: u64,
    pub(crate) undecided: u64,
    pub(crate) denied_before: u64,
    pub(crate) newly_denied: u64,
    pub(crate) newly_allowed: u64,
    /// Requests that only one of both could decide on.
    pub(crate) incomparable: u64,
    /// Requests of which both made the same.
    pub(crate) same: u64,
}

impl Clientless {
    /// Notes a request of this client, given what became of it, and under the policies to compare with.
    pub(crate) fn note(&mut self, client: Option<u32>, verdict: Verdict, before: Option<Verdict>) {
        if client.is_none() && verdict.is_denied() {
            self.denied += 1;
            self.newly_denied += u64::from(before.is_some_and(Verdict::is_allowed));
        }
    }
}

impl Verdict {
    pub(crate) fn of<E>(decision: &Result<PolicyDecision, E>) -> Self {
        match decision {
            Ok(decision) if matches!(decision.ground(), Ground::Unlimited) => Self::Unlimited,
            Ok(decision) if decision.is_allowed() => Self::Allowed,
            Ok(_) => Self::Denied,
            Err(_) => Self::Undecided,
        }
    }

    pub(crate) const fn is_allowed(self) -> bool {
        matches!(self, Self::Allowed | Self::Unlimited)
    }

    pub(crate) const fn is_denied(self) -> bool {
        matches!(self, Self::Denied)
    }

    /// Whether a policy decides on it.
    pub(crate) const fn is_decided(self) -> bool {
        matches!(self, Self::Allowed | Self::Denied)
    }
}

impl Verdicts {
    pub(crate) fn note(&mut self, verdict: Verdict, before: Option<Verdict>) {
        self.requests += 1;
        self.denied += u64::from(verdict.is_denied());
        self.undecided += u64::from(verdict == Verdict::Undecided);
        let Some(before) = before else { return };
        self.denied_before += u64::from(before.is_denied());
        match (before, verdict) {
            (before, Verdict::Denied) if before.is_allowed() => self.newly_denied += 1,
            (Verdict::Denied, verdict) if verdict.is_allowed() => self.newly_allowed += 1,
            (Verdict::Undecided, Verdict::Undecided) => self.same += 1,
            (Verdict::Undecided, _) | (_, Verdict::Undecided) => self.incomparable += 1,
            _ => self.same += 1,
        }
    }
}
