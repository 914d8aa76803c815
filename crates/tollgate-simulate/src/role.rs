//! How the quotas of a policy are counted.

use tollgate_policy::TrialKind;

/// The role of a policy's quotas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// They decide.
    Enforced,
    /// The policy is in shadow mode.
    Shadow,
    /// They are candidates of the policy.
    Candidate,
}

impl Role {
    pub(crate) const fn of(kind: TrialKind) -> Self {
        match kind {
            TrialKind::Shadow => Self::Shadow,
            TrialKind::Candidate => Self::Candidate,
        }
    }

    pub(crate) const fn is_enforced(self) -> bool {
        matches!(self, Self::Enforced)
    }

    /// A policy's name, with this role if it does not decide: `login`, `login (shadow)`, `login:candidate`.
    pub(crate) fn title(self, policy: &str) -> String {
        match self {
            Self::Enforced => policy.to_owned(),
            Self::Shadow => format!("{policy} (shadow)"),
            Self::Candidate => format!("{policy}:candidate"),
        }
    }

    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::Shadow => "shadow",
            Self::Candidate => "candidate",
        }
    }
}
