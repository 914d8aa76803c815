//! Problems of policies, beyond those of any file.

use thiserror::Error;
use tollgate::{LocalShareError, QuotaError, QuotaErrorKind};
use tollgate_yaml::{FilePlace, Position, ProblemKind, Problems};

use crate::{Attributes, ExpressionError, HeaderFormatsError, NetworkError};

/// A setting of a policy that is not valid. The fault of the file's author. The message shows what to write instead.
#[derive(Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PolicyProblem {
    /// `count_denied` in a policy with `overdraft`.
    #[error("remove `count_denied`: a policy with `overdraft` charges every request")]
    CountDeniedOfOverdraft,
    /// An invalid quota.
    #[error(transparent)]
    Quota(QuotaError),
    /// Windows that are not valid, as they are written.
    #[error("windows `{0}`: {1}")]
    Windows(Box<str>, QuotaErrorKind),
    /// Header formats that cannot be sent together.
    #[error(transparent)]
    HeaderFormats(HeaderFormatsError),
    /// Two quotas that would count the same units on the same counter.
    #[error("{second} has the same window as {first}: keep one of them")]
    SameWindow {
        /// The first quota, as written if it has variables.
        first: Box<str>,
        /// The quota that repeats its window, likewise.
        second: Box<str>,
    },
    /// Two limits in flight in one list.
    #[error("a policy has one limit in flight, and the first is at {first}: keep one of them")]
    SecondInFlight {
        /// The place of the first one.
        first: Position,
    },
    /// A limit in flight with its limit from an attribute.
    #[error("no attribute can set a limit in flight: write the limit itself, such as 20~in_flight")]
    InFlightOfAttribute,
    /// A denial charges something next to a limit in flight.
    #[error("remove `{0}`: a denial cannot charge the units in flight that this policy limits")]
    DenialsInFlight(&'static str),
    /// An invalid network.
    #[error("network `{0}`: {1}")]
    Network(Box<str>, NetworkError),
    /// An invalid share.
    #[error("`{0}`: {1}")]
    LocalShare(Box<str>, LocalShareError),
    /// `on_store_failure: local` without a share.
    #[error("`on_store_failure: local` needs `local_share`, such as 1/3 for one of three processes")]
    MissingShare,
    /// A share without `on_store_failure: local`.
    #[error("`local_share` is only valid with `on_store_failure: local`")]
    NeedlessShare,
    /// A name that a policy cannot have.
    #[error("a policy's name has 1 to 64 letters, digits, `-`, `_` and `.`")]
    PolicyName,
    /// Two policies of one name.
    #[error(
        "duplicate policy name `{name}`, already used in {first}: counters and metrics identify policies by name"
    )]
    DuplicatePolicy {
        /// The name as written.
        name: Box<str>,
        /// Its first place.
        first: FilePlace,
    },
    /// An attribute's name that no request can have.
    #[error("an attribute's name has 1 to {} characters", Attributes::MAX_NAME)]
    AttributeName,
    /// The same part twice in one key.
    #[error("duplicate part of the key, already given at {first}")]
    RepeatedIdentity {
        /// Its first place.
        first: Position,
    },
    /// A tier that the file does not have.
    #[error("there is no tier `{0}`: `tiers` has the quotas of each")]
    UnknownTier(Box<str>),
    /// An invalid line of a table.
    #[error("expected a value, a comma and quotas, such as acme,10/1s,1000/1h")]
    TableLine,
    /// A regular expression that cannot be used.
    #[error(transparent)]
    Expression(ExpressionError),
    /// More regular expressions than files may have.
    #[error("the files have more than {MAX_EXPRESSIONS} regular expressions")]
    TooManyExpressions,
    /// A cost whose minimum is above its maximum.
    #[error("`min` is above `max`, so no cost would be valid")]
    CostRange,
    /// A limit for a missing attribute that is above the maximum.
    #[error("`on_missing` must not be above `max`")]
    LimitRange,
    /// A condition that is only a variable, which is empty.
    #[error("the variable is empty, so the test would match more than intended")]
    EmptyVariable,
    /// A `*` or `?` of a variable among others that are written.
    #[error(
        "the value of the variable contains `*` or `?`, which would be read as wildcards like those written here"
    )]
    SpecialVariable,
    /// A test for presence or absence that is `false`.
    #[error("expected `true`: write `{0}: true` for the opposite")]
    Opposite(&'static str),
    /// A prefix that every text has.
    #[error("an empty prefix matches every text: write \"*\" if that is what you mean")]
    EmptyPrefix,
}

/// Regular expressions in files that are read together. The compiled size of each has a separate bound.
const MAX_EXPRESSIONS: usize = 1_000;

/// Counts an expression, before it is compiled.
pub(crate) fn count_expression(problems: &mut Problems) -> Result<(), PolicyProblem> {
    if problems.count_costly() > MAX_EXPRESSIONS { Err(PolicyProblem::TooManyExpressions) } else { Ok(()) }
}

impl From<PolicyProblem> for ProblemKind {
    fn from(problem: PolicyProblem) -> Self {
        Self::specific(problem)
    }
}
