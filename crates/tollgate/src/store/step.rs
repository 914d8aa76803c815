//! What is asked of a store.

use crate::{Charge, Counter, Mark};

/// One atomic step of a store.
///
/// Charges of one step on the same counter add up. A store answers a kind of step that it does not know with
/// [`StoreError::Uncountable`](crate::StoreError::Uncountable).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Step<'a> {
    /// Charges all or nothing. Only quotas that [count denied requests](crate::CountDenied::Yes) are charged by a
    /// denial. A charge of cost 0 takes nothing and is answered as cost 1 would be.
    Charge(&'a [Charge<'a>]),
    /// Answers as `Charge` would, and takes nothing.
    Peek(&'a [Charge<'a>]),
    /// Charges without asking for room: `used` may pass the limit, and saturates at 2^40 - 1.
    Record(Charge<'a>),
    /// Gives back the cost of the charge, to the counter as it was when it was charged: at most what is used, and
    /// nothing once its window has closed. The [units](crate::QuotaState::units) of the answer were given back.
    Refund {
        /// What to give back.
        charge: Charge<'a>,
        /// When it was charged, as the [state](crate::QuotaState::mark) said then.
        mark: Mark,
    },
    /// Forgets the counter: nothing is used, and a `first_hit` window is closed.
    Reset(Counter<'a>),
    /// Sets what is used in the current window, also above the limit; it saturates at 2^40 - 1.
    Set {
        /// The counter to set.
        counter: Counter<'a>,
        /// Units used from now on.
        used: u64,
    },
}
