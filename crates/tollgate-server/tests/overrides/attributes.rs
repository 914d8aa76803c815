//! What requests say about themselves, and the policies that read it.

use fastrand::Rng;
use serde_json::{Value, json};

/// The policies of both services, as [`super::expected`] knows them.
pub(crate) const POLICIES: &str = "defaults: { on_store_failure: closed }
tiers:
  free: [12/3653d]
  gold: [20/3653d, 40/3000d@first_hit]
policies:
  - name: search
    key: [user]
    quotas: { tier: plan, default: free }
    overrides:
      - when: { tenant: [acme-1, gamma] }
        quotas: [16/3653d, 9/2500d]
      - when: { tenant: beta-2 }
        quotas: unlimited
  - name: stream
    match: { kind: stream }
    key: [tenant, user]
    quotas: [15/1500d, 3~in_flight]
  - name: upload
    match: { kind: upload }
    key: [tenant, user]
    quotas: [10/2000d@first_hit]
";

/// The names of the policies, in the order of the alphabet.
pub(crate) const SEARCH: &str = "search";
pub(crate) const STREAM: &str = "stream";
pub(crate) const UPLOAD: &str = "upload";

pub(crate) const TENANTS: [&str; 6] = ["acme-1", "acme-12", "acme-2", "beta-2", "beta-21", "gamma"];
pub(crate) const PLANS: [&str; 3] = ["free", "gold", "trial"];

/// The series of a limit in flight.
pub(crate) const IN_FLIGHT: &str = "in_flight";

/// What a request is for, besides a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Stream,
    Upload,
}

/// The attributes of a request.
#[derive(Debug, Clone)]
pub(crate) struct Attributes {
    pub(crate) user: String,
    pub(crate) tenant: &'static str,
    pub(crate) plan: Option<&'static str>,
    pub(crate) kind: Option<Kind>,
}

impl Attributes {
    pub(crate) fn draw(user: &str, rng: &mut Rng) -> Self {
        let plan = PLANS[rng.usize(0..PLANS.len())];
        Self {
            user: user.to_owned(),
            tenant: TENANTS[rng.usize(0..TENANTS.len())],
            plan: rng.bool().then_some(plan),
            kind: match rng.u8(0..6) {
                0 => Some(Kind::Stream),
                1 | 2 => Some(Kind::Upload),
                _ => None,
            },
        }
    }

    /// The texts of all attributes, in the order of their names.
    pub(crate) fn texts(&self) -> Vec<(&'static str, &str)> {
        let kind = self.kind.map(|kind| ("kind", kind.policy()));
        let plan = self.plan.map(|plan| ("plan", plan));
        kind.into_iter().chain(plan).chain([("tenant", self.tenant), ("user", &self.user)]).collect()
    }

    pub(crate) fn json(&self) -> Value {
        self.texts().into_iter().map(|(name, text)| (name.to_owned(), json!(text))).collect()
    }

    /// The policies that match, by their names.
    pub(crate) fn policies(&self) -> Vec<&'static str> {
        [SEARCH].into_iter().chain(self.kind.map(Kind::policy)).collect()
    }

    /// The key of one of the policies.
    pub(crate) fn key(&self, policy: &str) -> Vec<(&'static str, String)> {
        let user = ("user", self.user.clone());
        if policy == SEARCH { vec![user] } else { vec![("tenant", self.tenant.to_owned()), user] }
    }
}

impl Kind {
    /// The policy of such requests, which has the name of the kind.
    const fn policy(self) -> &'static str {
        match self {
            Self::Stream => STREAM,
            Self::Upload => UPLOAD,
        }
    }
}
