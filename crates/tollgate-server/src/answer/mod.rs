//! What HTTP and gRPC answer alike: rejections, and a header of decisions.

pub(crate) mod override_refusal;
pub(crate) mod rejection;
pub(crate) mod rejection_kind;
pub(crate) mod sealed_hold;
pub(crate) mod trials_header;
