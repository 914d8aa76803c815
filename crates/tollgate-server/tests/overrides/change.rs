//! Changes of overrides, as a driver draws them.

use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::attributes::{IN_FLIGHT, PLANS, SEARCH, STREAM, TENANTS, UPLOAD};
use crate::moment::Moment;
use crate::rfc3339;

/// Which requests an override is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Target {
    Key { policy: &'static str, key: Vec<(&'static str, String)> },
    Text { policy: &'static str, attribute: &'static str, text: String, is_whole: bool },
}

/// What an override says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Limits {
    /// A limit, and the series that follows it.
    Quotas(Vec<(u64, &'static str)>),
    Unlimited,
    Denied,
}

/// An override as it was set. The time of its end is what the service answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OverrideSaid {
    pub(crate) limits: Limits,
    /// In milliseconds since the epoch.
    pub(crate) until: Option<i64>,
}

/// When an override is to end.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DrawnEnd {
    Never,
    At(i64),
    After(Duration),
}

/// Series of the policies and others: an override may go on with a counter, or begin its own.
const SERIES: [&str; 6] =
    ["3653d", "3000d@first_hit", "2500d", "2000d@first_hit", "1500d", "1000d@first_hit"];

impl Target {
    /// Draws a target. Half of them are keys of these users.
    pub(crate) fn draw(users: &[String], rng: &mut Rng) -> Self {
        let policy = [SEARCH, SEARCH, STREAM, UPLOAD][rng.usize(0..4)];
        let tenant = TENANTS[rng.usize(0..TENANTS.len())];
        if rng.u8(0..5) < 3 && !users.is_empty() {
            let user = ("user", users[rng.usize(0..users.len())].clone());
            let mut key = vec![user];
            if policy != SEARCH {
                key.insert(0, ("tenant", tenant.to_owned()));
            }
            return Self::Key { policy, key };
        }
        let is_whole = rng.bool();
        let (attribute, text) = match rng.u8(0..6) {
            0 => ("plan", PLANS[rng.usize(0..PLANS.len())].to_owned()),
            // Names of users begin with their client's.
            1 => ("user", format!("c{}-", rng.u8(0..4))),
            _ => ("tenant", tenant.to_owned()),
        };
        let is_whole = is_whole && attribute != "user";
        let length = if is_whole || attribute == "user" { text.len() } else { rng.usize(1..=text.len()) };
        Self::Text { policy, attribute, text: text[..length].to_owned(), is_whole }
    }

    pub(crate) fn policy(&self) -> &'static str {
        match self {
            Self::Key { policy, .. } | Self::Text { policy, .. } => policy,
        }
    }

    pub(crate) fn json(&self) -> Value {
        match self {
            Self::Key { key, .. } => {
                key.iter().map(|(name, text)| ((*name).to_owned(), json!(text))).collect()
            }
            Self::Text { attribute, text, is_whole, .. } => {
                json!({ *attribute: { if *is_whole { "is" } else { "prefix" }: text } })
            }
        }
    }
}

impl Limits {
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        match rng.u8(0..8) {
            0 => Self::Unlimited,
            1 => Self::Denied,
            _ => {
                let mut series = SERIES;
                rng.shuffle(&mut series);
                let in_flight = (rng.u8(0..5) == 0).then(|| (rng.u64(0..4), IN_FLIGHT));
                let count = rng.usize(usize::from(in_flight.is_none())..=3);
                let quotas = series[..count].iter().map(|series| (rng.u64(1..40), *series));
                Self::Quotas(quotas.chain(in_flight).collect())
            }
        }
    }

    pub(crate) fn json(&self) -> Value {
        match self {
            Self::Quotas(quotas) => {
                quotas.iter().map(|(limit, series)| json!(written(*limit, series))).collect()
            }
            Self::Unlimited => json!("unlimited"),
            Self::Denied => json!("denied"),
        }
    }
}

/// A limit as answers have it too.
pub(crate) fn written(limit: u64, series: &str) -> String {
    if series == IN_FLIGHT { format!("{limit}~{IN_FLIGHT}") } else { format!("{limit}/{series}") }
}

impl DrawnEnd {
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let millis = rng.u32(20..1_500);
        match rng.u8(0..4) {
            0 => Self::At(Moment::now().millis() + i64::from(millis)),
            1 => Self::After(Duration::from_millis(millis.into())),
            _ => Self::Never,
        }
    }

    pub(crate) fn write_to(self, body: &mut Value) {
        match self {
            Self::Never => {}
            Self::At(millis) => body["until"] = json!(rfc3339::write(millis)),
            Self::After(length) => body["for"] = json!(format!("{}ms", length.as_millis())),
        }
    }

    /// Whether an override that was set in this time ends then.
    pub(crate) fn may_be(self, until: Option<i64>, sent: Moment, received: Moment) -> bool {
        match (self, until) {
            (Self::Never, until) => until.is_none(),
            (Self::At(end), until) => until == Some(end),
            (Self::After(length), Some(until)) => {
                (sent.later(length).millis() - 1..=received.later(length).millis() + 1).contains(&until)
            }
            (Self::After(_), None) => false,
        }
    }
}
