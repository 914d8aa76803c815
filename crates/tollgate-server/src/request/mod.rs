//! What requests say, before anybody decides: JSON with exact errors, and attributes within limits.

pub(crate) mod attributes;
pub(crate) mod json;
