//! The answers of a store in the words of the rules: used units, windows, one time for all of them.

use tollgate::{Mark, PerQuota, QuotaState, Timestamp, Window};

/// The result of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepCounts {
    /// The time of the step; every quota of a step must agree on it.
    pub now: Timestamp,
    /// One count for each charge.
    pub counts: PerQuota<ChargeCount>,
}

/// The result of one charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChargeCount {
    /// Units used after the step.
    pub used: u64,
    /// The window that was counted.
    pub window: Window,
    /// Whether there was room.
    pub fits: bool,
    /// Units that the step took or gave back.
    pub units: u32,
}

/// The result of a refund in the window that it named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GivenBackUnits {
    /// Units given back.
    pub units: u32,
    /// Units still used.
    pub used: u64,
}

impl GivenBackUnits {
    /// Returns the result of a refund with this mark; `None` if its window is not the open one.
    ///
    /// # Panics
    ///
    /// If something was given back in another window.
    #[must_use]
    pub fn of(state: &QuotaState, mark: Mark) -> Option<Self> {
        let is_open = state.mark() == mark;
        assert!(is_open || state.units() == 0, "given back to another window than {mark:?}: {state:?}");
        is_open.then_some(Self { units: state.units(), used: state.used() })
    }
}

impl StepCounts {
    /// Returns whether every charge had room.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        self.counts.iter().all(|count| count.fits)
    }
}

impl From<tollgate::QuotaStates> for StepCounts {
    /// # Panics
    ///
    /// If the quotas of one step have different times.
    fn from(counted: tollgate::QuotaStates) -> Self {
        let now = counted.first().map(QuotaState::now);
        assert!(counted.iter().all(|quota| Some(quota.now()) == now), "one reading a step: {counted:?}");
        Self { now: now.unwrap_or(Timestamp::EPOCH), counts: counted.iter().map(ChargeCount::from).collect() }
    }
}

impl From<&QuotaState> for ChargeCount {
    fn from(quota: &QuotaState) -> Self {
        let window = quota.window().expect("a quota of fixed windows");
        Self { used: quota.used(), window, fits: quota.has_room(), units: quota.units() }
    }
}
