//! What is asked for, and by which clients: the figures that need no policy.

use serde::Serialize;

use super::Peak;
use crate::limits::fit::HeldOut;
use crate::limits::setters::LimitSetters;

/// The requests of one route: a method, and paths of one form.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RouteReport {
    /// The method, such as `GET`; `other` for unusual ones. `None` if the log has none.
    pub method: Option<String>,
    /// The form of the paths, such as `/users/{id}`. One route may be `(other paths)`: those above the maximum number
    /// of routes. Requests whose path does not begin with `/` are those of `(no path)`.
    pub route: String,
    /// Requests.
    pub requests: u64,
    /// Those that are denied.
    pub denied: u64,
    /// Clients.
    pub clients: u64,
    /// One client in this many was followed. If it is not 1, the number of clients is an estimate.
    pub one_client_in: u64,
    /// Requests by the class of their status, without empty classes.
    pub statuses: Vec<StatusClass>,
    /// The busiest second.
    pub busiest_second: Option<Peak>,
    /// The busiest minute.
    pub busiest_minute: Option<Peak>,
    /// A limit for this route alone, if it is one of the ten busiest and has enough clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggested: Option<RouteSuggestion>,
}

/// Requests whose statuses begin with the same digit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StatusClass {
    /// `2xx`. `other` if the log has no status, or an impossible one.
    pub class: &'static str,
    /// Requests.
    pub requests: u64,
}

/// A limit that few clients exceed, for one route.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RouteSuggestion {
    /// The limit.
    pub limit: u64,
    /// Its window, as in a file: `1m`.
    pub window: String,
    /// With a confidence of 95 %, the limit denies at most this share of clients: one in 1,000, or else the least
    /// that the log can prove.
    pub budget: f64,
    /// The clients that set the limit, if these are clients with mostly errors far above all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_by: Option<LimitSetters>,
    /// Clients by which the limit was found, in about the first 70 % of the requests' time.
    pub fitted_clients: u64,
    /// Requests that it would deny, in the whole log; an estimate, if only some clients of the route are followed.
    pub denied: u64,
    /// Clients with a request that it would deny, in the whole log.
    pub denied_clients: u64,
    /// Its effect in the rest of the time, which was not used to find it.
    pub held_out: Option<HeldOut>,
}

/// A client with many requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BusyClient {
    /// Its key, such as `ip=192.0.2.7`, or a digest of it.
    pub client: String,
    /// Its requests.
    pub requests: u64,
    /// Those that are denied.
    pub denied: u64,
    /// Its first request.
    pub first: String,
    /// Its last request.
    pub last: String,
    /// A program of it, as it named itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
}

impl RouteReport {
    /// Its method and its form: `GET /users/{id}`.
    #[must_use]
    pub fn title(&self) -> String {
        match &self.method {
            Some(method) => format!("{method} {}", self.route),
            None => self.route.clone(),
        }
    }
}
