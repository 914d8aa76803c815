//! The steps of a store.

use crate::{BlockCharge, Charge, Counter, Mark, Timestamp};

/// One atomic step of a store.
///
/// Charges of one step on the same counter add up. A store answers an unknown kind of step with
/// [`StoreError::Uncountable`](crate::StoreError::Uncountable).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Step<'a> {
    /// Charges all or nothing. A denial charges only quotas that [count denied requests](crate::CountDenied). Cost 0
    /// charges nothing and is answered like cost 1.
    Charge(&'a [Charge<'a>]),
    /// Charges as `Charge` does, if the store's time is before `end`. Otherwise it changes nothing, and fails with
    /// [`StoreError::Ended`](crate::StoreError::Ended), whatever the counters say and whatever the cost.
    ///
    /// The clock reading that decides on the charges is the one that is compared: in the millisecond before `end` they are
    /// counted, in that of `end` they are not. So limits that apply until some time apply exactly until then, even if the
    /// caller expects another time. A step without charges has no counter whose clock could be read, and is admitted.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Charge, Clock, Key, ManualClock, MemoryError, MemoryStore, PolicyQuota, Quota, Step};
    ///
    /// let clock = ManualClock::default();
    /// let store = MemoryStore::builder().clock(clock.clone()).build();
    /// let (quota, key) = (PolicyQuota::new("api", Quota::per_day(500)), Key::from("alice"));
    /// let end = clock.now() + Duration::from_secs(3_600);
    /// let charges = [Charge::new(&quota, &key, 1)];
    /// let charge = || store.take(Step::ChargeBefore { charges: &charges, end });
    ///
    /// clock.set(end - Duration::from_millis(1));
    /// assert!(charge()?.is_admitted());
    /// clock.set(end);
    /// assert_eq!(charge().unwrap_err(), MemoryError::Ended { now: end });
    /// assert_eq!(store.take(Step::Peek(&charges))?[0].used(), 1);
    /// # Ok::<(), MemoryError>(())
    /// ```
    ChargeBefore {
        /// The charges.
        charges: &'a [Charge<'a>],
        /// The first millisecond in which nothing is charged.
        end: Timestamp,
    },
    /// Answers as `Charge` would, but charges nothing.
    Peek(&'a [Charge<'a>]),
    /// Charges without asking for room: `used` may pass the limit, and saturates at 2^40 - 1.
    Record(Charge<'a>),
    /// Charges without asking for room, unless the key is blocked. If the limit is exceeded then, all used units move
    /// from the counter into a block, which begins now; the counter is reset. So a key that is blocked counts nothing.
    ///
    /// The answer has two states. The first is that of the counter. The second is that of the block: it has used units
    /// if and only if the key is blocked now, and its window ends with the block. Cost 0 charges nothing and begins no
    /// block, but needs the room that a unit would need.
    Block(BlockCharge<'a>),
    /// Gives back the cost of the charge to the window that was charged: at most the used units, and none once the
    /// window has closed. Of other kinds, it gives back what has not come back by itself. The answer has the
    /// [units](crate::QuotaState::units) that were given back.
    Refund {
        /// The charge to give back.
        charge: Charge<'a>,
        /// The [mark](crate::QuotaState::mark) of the charge.
        mark: Mark,
    },
    /// Resets the counter: nothing is used, and a `first_hit` window is closed.
    Reset(Counter<'a>),
    /// Sets the usage, which may be above the limit; it saturates at 2^40 - 1.
    Set {
        /// The counter to set.
        counter: Counter<'a>,
        /// Units used from now on.
        used: u64,
    },
}

impl Step<'_> {
    /// Returns whether the step changes no count, whatever its answer: a peek, or one of cost 0. If it fails, nothing
    /// was charged.
    #[must_use]
    pub fn changes_nothing(&self) -> bool {
        match self {
            Self::Peek(_) => true,
            Self::Charge(charges) | Self::ChargeBefore { charges, .. } => {
                charges.iter().all(|charge| charge.cost() == 0)
            }
            Self::Record(charge) | Self::Refund { charge, .. } => charge.cost() == 0,
            Self::Block(block) => block.charge().cost() == 0,
            Self::Reset(_) | Self::Set { .. } => false,
        }
    }
}
