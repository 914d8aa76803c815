//! The result of a replay: the same figures for every form of output.

mod clientless;
mod hidden;
mod kind;
mod load;
mod note;
mod read;
mod route;
mod status;

use std::collections::BTreeMap;

use serde::Serialize;
use tollgate::QuotaKind;
use tollgate_policy::Identity;

pub(crate) use self::clientless::Clientless;
pub use self::kind::TriedKind;
pub use self::load::{Peak, PeakLength, PeakReport, Timeline};
pub use self::note::{LostQuota, Note};
pub use self::read::{ReadFile, ReadGap, ReadReport, UnreadLine, UnreadLines};
pub use self::route::{BusyClient, RouteReport, RouteSuggestion, StatusClass};
pub use self::status::{DeniedStatus, StatusReport};
use crate::curve::Curve;
use crate::quoted::code;
use crate::role::Role;

/// The result of a replay. Times are in RFC 3339, in the zone of the report.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The summary of the logs, if the requests are from logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<ReadReport>,
    /// The zone of hours and days.
    pub zone: String,
    /// The time of the first request.
    pub first: Option<String>,
    /// The time of the last request.
    pub last: Option<String>,
    /// Seconds from the first request to the last.
    pub seconds: f64,
    /// Requests that were replayed.
    pub requests: u64,
    /// Requests that are denied.
    pub denied: u64,
    /// Requests that would be answered with errors, because they lack something that a policy needs.
    pub undecided: u64,
    /// Why, with how many each.
    pub undecided_reasons: Vec<UndecidedReason>,
    /// Requests that no policy limits.
    pub unlimited: u64,
    /// Requests that are denied because no policy matches them, with `unmatched: deny`.
    pub denied_unmatched: u64,
    /// Requests that were answered 429 or 503 when the log was written.
    pub refused_in_log: u64,
    /// Requests by the status that they were answered with when the log was written: by ascending status, those without
    /// one last.
    pub statuses: Vec<StatusReport>,
    /// Clients: addresses, unless another key was chosen.
    pub clients: u64,
    /// Clients with a denied request.
    pub denied_clients: u64,
    /// One client in this many was followed. If it is not 1, all numbers of clients are estimates.
    pub one_client_in: u64,
    /// The report on each policy, in order.
    pub policies: Vec<PolicyReport>,
    /// The clients that are denied most often.
    pub most_denied: Vec<DeniedClient>,
    /// The clients whose allowed requests would be denied most often by policies on trial.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub most_denied_on_trial: Vec<DeniedClient>,
    /// Requests and clients of each class.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassReport>,
    /// The routes of requests, the busiest first, if they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RouteReport>,
    /// The clients with most requests, if routes were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub busiest_clients: Vec<BusyClient>,
    /// The differences from the policies to compare with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<BaselineComparison>,
    /// Requests of each hour of the week: seven days from Monday, 24 hours each.
    pub week: Vec<Vec<TimeShare>>,
    /// Requests of each day.
    pub days: Vec<DayReport>,
    /// The busiest second and minute. Empty without requests.
    pub peaks: Vec<PeakReport>,
    /// Requests over the whole period. `None` without requests.
    pub timeline: Option<Timeline>,
    /// The limits of this answer.
    pub notes: Vec<Note>,
    #[serde(skip)]
    pub(crate) clientless: Clientless,
    /// What tells clients apart.
    #[serde(skip)]
    pub(crate) client: Identity,
    /// The segments of routes that are values of clients, with the names of these.
    #[serde(skip)]
    pub(crate) clients_in_routes: BTreeMap<String, String>,
    #[serde(skip)]
    pub(crate) fingerprint: u128,
}

/// A reason, and how many requests it is one for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UndecidedReason {
    /// The reason.
    pub reason: String,
    /// The requests.
    pub requests: u64,
}

