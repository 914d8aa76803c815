//! What is replayed.

use tollgate::Timestamp;
use tollgate_policy::Attributes;

/// One request of the past.
#[derive(Clone)]
pub struct Hit<'a> {
    /// When it began.
    pub time: Timestamp,
    /// What the policies know of it. Only [the attributes that they go by](tollgate_policy::Policies::attributes) are needed,
    /// the [client](crate::Options::client) and those of classes.
    pub attributes: Attributes<'a>,
    /// The status that it was answered with.
    pub status: Option<u16>,
    /// The program that made it, as it called itself.
    pub user_agent: Option<&'a str>,
    /// The path that it asked for, for examples.
    pub path: Option<&'a str>,
    /// An attribute that decides, and is not UTF-8: the service refuses such a request, and does not count it.
    pub damaged: Option<&'a str>,
}

impl<'a> Hit<'a> {
    /// A request with nothing but what the policies know of it.
    #[must_use]
    pub const fn new(time: Timestamp, attributes: Attributes<'a>) -> Self {
        Self { time, attributes, status: None, user_agent: None, path: None, damaged: None }
    }
}
