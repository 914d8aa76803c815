//! What a client asked for, and what came of it.

use crate::answer::{Answer, SettledQuota};
use crate::attributes::Attributes;
use crate::moment::Moment;
use crate::versions::Process;

/// A request of a client.
#[derive(Debug)]
pub(crate) enum Observed {
    Decision(Box<Observation>),
    Settlement(Settlement),
}

/// What a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Check,
    Peek,
    Reserve,
}

/// A request for a decision.
#[derive(Debug)]
pub(crate) struct Observation {
    pub(crate) act: Act,
    pub(crate) attributes: Attributes,
    pub(crate) cost: u64,
    pub(crate) by: Process,
    pub(crate) sent: Moment,
    pub(crate) received: Moment,
    pub(crate) outcome: Outcome,
}

/// What came of a request for a decision.
#[derive(Debug)]
pub(crate) enum Outcome {
    Decided(Box<Answer>),
    /// A check met a limit in flight, so nothing was charged.
    NeedsHold,
    /// No decision came, so nobody knows what was charged.
    Unknown,
}

/// The end of a hold at its actual cost.
#[derive(Debug)]
pub(crate) struct Settlement {
    pub(crate) user: String,
    /// The place of the reservation among what the client asked.
    pub(crate) reserved: usize,
    pub(crate) actual: u64,
    pub(crate) by: Process,
    pub(crate) sent: Moment,
    pub(crate) received: Moment,
    /// What changed; `None` if no answer came.
    pub(crate) changed: Option<Result<Vec<SettledQuota>, String>>,
}

impl Observation {
    pub(crate) fn answer(&self) -> Option<&Answer> {
        match &self.outcome {
            Outcome::Decided(answer) => Some(answer),
            Outcome::NeedsHold | Outcome::Unknown => None,
        }
    }
}

impl Observed {
    pub(crate) fn decision(&self) -> Option<&Observation> {
        match self {
            Self::Decision(observation) => Some(observation),
            Self::Settlement(_) => None,
        }
    }

    pub(crate) fn user(&self) -> &str {
        match self {
            Self::Decision(observation) => &observation.attributes.user,
            Self::Settlement(settlement) => &settlement.user,
        }
    }

    /// When it was asked, and when the answer had come.
    pub(crate) fn time(&self) -> (Moment, Moment) {
        match self {
            Self::Decision(observation) => (observation.sent, observation.received),
            Self::Settlement(settlement) => (settlement.sent, settlement.received),
        }
    }
}
