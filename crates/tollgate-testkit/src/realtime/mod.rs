//! An oracle for limits on the real clock: did any window of a key admit more than its limit?
//!
//! A course charges many keys around the ends of their windows while new keys keep the table busy, and a separate
//! ledger judges every answer. The ledger shares nothing with the limiter: it has its own clock, its own window
//! arithmetic and its own counts. It uses the content of each answer, and the clock readings before and after each
//! call:
//!
//! | promise | by the windows in the answers | by the clock |
//! |---|---|---|
//! | G1 | no window admits more than the limit | no window admits more than the limit, counting only calls that are
//! certainly inside it |
//! | G2 | a window that denies has admitted its limit | |
//! | G3 | | no interval as long as a window admits more than twice the limit |
//! | rule 1, rule 2 | windows have their length and their place, and do not overlap | they contain the time of the call
//! |
//! | rule 10 | clients that wait as told are not denied by the same window | no window denies once it is over |
//!
//! Buckets, sliding windows and logs have no such windows. Of them, no time admits more than the bound of its kind (G3),
//! and the [ledger of admissions](crate::kinds::AdmissionLedger) must deny too where they deny (G2, rule 10).
//!
//! A call is judged only by what its readings prove. On a machine that stands still, readings are far apart and prove
//! little, so a slow machine never fails a proof.

mod answer;
mod clock;
mod edge_load;
mod figures;
mod ledger;
mod load_run;
mod load_target;
mod terms;
mod track;

pub use self::answer::{LoadedKey, QuotaAnswer, UnitAnswer};
pub use self::clock::{Allowance, ClockReading, Nanos, RealClock};
pub use self::figures::OracleFigures;
pub use self::ledger::Ledger;
pub use self::load_run::LoadRun;
pub use self::load_target::{LoadClient, LoadTarget};
pub use self::terms::{Group, LoadPlan, Start, Terms};

/// Returns how long a proof runs in all: `TOLLGATE_SECONDS`, or half a minute.
///
/// # Panics
///
/// If the variable is not a number.
#[must_use]
pub fn seconds() -> u64 {
    let text = std::env::var("TOLLGATE_SECONDS").unwrap_or_else(|_| "30".to_owned());
    text.parse().unwrap_or_else(|_| panic!("TOLLGATE_SECONDS has to be a number and is {text:?}"))
}
