//! What a round found.

use std::fmt;
use std::time::Duration;

/// One broken promise can break many.
const SHOWN: usize = 5;

#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) violations: Vec<String>,
    pub(crate) figures: Figures,
}

/// How much was looked at.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Figures {
    pub(crate) changes: u64,
    pub(crate) decisions: u64,
    /// Decisions under at least one override.
    pub(crate) overridden: u64,
    /// Decisions whose store's time was within two milliseconds of the end of an override that met the request.
    pub(crate) edges: u64,
    /// Those of them that were reservations.
    pub(crate) reserved_edges: u64,
    /// Decisions under a limit in flight.
    pub(crate) in_flight: u64,
    /// Holds that were settled, and whose answers were judged.
    pub(crate) settled: u64,
    /// Decisions that were not judged in full, because an outcome was unknown.
    pub(crate) unsure: u64,
    /// Changes of unknown outcome.
    pub(crate) doubtful: u64,
    /// Changes that failovers have taken back.
    pub(crate) lost: u64,
    /// The longest that a service went on with an older version while the store answered.
    pub(crate) lag: Duration,
}

impl Found {
    pub(crate) fn expect(&mut self, holds: bool, broken: impl FnOnce() -> String) {
        if !holds {
            self.violations.push(broken());
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.violations.extend(other.violations);
        let (own, more) = (&mut self.figures, other.figures);
        own.changes += more.changes;
        own.decisions += more.decisions;
        own.overridden += more.overridden;
        own.edges += more.edges;
        own.reserved_edges += more.reserved_edges;
        own.in_flight += more.in_flight;
        own.settled += more.settled;
        own.unsure += more.unsure;
        own.doubtful += more.doubtful;
        own.lost += more.lost;
        own.lag = own.lag.max(more.lag);
    }

    /// Prints the first violations.
    pub(crate) fn report(&self, round: &str) {
        for violation in self.violations.iter().take(SHOWN) {
            println!("violation: {round}: {violation}");
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = &self.figures;
        write!(
            f,
            "changes={} doubtful={} lost={} decisions={} overridden={} in_flight={} settled={} edges={} \
             reserved_edges={} unsure={} lag_ms={} violations={}",
            all.changes,
            all.doubtful,
            all.lost,
            all.decisions,
            all.overridden,
            all.in_flight,
            all.settled,
            all.edges,
            all.reserved_edges,
            all.unsure,
            all.lag.as_millis(),
            self.violations.len()
        )
    }
}
