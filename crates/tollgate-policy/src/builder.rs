//! Policies built in code, with the same rules as in a file.

use thiserror::Error;
use tollgate::{CountDenied, InFlight, OnStoreFailure, PolicyInFlight, PolicyQuota, Quota};

use crate::limit::{QuotaLists, QuotaSpecs};
use crate::policy::candidate_name;
use crate::{
    Attributes, Condition, Conditions, Cost, HeaderFormats, Identity, LimitAttribute, Mode, OnMissingKey,
    Overrun, Pattern, Policy, PolicyKind, Position, Test,
};

/// A builder of policies: see [`Policy::builder`].
#[derive(Debug, Clone)]
pub struct PolicyBuilder {
    pub(crate) policy: Policy,
    quotas: Vec<(Quota, Option<LimitAttribute>)>,
    candidates: Vec<(Quota, Option<LimitAttribute>)>,
    in_flight: Option<InFlight>,
    count_denied: CountDenied,
}

/// An invalid policy. The fault of its author.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// A name that would be hard to read in a header, a metric or a key.
    #[error("a policy's name must have 1 to 64 characters out of letters, digits, `-`, `_` and `.`")]
    Name,
    /// Two policies have this name.
    #[error("two policies are named `{0}`")]
    SameName(Box<str>),
    /// A policy that neither counts nor exempts nor denies.
    #[error("policy `{0}` has no quota")]
    NoQuota(Box<str>),
    /// An attribute name that no request can have.
    #[error("policy `{0}`: an attribute's name has 1 to {max} characters", max = Attributes::MAX_NAME)]
    AttributeName(Box<str>),
    /// A cost whose minimum is above its maximum.
    #[error("policy `{0}`: the minimum cost is above the maximum")]
    CostRange(Box<str>),
    /// A limit for a missing attribute that is above the maximum.
    #[error("policy `{0}`: the limit for requests without the attribute is above the maximum")]
    LimitRange(Box<str>),
    /// An empty list in a condition or a key: it would match nothing, or count all requests together.
    #[error("policy `{0}`: a list in a condition or a key is empty")]
    EmptyList(Box<str>),
    /// An HTTP status that is not an error.
    #[error("policy `{policy}`: a denial must have a status from 400 to 599, not {status}")]
    DenyStatus {
        /// The policy's name.
        policy: Box<str>,
        /// The status.
        status: u16,
    },
    /// Two quotas would count the same units on the same counter.
    #[error("{first} and {second} have the same window; keep one of them")]
    SameWindow {
        /// The first of the two.
        first: Box<Quota>,
        /// The second of the two.
        second: Box<Quota>,
    },
    /// A denial charges something of a policy whose units in flight no denial can charge.
    #[error("policy `{0}`: `count_denied` and `overdraft` charge denials, and a limit in flight cannot")]
    CountDeniedInFlight(Box<str>),
}

impl Policy {
    /// Begins a policy with this name. By default, it matches every request, counts all requests together, takes the
    /// caller's cost, admits during an outage of the store, uses the headers of draft 11, and denies with status 429.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Quota;
    /// use tollgate_policy::{Identity, Policies, Policy};
    ///
    /// let login = Policy::builder("login")
    ///     .matching("path", ["/login"])
    ///     .key(Identity::Attribute("ip".into()))
    ///     .quota(Quota::per_minute(5))
    ///     .build()?;
    /// let health = Policy::builder("health").matching("path", ["/healthz", "/internal/*"]).exempt().build()?;
    /// let policies = Policies::of([login, health])?;
    /// # Ok::<(), tollgate_policy::PolicyError>(())
    /// ```
    #[must_use]
    pub fn builder(name: &str) -> PolicyBuilder {
        let policy = Self {
            name: name.into(),
            at: Position::new(0, 0),
            description: None,
            conditions: Conditions::default(),
            kind: PolicyKind::Count,
            mode: Mode::Enforce,
            identity: Identity::Global,
            on_missing_key: OnMissingKey::default(),
            cost: Cost::Asked,
            quotas: QuotaLists::default(),
            overrides: [].into(),
            count_denied: CountDenied::No,
            overrun: Overrun::Charge,
            on_store_failure: OnStoreFailure::Open,
            headers: HeaderFormats::default(),
            deny_status: 429,
        };
        let (quotas, candidates) = (Vec::new(), Vec::new());
        PolicyBuilder { policy, quotas, candidates, in_flight: None, count_denied: CountDenied::No }
    }
}

