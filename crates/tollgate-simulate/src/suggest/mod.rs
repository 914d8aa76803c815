//! From traffic to a limit: how much clients request, and which limit denies few of them.
//!
//! ```text
//! requests ──▶ Survey ──▶ the most of each client in one window
//!                         first 70 % of the period ──▶ bound ──▶ limit
//!                         last 30 %  ───────────────────────────▶ what it would have denied
//! ```

mod band;
mod kind;
mod period;
mod survey;

use serde::Serialize;

pub use self::band::Band;
pub use self::kind::Kind;
pub use self::survey::{Survey, SurveyOptions};
pub use crate::limits::bound::{BUDGET, RISK, clients_needed, rank};
pub use crate::limits::fit::HeldOut;
pub use crate::limits::per::Per;
pub use crate::limits::setters::LimitSetters;
use crate::report::{Note, Quantiles, ReadReport};

/// A limit that denies few clients, with its basis.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Suggestion {
    /// The summary of the logs, if the requests are from logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<ReadReport>,
    /// The key that identifies clients, as in a file.
    pub key: String,
    /// The conditions of the requests that were counted, if there are any, as in the `match` of a policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matching: Option<String>,
    /// The share of clients that may ever be denied, as it was asked for.
    pub budget: f64,
    /// What it is a share of. All that is said here of clients is said of client-days, if it is that.
    pub budget_per: Per,
    /// Requests that were counted.
    pub requests: u64,
    /// Requests without the key.
    pub without_key: u64,
    /// Requests that the service would answer as errors, so that they are not counted: an attribute is not UTF-8, or
    /// is too long.
    pub undecided: u64,
    /// The clients that made them.
    pub clients: u64,
    /// One client in this many was followed.
    pub one_client_in: u64,
    /// The zone of times.
    pub zone: String,
    /// The time of the first request.
    pub first: Option<String>,
    /// The time of the last request.
    pub last: Option<String>,
    /// The length of the period in days, without gaps of more than three days.
    pub days: f64,
    /// The limit for the requested window.
    pub quota: SuggestedQuota,
    /// A limit for a short window, against bursts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub companion: Option<SuggestedQuota>,
    /// Whether the short limit would never deny anything, because the other one is as low. Then the policy leaves it
    /// out.
    pub is_companion_idle: bool,
    /// Whether the other limit would never deny anything, because short windows with their limits add up to no more.
    /// Then the policy leaves that one out.
    pub is_limit_idle: bool,
    /// The same for each kind of client.
    pub kinds: Vec<KindReport>,
    /// The bound if robots and clients with mostly errors are left out.
    pub bound_without_suspects: Option<u64>,
    /// The clients that request the most in one window.
    pub greatest: Vec<GreatClient>,
    /// The greatest of them, if they lie far above all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outliers: Option<Outliers>,
    /// Caveats.
    pub notes: Vec<Note>,
    #[serde(skip)]
    pub(crate) fingerprint: u128,
}

/// A limit for one window, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SuggestedQuota {
    /// The window, as in a file: `1m`.
    pub window: String,
    /// Clients in about the first 70 % of the period, from which the limit is computed.
    pub fitted_clients: u64,
    /// The last instant of this part.
    pub fitted_until: Option<String>,
    /// The budget for which the limit is proven: the one that was asked for, or the least that so many clients can
    /// prove. `None` if they are fewer than five, who do not even prove that at most half of all clients are denied.
    pub proven_budget: Option<f64>,
    /// With a confidence of 95 %, at most the proven budget's share of clients request more than this in any window.
    /// `None` if there are too few clients.
    pub bound: Option<u64>,
    /// The range of the bound if one of its days is left out. `None` in a period of less than a week.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub band: Option<Band>,
    /// The bound, rounded up to 1, 2, 3 or 5 times a power of ten.
    pub limit: Option<u64>,
    /// The clients that set the limit, if these are robots or clients with mostly errors far above all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_by: Option<LimitSetters>,
    /// The clients that a bound for the asked budget needs.
    pub clients_needed: u64,
    /// About how many more days of such traffic would bring them, if there are too few. `None` also in a sample.
    pub more_days: Option<u64>,
    /// The clients to follow for that, if there are too few and these are more than may be followed.
    pub max_clients: Option<u64>,
    /// The effect of the limit in the rest of the period.
    pub held_out: Option<HeldOut>,
    /// The most that each client requests in one window, in the whole period.
    pub most: Option<Quantiles>,
}

/// Clients of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct KindReport {
    /// The kind.
    pub kind: Kind,
    /// Its clients.
    pub clients: u64,
    /// Their requests.
    pub requests: u64,
    /// Those that request more than the suggested limit in some window. `None` if no limit is suggested.
    pub above_limit: Option<u64>,
    /// The most that each requests in one window.
    pub most: Option<Quantiles>,
}

/// A client with many requests in one window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GreatClient {
    /// Its key, or a digest of it.
    pub client: String,
    /// Its kind.
    pub kind: Kind,
    /// Its requests.
    pub requests: u64,
    /// The most in one window.
    pub most: u64,
}

/// Clients that request far more than all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Outliers {
    /// Their number.
    pub clients: u64,
    /// Each of them requests at least this many in one window,
    pub from: u64,
    /// and all others for at most this many.
    pub others_up_to: u64,
}

impl Suggestion {
    /// Replaces the names of clients by digests, as [`Report::hide_keys`](crate::Report::hide_keys) does.
    pub fn hide_keys(&mut self) {
        self.read.iter_mut().for_each(ReadReport::hide_lines);
        for client in &mut self.greatest {
            client.client = crate::fingerprint::hidden(self.fingerprint, &client.client);
        }
    }

    /// Returns one line of JSON.
    #[must_use]
    pub fn json(&self) -> String {
        // This cannot fail: all keys are texts.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}
