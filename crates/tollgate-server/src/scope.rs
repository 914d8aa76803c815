//! What a caller may do: the scopes that operations need and listeners grant.

/// A group of operations that are granted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Takes units for the caller's own requests.
    Check,
    /// Looks at the counters of the caller's own requests.
    Peek,
    /// Changes counters: refund, reset, set, record.
    Change,
    /// Reads policies, metrics and the description of the service.
    Read,
    /// Sees identities in plain, where a view shows them.
    Keys,
    /// Has the policies read again.
    Policies,
}

/// A set of scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scopes(u8);

impl Scopes {
    pub(crate) const fn of<const N: usize>(scopes: [Scope; N]) -> Self {
        let (mut set, mut index) = (0, 0);
        while index < N {
            set |= 1 << scopes[index] as u8;
            index += 1;
        }
        Self(set)
    }

    pub(crate) const fn has(self, scope: Scope) -> bool {
        self.0 & (1 << scope as u8) != 0
    }
}

impl Scope {
    /// Whether a web page must not reach it with a browser's help: its page is of another site, and the browser is
    /// inside the operator's network.
    pub(crate) const fn is_guarded(self) -> bool {
        matches!(self, Self::Change | Self::Read | Self::Keys | Self::Policies)
    }
}
