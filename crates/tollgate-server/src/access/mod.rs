//! Who may do what: scopes, listeners that grant them, principals, and the callers of requests.

pub(crate) mod caller;
pub(crate) mod listener;
pub(crate) mod principals;
pub(crate) mod scope;
