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
  - name: upload
    match: { kind: upload }
    key: [tenant, user]
    quotas: [10/2000d@first_hit]
";

/// The names of the policies. Of both, the first one's comes first in the alphabet.
pub(crate) const SEARCH: &str = "search";
pub(crate) const UPLOAD: &str = "upload";

pub(crate) const TENANTS: [&str; 6] = ["acme-1", "acme-12", "acme-2", "beta-2", "beta-21", "gamma"];
pub(crate) const PLANS: [&str; 3] = ["free", "gold", "trial"];

/// The attributes of a request.
#[derive(Debug, Clone)]
pub(crate) struct Attributes {
    pub(crate) user: String,
    pub(crate) tenant: &'static str,
    pub(crate) plan: Option<&'static str>,
    pub(crate) is_upload: bool,
}

impl Attributes {
    pub(crate) fn draw(user: &str, rng: &mut Rng) -> Self {
        let plan = PLANS[rng.usize(0..PLANS.len())];
        Self {
            user: user.to_owned(),
            tenant: TENANTS[rng.usize(0..TENANTS.len())],
            plan: rng.bool().then_some(plan),
            is_upload: rng.u8(0..3) == 0,
        }
    }

    /// The texts of all attributes, in the order of their names.
    pub(crate) fn texts(&self) -> Vec<(&'static str, &str)> {
        let kind = self.is_upload.then_some(("kind", "upload"));
        let plan = self.plan.map(|plan| ("plan", plan));
        kind.into_iter().chain(plan).chain([("tenant", self.tenant), ("user", &self.user)]).collect()
    }

    pub(crate) fn json(&self) -> Value {
        self.texts().into_iter().map(|(name, text)| (name.to_owned(), json!(text))).collect()
    }

    /// The policies that match, by their names.
    pub(crate) fn policies(&self) -> Vec<&'static str> {
        if self.is_upload { vec![SEARCH, UPLOAD] } else { vec![SEARCH] }
    }

    /// The key of one of the policies.
    pub(crate) fn key(&self, policy: &str) -> Vec<(&'static str, String)> {
        let user = ("user", self.user.clone());
        if policy == UPLOAD { vec![("tenant", self.tenant.to_owned()), user] } else { vec![user] }
    }
}
