//! Holds with an id of one key, with shorthand for every step on them.

use std::time::Duration;

use tollgate::{
    Charge, HoldAdjustment, HoldAnswer, HoldId, HoldLength, HoldStates, HoldStep, HoldTerms, InFlightCharge,
    Key, PolicyInFlight, PolicyQuota, Store, StoreError, Timestamp,
};

use crate::StoreUnderTest;

/// What the holds of a test are for: limits in flight and quotas, all for one key. The store must answer: an error is a
/// failed test.
#[derive(Debug)]
pub struct HoldsUnderTest<'a, S> {
    subject: &'a S,
    in_flight: Vec<PolicyInFlight>,
    quotas: Vec<PolicyQuota>,
    key: Key<'static>,
    length: HoldLength,
    end: Option<Timestamp>,
}

/// One hold: its id, the units that each limit in flight is asked for, and the cost that each quota is charged.
#[derive(Debug, Clone, Copy)]
pub struct TestedHold {
    /// The id.
    pub id: HoldId,
    /// Units in flight.
    pub units: u32,
    /// The cost.
    pub cost: u32,
}

/// A step on a hold.
#[derive(Debug, Clone, Copy)]
pub enum TestedStep<'s> {
    /// See [`HoldStep::Reserve`].
    Reserve,
    /// See [`HoldStep::Look`].
    Look,
    /// See [`HoldStep::Renew`].
    Renew,
    /// See [`HoldStep::Settle`].
    Settle(&'s [HoldAdjustment]),
}

impl TestedHold {
    /// Creates one with a new id.
    #[must_use]
    pub fn new(units: u32, cost: u32) -> Self {
        Self { id: HoldId::random(), units, cost }
    }
}

impl<'a, S: StoreUnderTest> HoldsUnderTest<'a, S> {
    /// Creates the holds of the key `alice`, which live for the default length.
    pub fn new(subject: &'a S, in_flight: &[PolicyInFlight], quotas: &[PolicyQuota]) -> Self {
        let (in_flight, quotas) = (in_flight.to_vec(), quotas.to_vec());
        Self { subject, in_flight, quotas, key: "alice".into(), length: HoldLength::default(), end: None }
    }

    /// Sets the length of all holds.
    ///
    /// # Panics
    ///
    /// If no hold can live so long.
    #[must_use]
    pub fn with_length(self, length: Duration) -> Self {
        Self { length: HoldLength::new(length).expect("a length"), ..self }
    }

    /// Lets holds be reserved [before](HoldTerms::before) the end alone.
    #[must_use]
    pub fn with_end(self, end: Timestamp) -> Self {
        Self { end: Some(end), ..self }
    }

    /// Sets the key.
    #[must_use]
    pub fn with_key(self, key: &str) -> Self {
        Self { key: Key::from(key).into_owned(), ..self }
    }

    /// Takes a step on a hold.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn try_step(&self, hold: TestedHold, step: TestedStep<'_>) -> Result<HoldAnswer, StoreError> {
        let in_flight: Vec<_> =
            self.in_flight.iter().map(|limit| InFlightCharge::new(limit, &self.key, hold.units)).collect();
        let charges: Vec<_> =
            self.quotas.iter().map(|quota| Charge::new(quota, &self.key, hold.cost)).collect();
        let terms = HoldTerms::new(hold.id, &in_flight, &charges, self.length);
        let terms = self.end.map_or(terms, |end| terms.before(end));
        let step = match step {
            TestedStep::Reserve => HoldStep::Reserve(terms),
            TestedStep::Look => HoldStep::Look(terms),
            TestedStep::Renew => HoldStep::Renew(terms),
            TestedStep::Settle(adjustments) => HoldStep::Settle(terms, adjustments),
        };
        self.subject.store().hold_until(step, None).await
    }

    /// Reserves.
    pub async fn asks(&self, hold: TestedHold) -> HoldAnswer {
        self.try_step(hold, TestedStep::Reserve).await.expect("the store answers")
    }

    /// Reserves with an id that the store does not know, or knows for this.
    pub async fn reserves(&self, hold: TestedHold) -> HoldStates {
        decided(self.asks(hold).await)
    }

    /// Reserves a new hold, which is admitted.
    pub async fn takes(&self, units: u32, cost: u32) -> TestedHold {
        let hold = TestedHold::new(units, cost);
        let states = self.reserves(hold).await;
        assert!(states.is_admitted() && !states.is_repeated(), "{states:?}");
        hold
    }

    /// Answers as a reservation would.
    pub async fn looks(&self, units: u32, cost: u32) -> HoldStates {
        let answer = self.try_step(TestedHold::new(units, cost), TestedStep::Look).await;
        decided(answer.expect("the store answers"))
    }

    /// Renews.
    pub async fn renews(&self, hold: TestedHold) -> HoldAnswer {
        self.try_step(hold, TestedStep::Renew).await.expect("the store answers")
    }

    /// Settles, with an adjustment for each quota.
    pub async fn settles(&self, hold: TestedHold, adjustments: &[HoldAdjustment]) -> HoldAnswer {
        self.try_step(hold, TestedStep::Settle(adjustments)).await.expect("the store answers")
    }

    /// Ends the hold at what it was charged.
    pub async fn ends(&self, hold: TestedHold) {
        let keep = vec![HoldAdjustment::Keep; self.quotas.len()];
        let answer = self.settles(hold, &keep).await;
        assert!(matches!(answer, HoldAnswer::Settled(_)), "{answer:?}");
    }

    /// Forgets the units of the first limit in flight, and returns how many it had.
    pub async fn resets(&self) -> u32 {
        let reset = HoldStep::Reset(InFlightCharge::new(&self.in_flight[0], &self.key, 0));
        match self.subject.store().hold_until(reset, None).await.expect("the store answers") {
            HoldAnswer::Forgotten { units } => units,
            other => panic!("the answer to a reset: {other:?}"),
        }
    }

    /// Returns the live units of each limit in flight.
    pub async fn live(&self) -> Vec<u32> {
        self.looks(0, 0).await.in_flight().iter().map(|state| state.live()).collect()
    }

    /// Returns the usage of each quota.
    pub async fn used(&self) -> Vec<u64> {
        self.looks(0, 0).await.charged().iter().map(|state| state.used()).collect()
    }

    /// Returns how long a hold lives.
    #[must_use]
    pub fn length(&self) -> Duration {
        let own = self.in_flight.iter().filter_map(|limit| limit.in_flight().length());
        own.fold(self.length, HoldLength::min).duration()
    }
}

fn decided(answer: HoldAnswer) -> HoldStates {
    let HoldAnswer::Decided(states) = answer else { panic!("no decision, but {answer:?}") };
    states
}
