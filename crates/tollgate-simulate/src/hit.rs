//! What is replayed.

use std::num::NonZeroUsize;

use tollgate::Timestamp;
use tollgate_policy::Attributes;

/// The longest value of an attribute, by default as in `tollgate serve`.
pub(crate) const MAX_ATTRIBUTE_BYTES: NonZeroUsize = NonZeroUsize::new(1_024).expect("it is not 0");

/// One request of the past.
#[derive(Clone)]
pub struct Hit<'a> {
    /// When it began.
    pub time: Timestamp,
    /// What the policies know of it. Only [the attributes that they go by](tollgate_policy::Policies::attributes) are
    /// needed, the [client](crate::Options::client) and those of classes.
    pub attributes: Attributes<'a>,
    /// The status that it was answered with.
    pub status: Option<u16>,
    /// The program that sent it, as it named itself. What is not UTF-8 is shown as U+FFFD.
    pub user_agent: Option<&'a [u8]>,
    /// The method, for routes.
    pub method: Option<&'a [u8]>,
    /// The requested path, for examples and routes. What is not UTF-8 is shown as U+FFFD.
    pub path: Option<&'a [u8]>,
    /// An attribute that decides, and is not UTF-8: the service refuses such a request, and does not count it.
    pub damaged: Option<&'a str>,
}

impl<'a> Hit<'a> {
    /// Creates a request with only the attributes for the policies.
    #[must_use]
    pub const fn new(time: Timestamp, attributes: Attributes<'a>) -> Self {
        Self { time, attributes, status: None, user_agent: None, method: None, path: None, damaged: None }
    }
}
