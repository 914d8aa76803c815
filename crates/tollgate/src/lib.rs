//! Exact rate limiting: may this key do this now?
//!
//! A [`Quota`] counts in fixed windows, in a sliding window, in a bucket, or in a log. Each key has its own counter, and
//! one atomic step counts and decides. At five requests a minute, the sixth is denied, with the exact time to wait.
//!
//! ```
//! use tollgate::{Limiter, Quota};
//!
//! let limiter = Limiter::new(Quota::per_minute(5));
//! let decision = limiter.check("alice")?;
//! if decision.is_allowed() {
//!     // go on
//! }
//! # Ok::<(), tollgate::Full>(())
//! ```
//!
//! The limiter in this program counts in memory. These crates build on it:
//!
//! | Crate | Adds |
//! |---|---|
//! | `tollgate-redis` | counters in Redis or Valkey, shared between processes, for a [`SharedLimiter`] |
//! | `tollgate-tower` | a layer for axum, hyper, tonic and other tower services |
//! | `tollgate-policy` | many limits in one YAML file, with overrides and trials |
//!
//! The [`guide`] continues with costs, several quotas, refunds, waiting, and tests. The manual in `docs/` of the
//! repository has the exact promises (`semantics.md`), the figures (`performance.md`), advice on the kind of a quota
//! (`choosing.md`), and on when to use something else (`comparison.md`). A request passes through these types:
//!
//! ```text
//! (Quota, Key, cost) = Charge ──▶ Store ──▶ QuotaStates ──▶ Decision ──▶ Receipt
//!                                 one step,  used,           pure         what can be
//!                                 one clock  window,         function     given back
//!                                 reading    now
//! ```
//!
//! # Features
//!
//! No feature is on by default, and none changes another.
//!
//! | Feature | Adds |
//! |---|---|
//! | `calendar` | days, weeks, months and years in a time zone |
//! | `serde` | quotas as strings in configuration |
//! | `testing` | for your own tests: a limiter with a clock that stands still, a store that never denies, and assertions |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod block;
pub mod blocking;
mod charge;
mod clock;
mod decision;
mod fallback;
mod freed;
pub mod guide;
mod hold;
mod in_flight;
mod keeper;
mod key;
pub mod kind;
mod limiter;
mod memory;
mod quota;
mod quota_state;
mod receipt;
mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod timestamp;
mod waiters;
mod window;

pub use self::block::{BlockCharge, BlockQuota};
pub use self::charge::{Charge, CountDenied, Counter, PolicyQuota};
pub use self::clock::{Clock, ManualClock, SystemClock};
pub use self::decision::{Decision, Source, Verdict, whole_seconds};
pub use self::fallback::{FallbackStore, LocalShare, LocalShareError, OnStoreFailure};
pub use self::hold::{
    HoldAdjustment, HoldAnswer, HoldId, HoldLength, HoldPlace, HoldStates, HoldStep, HoldTerms,
    InFlightCharge, SettledStates,
};
pub use self::in_flight::{InFlight, InFlightState, PolicyInFlight};
pub use self::keeper::{HoldEnding, HoldKeeper, KeeperFuture, KeptHold, RenewableHold};
pub use self::key::Key;
pub use self::kind::Mark;
pub use self::limiter::{
    Hold, HoldDecision, HoldLimiter, InFlightLimiter, Limiter, LimiterBuilder, QuotaView, Reservation,
    SharedHold, SharedHoldDecision, SharedLimiter,
};

pub use self::memory::{MemoryStore, MemoryStoreBuilder, NamedCounter};
pub use self::quota::{Anchor, CalendarUnit, Quota, QuotaError, QuotaErrorKind, QuotaKind, WindowLength};
pub use self::quota_state::{QuotaState, Reason};
pub use self::receipt::{Receipt, ReceiptError, ReceiptItem};
pub use self::store::{
    Answer, AnswerError, AnyStore, Full, MemoryError, PerQuota, QuotaStates, Step, StepDeadline, Store,
    StoreError, Waiting,
};
pub use self::timestamp::Timestamp;
pub use self::waiters::{BlockingTimer, HoldSource, HoldWaiters, WaitError, Waiters};
pub use self::window::Window;

/// The folder of the manual in the repository, for messages that refer to a page of it.
#[doc(hidden)]
pub const MANUAL: &str = "docs";
