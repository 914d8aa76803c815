//! Permissions of callers: the scopes that operations need, and that listeners and principals grant.

use std::fmt;

/// A group of operations that are granted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Charges units for the caller's own requests.
    Check,
    /// Looks at the counters of the caller's own requests.
    Peek,
    /// Counts under limits of the caller's own, and changes those counters.
    Count,
    /// Changes counters: refund, reset, set, record.
    Change,
    /// Reads policies and the description of the service. A principal with it may read metrics as well.
    Read,
    /// Reads metrics.
    Metrics,
    /// Reloads the policies.
    Policies,
    /// Reads and changes overrides. Only principals can have it.
    Overrides,
    /// Sees the keys of talkers, where an answer has them. Only principals can have it.
    Keys,
}

/// A set of scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Scopes(u16);

impl Scopes {
    pub(crate) const fn of<const N: usize>(scopes: [Scope; N]) -> Self {
        let (mut set, mut index) = (Self(0), 0);
        while index < N {
            set = set.with(scopes[index]);
            index += 1;
        }
        set
    }

    const fn with(self, scope: Scope) -> Self {
        Self(self.0 | 1 << scope as u8)
    }

    pub(crate) const fn has(self, scope: Scope) -> bool {
        self.0 & (1 << scope as u8) != 0
    }
}

/// Collects the scopes of a principal.
impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        let all = scopes.into_iter().fold(Self::default(), Self::with);
        if all.has(Scope::Read) { all.with(Scope::Metrics) } else { all }
    }
}

impl Scope {
    pub(crate) const ALL: [Self; 9] = [
        Self::Check,
        Self::Peek,
        Self::Count,
        Self::Change,
        Self::Read,
        Self::Metrics,
        Self::Policies,
        Self::Overrides,
        Self::Keys,
    ];

    /// Returns its name in a file of principals, in flags and in problems.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Peek => "peek",
            Self::Count => "count",
            Self::Change => "change",
            Self::Read => "read",
            Self::Metrics => "metrics",
            Self::Policies => "policies",
            Self::Overrides => "overrides",
            Self::Keys => "keys",
        }
    }

    /// Returns the permissions of a principal with this scope, for help.
    pub(crate) const fn grants(self) -> &'static str {
        match self {
            Self::Check => "Checks and holds, also in batches, and reports over gRPC",
            Self::Peek => "Peeks",
            Self::Count => "Counts under the caller's own limits, which it may also change",
            Self::Change => "Refund, reset, set and record",
            Self::Read => "The live policies, the API description, and metrics",
            Self::Metrics => "Metrics alone",
            Self::Policies => "Reload the policies",
            Self::Overrides => "Read and change overrides",
            Self::Keys => "See the keys of talkers (with `read`, and only with `serve --talkers plain`)",
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }

    /// Returns whether a web page of another site must not reach it through a browser inside the operator's network.
    pub(crate) const fn is_guarded(self) -> bool {
        !matches!(self, Self::Check | Self::Peek)
    }

    /// Returns whether only principals can have it, so that nobody has it where callers are not asked who they are. A
    /// change of what a customer may do has an author.
    pub(crate) const fn needs_principal(self) -> bool {
        matches!(self, Self::Overrides | Self::Keys)
    }

    /// Returns whether its requests must name an allowed host as well, against pages that bind their own name to the
    /// service's address. Callers that count reach the service under names that only they know, as for checks.
    pub(crate) const fn needs_known_host(self) -> bool {
        self.is_guarded() && !matches!(self, Self::Count)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
