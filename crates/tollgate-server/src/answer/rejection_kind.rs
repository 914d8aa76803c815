//! The kinds of rejections, each with its status in metrics.

use http::StatusCode;

use super::override_refusal::OverrideRefusal;

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RejectionKind {
    /// The request is invalid.
    Invalid,
    /// The caller is unknown.
    Unauthenticated,
    /// The caller may not do this.
    Forbidden,
    /// The service has no such thing.
    NotFound,
    /// The path has other methods.
    MethodNotAllowed,
    /// The request did not arrive in time.
    SlowRequest,
    /// The request names something that is not there, or no longer.
    Conflict,
    /// The id belongs to another hold.
    IdConflict,
    /// The id belongs to a hold that was settled.
    HoldEnded,
    /// The request needs a hold, which this operation cannot end.
    NeedsHold,
    TooLarge,
    /// The caller counts under too many names.
    TooManyNames,
    /// The live page is asked for too often.
    TooManyViewers,
    /// The body has the wrong type, or is compressed.
    WrongMediaType,
    /// The message breaks its protocol.
    BrokenMessage,
    /// A file that is to be reloaded is invalid.
    InvalidFile,
    /// The protocol or the service lacks what the call asks for.
    Unimplemented,
    /// The client no longer waits.
    DeadlinePassed,
    /// The service has no room, or is about to stop.
    Unavailable,
    /// The store has no room for another counter.
    StoreFull,
    /// The store cannot answer, and nothing was counted.
    StoreUnavailable,
    /// The store failed, and whether it counted is unknown.
    OutcomeUnknown,
    /// The store can never count the request.
    Uncountable,
    /// The request is about an override that is not there, or that there cannot be.
    Override(OverrideRefusal),
}

impl RejectionKind {
    /// Returns the status under which every protocol counts it in metrics, and which HTTP answers.
    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::Invalid | Self::NeedsHold => StatusCode::BAD_REQUEST,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::SlowRequest => StatusCode::REQUEST_TIMEOUT,
            Self::Conflict | Self::IdConflict | Self::HoldEnded => StatusCode::CONFLICT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooManyNames | Self::TooManyViewers => StatusCode::TOO_MANY_REQUESTS,
            Self::WrongMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::BrokenMessage | Self::InvalidFile => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Unimplemented => StatusCode::NOT_IMPLEMENTED,
            Self::DeadlinePassed => StatusCode::GATEWAY_TIMEOUT,
            Self::Unavailable | Self::StoreFull | Self::StoreUnavailable | Self::OutcomeUnknown => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            // Not 503, which invites clients and proxies to retry.
            Self::Uncountable => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Override(refusal) => refusal.status(),
        }
    }

    /// Returns whether the request or its caller is at fault, so that the same request fails again.
    pub(crate) const fn is_of_caller(self) -> bool {
        match self {
            Self::Invalid
            | Self::Unauthenticated
            | Self::Forbidden
            | Self::NotFound
            | Self::MethodNotAllowed
            | Self::Conflict
            | Self::IdConflict
            | Self::HoldEnded
            | Self::NeedsHold
            | Self::TooLarge
            | Self::WrongMediaType
            | Self::BrokenMessage
            | Self::InvalidFile
            | Self::Unimplemented
            | Self::Override(_) => true,
            Self::SlowRequest
            | Self::TooManyNames
            | Self::TooManyViewers
            | Self::DeadlinePassed
            | Self::Unavailable
            | Self::StoreFull
            | Self::StoreUnavailable
            | Self::OutcomeUnknown
            | Self::Uncountable => false,
        }
    }
}