/// The effect of a policy, in one role.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct PolicyReport {
    /// Its name.
    pub policy: String,
    /// Whether its quotas decide or are on trial.
    pub role: Role,
    /// Its key, as in a file.
    pub key: String,
    /// Requests that it matches.
    pub requests: u64,
    /// Requests for which one of its quotas has no room, or that it denies without a count.
    pub denied: u64,
    /// Those that the policies to compare with admit.
    pub newly_denied: u64,
    /// The requests that it denies, by the status that they were answered with when the log was written: by ascending
    /// status, those without one last.
    pub denied_by_status: Vec<DeniedStatus>,
    /// Clients, by its key.
    pub clients: u64,
    /// Clients with a request that it denies.
    pub denied_clients: u64,
    /// Those of whose requests that it matches the policies to compare with deny none. It is 0 if there are none of
    /// these, and for trials.
    pub newly_denied_clients: u64,
    /// One client in this many was followed.
    pub one_client_in: u64,
    /// Its requests and clients of each class.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassReport>,
    /// The effects of its quotas.
    pub quotas: Vec<QuotaReport>,
    #[serde(skip)]
    pub(crate) clientless: Clientless,
}

/// The effect of one quota.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct QuotaReport {
    /// Written as in a file.
    pub quota: String,
    /// The line of the override that has it, if it is not the policy's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of_override_in_line: Option<usize>,
    /// The attribute that says the limit, if one does. Then that of the quota is the most that it may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_attribute: Option<String>,
    /// Requests that it was checked for.
    pub requests: u64,
    /// Requests for which it has no room.
    pub denied: u64,
    /// Those that cost more than the limit, or than the burst of a bucket, so that waiting does not help.
    pub above_limit: u64,
    /// Windows of clients with a request. Of a bucket or a log, these are the intervals of its length that the clock
    /// shows.
    pub windows: u64,
    /// Windows in which a request is denied.
    pub denied_windows: u64,
    /// The longest time that a denied client has to wait, in seconds.
    pub longest_wait: f64,
    /// The most units that each client requests in one window: how tight the limit is.
    pub most: Option<Quantiles>,
    /// The most units admitted for one client in any interval as long as a window, as a share of the limit. Adjacent
    /// fixed windows allow up to 2. `None` if it was not measured.
    pub burst: Option<f64>,
    /// The denials of other limits.
    pub curve: Curve,
    /// The denials of other kinds with the same limit.
    pub kinds: Vec<TriedKind>,
    #[serde(skip)]
    pub(crate) kind: QuotaKind,
    /// The most that it admits at once.
    #[serde(skip)]
    pub(crate) capacity: u64,
    /// The most units that one client had in use at once.
    #[serde(skip)]
    pub(crate) most_used: u64,
}

/// The distribution of values: half of them are at most `p50`, and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Quantiles {
    /// The median.
    pub p50: u64,
    /// Of ten values, nine are at most this one.
    pub p90: u64,
    /// Of a hundred values, 99.
    pub p99: u64,
    /// Of a thousand values, 999.
    pub p999: u64,
    /// The greatest value.
    pub max: u64,
}

/// A client that is denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DeniedClient {
    /// Its key, such as `ip=192.0.2.7`, or a digest of it.
    pub client: String,
    /// Its requests.
    pub requests: u64,
    /// Those that are denied; in the list of trials, those that are allowed and that a trial would deny.
    pub denied: u64,
    /// Those that the policies to compare with deny.
    pub denied_before: u64,
    /// Its first request.
    pub first: String,
    /// Its last request.
    pub last: String,
    /// The window in which it exceeds a limit most, if a policy counts by the same key. In the list of trials, it is
    /// one of a trial, else one of a quota that decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fullest: Option<FullestWindow>,
    /// The first class that a request of it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The program that sent its first denied request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// The path of its first denied request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// The window in which a client requests the most.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FullestWindow {
    /// The policy of its quota.
    pub policy: String,
    /// The quota.
    pub quota: String,
    /// Its start.
    pub start: String,
    /// The requested units.
    pub asked: u64,
}

