//! Findings, for people and for programs.

use std::fmt;

use crate::address::Address;
use crate::advice::Advice;

/// The diagnosis of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Diagnosis {
    findings: Vec<Finding>,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
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
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns the worst of it.
    #[must_use]
    pub fn level(&self) -> Level {
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
    pub(super) fn of(self, server: &Address) -> Self {
        Self { found: format!("{server}: {}", self.found).into(), ..self }
    }

    /// Returns the severity.
    #[must_use]
    pub const fn level(&self) -> Level {
        self.level
    }

    /// Returns the code of the check. Stays the same in every version.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.code
    }

    /// Returns the finding, with the server's name.
    #[must_use]
    pub fn found(&self) -> &str {
        &self.found
    }

    /// Returns the advice.
    #[must_use]
    pub const fn advice(&self) -> Option<&Advice> {
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

/// A line for people: `warn  persistence  127.0.0.1:6379: ...`, and a second line with advice.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {:<12} {}", self.level.name(), self.code, self.found)?;
        match &self.advice {
            Some(advice) => write!(f, "\n      {:<12} {advice}", ""),
            None => Ok(()),
        }
    }
}
