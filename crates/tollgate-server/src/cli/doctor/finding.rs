//! Findings, for people and for programs.

use tollgate_redis::{Advice, StoreServer};

/// The diagnosis of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Diagnosis {
    findings: Vec<Finding>,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    level: Level,
    code: &'static str,
    found: Box<str>,
    advice: Option<Advice>,
}

/// The severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// No problem.
    Pass,
    /// It counts, but in some circumstances wrongly.
    Warn,
    /// It does not count, or not exactly.
    Fail,
}

impl Diagnosis {
    pub(super) fn new(findings: Vec<Finding>) -> Self {
        Self { findings }
    }

    /// The findings, in the order of the checks.
    pub(super) fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns the worst of it.
    pub(super) fn level(&self) -> Level {
        self.findings.iter().map(Finding::level).max().unwrap_or(Level::Fail)
    }
}

impl Finding {
    pub(super) fn pass(code: &'static str, found: impl Into<Box<str>>) -> Self {
        Self { level: Level::Pass, code, found: found.into(), advice: None }
    }

    pub(super) fn warn(code: &'static str, found: impl Into<Box<str>>, advice: impl Into<Advice>) -> Self {
        Self { level: Level::Warn, code, found: found.into(), advice: Some(advice.into()) }
    }

    pub(super) fn fail(code: &'static str, found: impl Into<Box<str>>, advice: impl Into<Advice>) -> Self {
        Self { level: Level::Fail, code, found: found.into(), advice: Some(advice.into()) }
    }

    /// Adds the name of the server.
    pub(super) fn of(self, server: &StoreServer) -> Self {
        Self { found: format!("{}: {}", server.name(), self.found).into(), ..self }
    }

    /// Returns the severity.
    pub(super) const fn level(&self) -> Level {
        self.level
    }

    /// Returns the code of the check. Stays the same in every version.
    pub(super) const fn code(&self) -> &'static str {
        self.code
    }

    /// Returns the finding, with the server's name.
    pub(super) fn found(&self) -> &str {
        &self.found
    }

    /// Returns the advice.
    pub(super) const fn advice(&self) -> Option<&Advice> {
        self.advice.as_ref()
    }
}

impl Level {
    /// Returns its name in output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}