/// Requests and clients of one class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ClassReport {
    /// Its name. Requests that are in no class are in `others`.
    pub class: String,
    /// Requests in it.
    pub requests: u64,
    /// Those that a policy decides on: some may be without a limit, or be answered as errors.
    pub decided: u64,
    /// Those that are denied.
    pub denied: u64,
    /// Those of the denied ones that the policies to compare with admit.
    pub newly_denied: u64,
    /// Clients with a request in it. A client may be in several classes.
    pub clients: u64,
    /// Those with a denied request in it.
    pub denied_clients: u64,
    /// Those of whose requests in it the policies to compare with deny none. It is 0 if there are none of these, and
    /// for trials.
    pub newly_denied_clients: u64,
    #[serde(skip)]
    pub(crate) clientless: Clientless,
}

/// The differences from the policies to compare with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BaselineComparison {
    /// Requests that they deny.
    pub denied_before: u64,
    /// Requests that they admit and these policies deny.
    pub newly_denied: u64,
    /// Requests that they deny and these policies admit.
    pub newly_allowed: u64,
    /// Requests of which both make the same: they admit them, deny them, or cannot decide on them.
    pub same: u64,
    /// Requests that only one of both can decide on.
    pub incomparable: u64,
    /// Clients without a denied request under them and with one under these policies.
    pub newly_denied_clients: u64,
    /// Clients with a denied request under them and none under these policies.
    pub newly_allowed_clients: u64,
    /// The newly denied clients that are denied most often.
    pub most_newly_denied: Vec<DeniedClient>,
    /// Of the newly allowed clients those that they deny most often, with a path that they deny.
    pub most_newly_allowed: Vec<DeniedClient>,
}

/// Requests at some time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TimeShare {
    /// Requests.
    pub requests: u64,
    /// Those that are denied.
    pub denied: u64,
}

/// Requests of a day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DayReport {
    /// Its date.
    pub day: String,
    /// Requests.
    pub requests: u64,
    /// Those that are denied.
    pub denied: u64,
}

impl Report {
    /// Why there is no answer.
    pub(crate) const NO_REQUEST: &str = "There are no requests to replay, so there is no answer.";
    pub(crate) const NO_POLICY: &str = "No policy decides on any of these requests, so there is no answer.";

    /// Requests that a policy decides on: all that are neither without a limit nor answered as errors.
    pub(crate) const fn decided(&self) -> u64 {
        self.requests.saturating_sub(self.undecided).saturating_sub(self.unlimited)
    }

    /// Whether the report is about traffic alone, without any policy.
    #[must_use]
    pub const fn is_overview(&self) -> bool {
        self.policies.is_empty() && self.decided() == 0 && self.undecided == 0 && !self.routes.is_empty()
    }

    /// Whether a policy matches any of the requests, in whatever role, or some are denied because none does; or whether
    /// there are requests, if there is no policy.
    #[must_use]
    pub fn has_answer(&self) -> bool {
        self.is_overview() || self.decided() > 0 || self.policies.iter().any(|policy| policy.requests > 0)
    }
}

impl QuotaReport {
    /// Returns whether clients ask for more than the limit in one window, and yet it denies nothing: other quotas
    /// denied it first.
    pub(crate) fn is_spared(&self) -> bool {
        let most_admitted = match self.kind {
            // A full bucket, and what drains while the window lasts.
            QuotaKind::Burst => self.curve.replayed.saturating_add(self.capacity),
            _ => self.curve.replayed,
        };
        self.denied == 0 && self.most.is_some_and(|most| most.max > most_admitted)
    }

    /// Returns whether it counts in windows. Others have none: their figures are of intervals as long as a window.
    pub(crate) const fn has_windows(&self) -> bool {
        matches!(self.kind, QuotaKind::Window | QuotaKind::Sliding)
    }

    /// Written as in a file, with its place if an override has it.
    #[must_use]
    pub fn title(&self) -> String {
        let attribute =
            self.limit_attribute.as_deref().map(|name| format!("at most; {} sets the limit", code(name)));
        let line = self.of_override_in_line.map(|line| format!("the override in line {line}"));
        let more: Vec<String> = attribute.into_iter().chain(line).collect();
        if more.is_empty() { self.quota.clone() } else { format!("{} ({})", self.quota, more.join("; ")) }
    }
}

impl PolicyReport {
    /// Returns its name, and its role if it does not decide: `login`, `login:candidate`.
    #[must_use]
    pub fn title(&self) -> String {
        self.role.title(&self.policy)
    }
}
