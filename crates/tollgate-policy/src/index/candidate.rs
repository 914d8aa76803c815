//! A policy that may match.

/// The number of a policy, and whether its conditions have still to be tried.
///
/// In order of the numbers; of one number the sure one comes first, so that it is kept where duplicates go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate {
    number: u32,
    is_doubtful: bool,
}

impl Candidate {
    pub(super) const fn new(number: u32, is_sure: bool) -> Self {
        Self { number, is_doubtful: !is_sure }
    }

    /// Creates a candidate that matches: it has no conditions other than the one that found it.
    pub(crate) const fn sure(number: u32) -> Self {
        Self::new(number, true)
    }

    /// Creates a candidate whose conditions must still be tested.
    pub(super) const fn doubtful(number: u32) -> Self {
        Self::new(number, false)
    }

    pub(crate) const fn number(self) -> u32 {
        self.number
    }

    pub(crate) const fn is_sure(self) -> bool {
        !self.is_doubtful
    }
}
