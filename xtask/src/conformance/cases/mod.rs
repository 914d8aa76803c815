//! The cases, in the order of the rules that they play.

mod addresses;
mod answers;
mod failures;
mod holds;
mod requests;
mod time;
mod waiting;

use super::difference::CaseOutcome;
use super::stage::Stage;

/// A case: what it plays, and the rules of `docs/clients.md` that it plays.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConformanceCase {
    pub(super) name: &'static str,
    pub(super) rules: &'static [u8],
    /// What the case does and expects, for the page.
    pub(super) plays: &'static str,
    pub(super) play: fn(&mut Stage<'_>) -> CaseOutcome,
}

/// Returns all cases.
pub(super) fn all() -> Vec<ConformanceCase> {
    [
        addresses::CASES,
        requests::CASES,
        answers::CASES,
        time::CASES,
        failures::CASES,
        holds::CASES,
        waiting::CASES,
    ]
    .concat()
}
