//! Callers: a key under a quota, with shorthand for every step of a store.

use tollgate::{Charge, Counter, Decision, Key, Mark, PolicyQuota, Timestamp, Window};

use crate::{ChargeCount, GivenBackUnits, StepCounts, StoreSteps, StoreUnderTest};

/// A key under a quota. The store must answer: an error is a failed test.
#[derive(Debug)]
pub struct CounterUnderTest<'a, S> {
    subject: &'a S,
    quota: &'a PolicyQuota,
    key: Key<'static>,
}

impl<'a, S: StoreUnderTest> CounterUnderTest<'a, S> {
    /// Creates a caller with this key under this quota.
    pub fn new<'k>(subject: &'a S, quota: &'a PolicyQuota, key: impl Into<Key<'k>>) -> Self {
        Self { subject, quota, key: key.into().into_owned() }
    }

    /// The store under test, and its time.
    #[must_use]
    pub const fn subject(&self) -> &'a S {
        self.subject
    }

    /// The key.
    #[must_use]
    pub const fn key(&self) -> &Key<'static> {
        &self.key
    }

    /// The same key under another quota.
    #[must_use]
    pub fn under(&self, quota: &'a PolicyQuota) -> Self {
        Self { subject: self.subject, quota, key: self.key.clone() }
    }

    /// Returns a charge for use in a step.
    #[must_use]
    pub const fn charge(&self, cost: u32) -> Charge<'_> {
        Charge::new(self.quota, &self.key, cost)
    }

    /// Charges this many units, and returns the decision.
    pub async fn takes(&self, cost: u32) -> Decision<'static> {
        decide(self.subject, &[self.charge(cost)]).await
    }

    /// Charges this many units, and returns what the store counted.
    pub async fn counts(&self, cost: u32) -> StepCounts {
        self.subject.store().charge(&[self.charge(cost)]).await.expect("the store answers").into()
    }

    /// Checks whether a unit would pass, without taking it.
    pub async fn peeks(&self) -> Decision<'static> {
        let charges = [self.charge(1)];
        let counted = self.subject.store().peek(&charges).await.expect("the store answers");
        Decision::of_charges(&charges, counted).expect("a state for each charge").into_owned()
    }

    /// Returns the usage now.
    pub async fn used(&self) -> u64 {
        self.peeks().await.used()
    }

    /// Records this many units, room or not.
    pub async fn records(&self, cost: u32) -> ChargeCount {
        (&self.subject.store().record(&self.charge(cost)).await.expect("the store answers")).into()
    }

    /// Refunds this many units in the window that began at `start`; `None` if that is not the open one.
    pub async fn refunds(&self, cost: u32, start: Timestamp) -> Option<GivenBackUnits> {
        let mark = Mark::at(start);
        let state = self.subject.store().refund(&self.charge(cost), mark).await.expect("the store answers");
        GivenBackUnits::of(&state, mark)
    }

    /// Resets the counter.
    pub async fn resets(&self) -> ChargeCount {
        let counter = Counter::new(self.quota, &self.key);
        (&self.subject.store().reset(&counter).await.expect("the store answers")).into()
    }

    /// Sets the usage.
    pub async fn sets(&self, used: u64) -> ChargeCount {
        let counter = Counter::new(self.quota, &self.key);
        (&self.subject.store().set(&counter, used).await.expect("the store answers")).into()
    }

    /// Takes the whole limit at once, and returns the window that is now full.
    pub async fn fills(&self) -> Window {
        let limit = u32::try_from(self.quota.quota().limit()).expect("a limit that one cost can reach");
        let counted = self.counts(limit).await;
        assert!(counted.is_admitted(), "a fresh counter has room for its limit: {counted:?}");
        counted.counts[0].window
    }
}

/// Takes one step and decides by its answer.
pub(crate) async fn decide(subject: &impl StoreUnderTest, charges: &[Charge<'_>]) -> Decision<'static> {
    let counted = subject.store().charge(charges).await.expect("the store answers");
    Decision::of_charges(charges, counted).expect("a state for each charge").into_owned()
}