impl PolicyBuilder {
    /// Adds a condition: the attribute matches one of these patterns, written as in a file: `/search`, `/api/*`.
    #[must_use]
    pub fn matching<'a>(self, attribute: &str, patterns: impl IntoIterator<Item = &'a str>) -> Self {
        self.when(attribute, Test::OneOf(patterns.into_iter().map(Pattern::new).collect()))
    }

    /// Adds a condition: the attribute passes this test.
    #[must_use]
    pub fn when(mut self, attribute: &str, test: Test) -> Self {
        self.policy.conditions.all.push(Condition::new(attribute, test));
        self
    }

    /// Adds an alternative. All conditions of at least one alternative must hold, and those of [`when`](Self::when) as
    /// well.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Quota;
    /// use tollgate_policy::{Condition, Pattern, Policy, Test};
    ///
    /// let is = |name, text| Condition::new(name, Test::OneOf([Pattern::new(text)].into()));
    /// let logins = Policy::builder("logins")
    ///     .alternative([is("path", "/login")])
    ///     .alternative([is("path", "/token"), is("grant", "password")])
    ///     .quota(Quota::per_minute(5))
    ///     .build()?;
    /// assert_eq!(
    ///     logins.conditions().to_string(),
    ///     "{ any: [{ path: /login }, { path: /token, grant: password }] }"
    /// );
    /// # Ok::<(), tollgate_policy::PolicyError>(())
    /// ```
    #[must_use]
    pub fn alternative(mut self, conditions: impl IntoIterator<Item = Condition>) -> Self {
        self.policy.conditions.any.push(conditions.into_iter().collect());
        self
    }

    /// Makes the policy admit matching requests without counting them. Keys and quotas have no effect then.
    #[must_use]
    pub fn exempt(mut self) -> Self {
        self.policy.kind = PolicyKind::Exempt;
        self
    }

    /// Makes the policy deny matching requests with status 403, unless another policy exempts them. Keys and quotas
    /// have no effect then. To use another [status](Self::deny_status), set it after this.
    #[must_use]
    pub fn deny(mut self) -> Self {
        (self.policy.kind, self.policy.deny_status) = (PolicyKind::Deny, 403);
        self
    }

    /// Sets the key.
    #[must_use]
    pub fn key(mut self, identity: Identity) -> Self {
        self.policy.identity = identity;
        self
    }

    /// Sets what happens to a request without a key.
    #[must_use]
    pub fn on_missing_key(mut self, on_missing_key: OnMissingKey) -> Self {
        self.policy.on_missing_key = on_missing_key;
        self
    }

    /// Sets the cost of a request, in units.
    #[must_use]
    pub fn cost(mut self, cost: Cost) -> Self {
        self.policy.cost = cost;
        self
    }

    /// Adds a quota. A request needs room in all of them.
    #[must_use]
    pub fn quota(mut self, quota: Quota) -> Self {
        self.quotas.push((quota, None));
        self
    }

    /// Adds a quota with its limit from an attribute; `max` has the highest limit.
    #[must_use]
    pub fn quota_by(mut self, limit: LimitAttribute, max: Quota) -> Self {
        self.quotas.push((max, Some(limit)));
        self
    }

    /// Adds a candidate quota: it is counted after the decision, on its own counters.
    #[must_use]
    pub fn candidate(mut self, quota: Quota) -> Self {
        self.candidates.push((quota, None));
        self
    }

    /// Limits how many units of a key are in flight at once. Requests need a [hold](crate::PolicyLimiter::reserve) then.
    #[must_use]
    pub fn in_flight(self, in_flight: InFlight) -> Self {
        Self { in_flight: Some(in_flight), ..self }
    }

    /// Sets what settling a hold charges for a cost above the reserved one.
    #[must_use]
    pub fn overrun(mut self, overrun: Overrun) -> Self {
        self.policy.overrun = overrun;
        self
    }

    /// Sets whether denied requests are charged. The last call of this and [`overdraft`](Self::overdraft) holds.
    #[must_use]
    pub fn count_denied(mut self, count_denied: CountDenied) -> Self {
        self.count_denied = count_denied;
        self
    }

    /// Admits any cost while a unit is left, and charges every request, whatever the verdict: see
    /// [`CountDenied::Overdraft`].
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{MemoryStore, Quota};
    /// use tollgate_policy::{Attributes, Policies, Policy, PolicyLimiter};
    ///
    /// let bytes = Policy::builder("bytes").quota(Quota::per_day(1_000)).overdraft().build()?;
    /// let limiter = PolicyLimiter::new(MemoryStore::new(), Policies::of([bytes])?, "code");
    /// # tollgate_testkit::block_on(async {
    /// let nobody = Attributes::default();
    /// for _ in 0..3 {
    ///     // Before the answer, and once its 400 bytes are known.
    ///     assert!(limiter.check(&nobody, 0).await?.is_allowed());
    ///     assert!(limiter.check(&nobody, 400).await?.is_allowed());
    /// }
    /// assert!(!limiter.check(&nobody, 0).await?.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn overdraft(self) -> Self {
        self.count_denied(CountDenied::Overdraft)
    }

    /// Sets what happens while the store cannot answer.
    #[must_use]
    pub fn on_store_failure(mut self, on_store_failure: OnStoreFailure) -> Self {
        self.policy.on_store_failure = on_store_failure;
        self
    }

    /// Sets its mode.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.policy.mode = mode;
        self
    }

    /// Sets the format of its limit headers.
    #[must_use]
    pub fn headers(mut self, headers: impl Into<HeaderFormats>) -> Self {
        self.policy.headers = headers.into();
        self
    }

    /// Sets the HTTP status of a denial, from 400 to 599.
    #[must_use]
    pub fn deny_status(mut self, status: u16) -> Self {
        self.policy.deny_status = status;
        self
    }

    /// Sets its description.
    #[must_use]
    pub fn description(mut self, description: &str) -> Self {
        self.policy.description = Some(description.into());
        self
    }

    /// Builds the policy.
    ///
    /// # Errors
    ///
    /// If the name is not allowed, an attribute's name is empty or too long, a list of a condition or key is empty, the
    /// status of a denial is not that of an error, the minimum cost is above the maximum, the limit for a missing
    /// attribute is above the highest, a policy that counts has neither a quota nor a limit in flight, denials are charged
    /// next to a limit in flight, or two quotas have the same kind, window, anchor and zone.
    pub fn build(self) -> Result<Policy, PolicyError> {
        let Self { policy, quotas, candidates, in_flight, count_denied } = self;
        if !Policy::is_name(&policy.name) {
            return Err(PolicyError::Name);
        }
        let limits = || quotas.iter().filter_map(|(quota, limit)| Some((limit.as_ref()?, quota.limit())));
        if !policy.attributes().chain(limits().map(|(limit, _)| limit.name())).all(Attributes::is_name) {
            return Err(PolicyError::AttributeName(policy.name));
        }
        if let Cost::Attribute(cost) = &policy.cost
            && cost.min() > cost.max()
        {
            return Err(PolicyError::CostRange(policy.name));
        }
        if limits().any(|(limit, max)| !limit.is_within(max)) {
            return Err(PolicyError::LimitRange(policy.name));
        }
        if policy.identity.has_empty_list() || policy.conditions.has_empty_list() {
            return Err(PolicyError::EmptyList(policy.name));
        }
        if !(400..=599).contains(&policy.deny_status) {
            return Err(PolicyError::DenyStatus { policy: policy.name, status: policy.deny_status });
        }
        if quotas.is_empty() && in_flight.is_none() && policy.kind == PolicyKind::Count {
            return Err(PolicyError::NoQuota(policy.name));
        }
        if in_flight.is_some() && count_denied != CountDenied::No {
            return Err(PolicyError::CountDeniedInFlight(policy.name));
        }
        let in_flight = in_flight.map(|in_flight| {
            PolicyInFlight::new(&policy.name, in_flight).with_on_store_failure(policy.on_store_failure)
        });
        let under = |name: &str, quotas: Vec<(Quota, Option<LimitAttribute>)>| {
            let quotas = quotas.into_iter().map(|(quota, limit)| {
                let quota = PolicyQuota::new(name, quota)
                    .with_count_denied(count_denied)
                    .with_on_store_failure(policy.on_store_failure);
                (quota, limit)
            });
            distinct(quotas.collect())
        };
        let quotas = QuotaLists {
            enforced: under(&policy.name, quotas)?.with_in_flight(in_flight),
            candidates: under(&candidate_name(&policy.name), candidates)?,
        };
        Ok(Policy { quotas, count_denied, ..policy })
    }
}

fn distinct(quotas: Vec<(PolicyQuota, Option<LimitAttribute>)>) -> Result<QuotaSpecs, PolicyError> {
    for (index, (second, _)) in quotas.iter().enumerate() {
        let mut before = quotas.iter().take(index).map(|(first, _)| first);
        if let Some(first) = before.find(|first| first.shares_counters_with(second)) {
            let (first, second) = (first.quota().clone().into(), second.quota().clone().into());
            return Err(PolicyError::SameWindow { first, second });
        }
    }
    Ok(QuotaSpecs::new(quotas))
}
