//! What limits the meaning of a report's figures. The words are in `output`.

use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::limits::per::Per;

/// A reason to read figures with care. Its text is what [`Display`](std::fmt::Display) writes, in JSON as well.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Note {
    /// About the logs, in the words of whoever read them.
    OfLogs(String),
    /// Denied clients continue as in the log.
    DeniedClientsContinue,
    /// Caches in front of the server hide requests.
    CachedRequests,
    /// One address may have many people behind it.
    SharedAddresses,
    /// Requests were refused already when the log was written.
    RefusedInLog {
        /// Those that were refused.
        refused: u64,
        /// All of them.
        requests: u64,
    },
    /// Requests were logged after later ones.
    OutOfOrder {
        /// How many.
        requests: u64,
    },
    /// Only some of the clients are followed.
    FollowedClients {
        /// One client in so many.
        one_in: u64,
        /// Whether the memory for classes is the reason, and not the most clients that may be followed.
        is_short_of_class_bytes: bool,
    },
    /// Policies count no request.
    IdlePolicies {
        /// Their names.
        policies: Vec<String>,
        /// Whether there are requests that cannot be decided.
        has_undecided: bool,
    },
    /// Limits in flight were skipped.
    SkippedInFlight {
        /// The names of their policies.
        policies: Vec<String>,
    },
    /// Policies in shadow mode charge nothing for requests that other policies deny.
    UnchargedShadows {
        /// Each with its number of such requests.
        policies: Vec<(String, u64)>,
    },
    /// No request is in a class.
    EmptyClass {
        /// Its name.
        class: String,
    },
    /// Programs and paths are not kept of all denied clients.
    MissingExamples,
    /// The most admitted in any interval was not measured.
    UnmeasuredBursts {
        /// For so many quotas.
        quotas: u64,
    },
    /// Other limits were not asked for.
    NoTriedLimits,
    /// Other limits were tried for some quotas only.
    FewTriedLimits {
        /// The quotas for which they were.
        tried: usize,
        /// Those that do not decide alone.
        quotas: usize,
        /// The most limits that are tried for all quotas together.
        most: usize,
    },
    /// There was no room for the counters of some limits.
    LostLimits {
        /// Each with its policy and its quota.
        limits: Vec<LostQuota>,
        /// The bytes that there are for them.
        max_bytes: usize,
    },
    /// Other kinds were not asked for.
    NoTriedKinds,
    /// Other kinds were tried for some quotas only, or not all of them.
    FewTriedKinds {
        /// How many were.
        tried: usize,
        /// How many there are, of all quotas together.
        kinds: usize,
    },
    /// There was no room for the counters of some kinds.
    LostKinds {
        /// Each with its policy and its quota.
        kinds: Vec<LostQuota>,
        /// The bytes that there are for them.
        max_bytes: usize,
    },
    /// Quotas cannot be of some kinds.
    ImpossibleKinds {
        /// Each with its policy, the quota and the kinds.
        quotas: Vec<(String, String, Vec<&'static str>)>,
    },
    /// No other kinds are tried for some quotas.
    FixedKinds {
        /// How many.
        quotas: u64,
    },
    /// Policies that seem to be apart met in requests, so what other limits deny is unknown.
    MetPolicies {
        /// Each with its number of such requests.
        policies: Vec<(String, u64)>,
    },
    /// Quotas of overrides keep their limits.
    FixedOverrides {
        /// How many.
        quotas: u64,
    },
    /// Limits come from requests.
    StatedLimits,
    /// There are long times without requests.
    LongGaps {
        /// All of them together.
        all: Duration,
        /// The longest one.
        longest: Duration,
        /// When that begins.
        from: String,
    },
    /// Nearly all requests are from workdays.
    NoWeekends,
    /// None of the known clients is in the log.
    NoKnownClients {
        /// The attribute that tells them.
        attribute: String,
    },
    /// The period is shorter than a week.
    ShortPeriod {
        /// In days.
        days: f64,
    },
    /// Few clients are in the part on which the limit is tried.
    FewHeldOutClients {
        /// How many.
        clients: u64,
        /// What is counted.
        per: Per,
    },
    /// Requests lack the key.
    WithoutKey {
        /// How many.
        requests: u64,
        /// The key.
        key: String,
    },
    /// The service would answer requests as errors.
    UndecidedRequests {
        /// How many.
        requests: u64,
    },
    /// A survey follows only some of the clients.
    SurveyedClients {
        /// One client in so many.
        one_in: u64,
    },
    /// Clients are not independent draws.
    DependentClients,
}

/// A limit or a kind that could not be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostQuota {
    /// The policy's name, with its role if it does not decide.
    pub policy: String,
    /// The limit, or the quota of another kind.
    pub tried: String,
    /// The quota in whose place it was.
    pub quota: String,
}

impl Serialize for Note {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
