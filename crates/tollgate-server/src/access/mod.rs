//! Who may do what: scopes, listeners that grant them, principals, and the callers of requests.

pub(crate) mod address;
pub(crate) mod authorization;
pub(crate) mod caller;
pub(crate) mod counted_series;
pub(crate) mod last_token;
pub(crate) mod listener;
pub(crate) mod peer;
pub(crate) mod principals;
pub(crate) mod scope;
pub(crate) mod token;
