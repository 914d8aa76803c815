//! What a client did differently from the contract.

use std::fmt;

/// How many characters of a difference are printed.
const MAX_SHOWN: usize = 600;

/// A difference from the contract. It ends a case.
#[derive(Debug)]
pub(super) struct Difference {
    text: String,
    kind: DifferenceKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DifferenceKind {
    Wrong,
    /// Something came later than it should. A busy machine can cause this as well.
    Late,
}

/// The result of a case or of a part of it.
pub(super) type CaseOutcome<T = ()> = Result<T, Difference>;

impl Difference {
    pub(super) fn wrong(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: DifferenceKind::Wrong }
    }

    pub(super) fn late(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: DifferenceKind::Late }
    }

    /// Whether a busy machine may be the cause, so that the case is worth repeating.
    pub(super) fn is_late(&self) -> bool {
        self.kind == DifferenceKind::Late
    }

    /// Says which part of a case it belongs to.
    pub(super) fn within(self, part: &str) -> Self {
        Self { text: format!("{part}: {}", self.text), ..self }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Bodies can be long.
        let mut shown = self.text.chars();
        f.write_str(&shown.by_ref().take(MAX_SHOWN).collect::<String>())?;
        if shown.next().is_some() { f.write_str("...") } else { Ok(()) }
    }
}

impl From<anyhow::Error> for Difference {
    fn from(error: anyhow::Error) -> Self {
        Self::wrong(format!("{error:#}"))
    }
}

/// Returns an error with this text unless the condition holds.
pub(super) fn expect(condition: bool, text: impl FnOnce() -> String) -> CaseOutcome {
    if condition { Ok(()) } else { Err(Difference::wrong(text())) }
}
