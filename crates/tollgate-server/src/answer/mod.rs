//! What HTTP and gRPC answer alike: the headers of decisions.

pub(crate) mod trials_header;
