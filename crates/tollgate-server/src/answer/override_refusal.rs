//! Why a request about overrides is refused.

use http::StatusCode;
use tollgate_policy::{OverrideRecord, OverrideState, OverridesVersion};

/// See the [module](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OverrideRefusal {
    /// The override is not the one that its caller has seen.
    PreconditionFailed,
    /// There is no such override.
    NoOverride,
    /// There is no such policy.
    NoPolicy,
    /// The policy exempts or denies what it matches.
    CountsNothing,
    /// Nothing keeps overrides.
    NoStateDir,
    /// Overrides are turned off.
    OverridesOff,
    /// There are as many as there may be.
    TooManyOverrides,
}

/// The override that is there in place of the one that a caller has seen.
#[derive(Debug, Clone)]
pub(crate) struct CurrentOverride {
    /// `None` if there is none.
    pub(crate) current: Option<(OverrideRecord, OverrideState)>,
    /// The version of all overrides.
    pub(crate) version: OverridesVersion,
}

impl OverrideRefusal {
    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            Self::NoOverride => StatusCode::NOT_FOUND,
            Self::NoPolicy
            | Self::CountsNothing
            | Self::NoStateDir
            | Self::OverridesOff
            | Self::TooManyOverrides => StatusCode::CONFLICT,
        }
    }
}
