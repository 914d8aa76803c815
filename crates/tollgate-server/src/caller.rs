//! Who asks: what a connection proves of its peer, and what a request's caller may touch.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use tollgate_policy::{Attributes, Policy};

use crate::principals::LastToken;

/// What is known of the other end of a connection.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    /// The subject alternative names of the client certificate that the connection was opened with, once it is
    /// verified; none without one. Names of hosts are in lower case and addresses in their canonical form, and a name
    /// of one kind never reads like one of another.
    pub(crate) names: Box<[Box<str>]>,
    /// The token that it has shown last.
    pub(crate) last_token: LastToken,
}

/// The caller of a request that was let in, and the policies that it may touch: these, or all.
#[derive(Debug, Clone, Default)]
pub(crate) struct Caller {
    policies: Option<Arc<BTreeSet<Box<str>>>>,
}

/// The attributes of a request, and the policies that its caller may touch. The engine takes nothing else, so that no
/// operation can forget the caller.
pub(crate) struct CallerAttributes<'a>(Attributes<'a>);

/// The caller asks for what concerns a policy that it may not touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OtherPolicy;

impl Caller {
    pub(crate) fn new(policies: Option<Arc<BTreeSet<Box<str>>>>) -> Self {
        Self { policies }
    }

    /// What the caller asks about.
    pub(crate) fn asks<'a>(&'a self, attributes: Attributes<'a>) -> CallerAttributes<'a> {
        CallerAttributes(match self.policies.as_deref() {
            Some(policies) => attributes.within(policies),
            None => attributes,
        })
    }

    /// Whether the caller may touch this policy, or the limits of a caller that are counted under its name.
    pub(crate) fn may_touch(&self, policy: &str) -> bool {
        self.policies.as_ref().is_none_or(|policies| policies.contains(Policy::base_name(policy)))
    }

    /// That the caller may touch all policies.
    ///
    /// # Errors
    ///
    /// If it may touch some of them only.
    pub(crate) fn may_touch_all(&self) -> Result<(), OtherPolicy> {
        if self.policies.is_none() { Ok(()) } else { Err(OtherPolicy) }
    }
}

impl<'a> CallerAttributes<'a> {
    pub(crate) const fn as_attributes(&self) -> &Attributes<'a> {
        &self.0
    }
}

/// Without the attributes, which often are persons or secrets.
impl fmt::Debug for CallerAttributes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallerAttributes").finish_non_exhaustive()
    }
}
