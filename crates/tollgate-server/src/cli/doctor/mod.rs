//! `tollgate doctor`: finds the problems of a shared store, and shows how to fix them; or compares the replicas of a
//! service.

mod advice;
mod ask;
mod counters;
mod examine;
mod finding;
mod fleet;
mod overrides;
mod server;

use std::fmt::Write as _;

use serde::Serialize;
use tollgate::MANUAL;
use tollgate_policy::Printable;

pub use self::finding::Level;
use self::finding::{Diagnosis, Finding};
pub use self::fleet::compare;
use crate::args::{DoctorArgs, Secret};
use crate::settings::SettingsError;
use crate::store::{StoreSetup, StoreSetupError, with_flags};

/// The output of `--json`.
#[derive(Serialize)]
struct Report<'a> {
    /// Without its password.
    store: String,
    level: &'a str,
    checks: Vec<Check<'a>>,
}

#[derive(Serialize)]
struct Check<'a> {
    level: &'a str,
    code: &'a str,
    found: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<String>,
}

/// Examines the store. Returns the report, and its worst level.
///
/// # Errors
///
/// If flags contradict each other, or a file that they name cannot be read.
pub async fn run(args: &DoctorArgs, store: &Secret) -> Result<(String, Level), SettingsError> {
    let StoreSetup { url, builder, timeout, .. } =
        StoreSetup::new(store, args.store_args.keys.store_layout.as_ref(), &args.store_args)?;
    let diagnosis = examine::diagnose(builder, timeout).await.map_err(StoreSetupError::from)?;
    let text = if args.json { json(url.to_string(), &diagnosis) } else { readable(&diagnosis) };
    Ok((text, diagnosis.level()))
}

fn json(store: String, diagnosis: &Diagnosis) -> String {
    let check = |finding| {
        let finding: &Finding = finding;
        Check {
            level: finding.level().name(),
            code: finding.code(),
            found: finding.found(),
            advice: finding.advice().map(with_flags),
            help: finding.advice().map(|_| help(finding.code())),
        }
    };
    let checks = diagnosis.findings().iter().map(check).collect();
    let report = Report { store, level: diagnosis.level().name(), checks };
    // This cannot fail: all keys are texts.
    serde_json::to_string(&report).unwrap_or_default() + "\n"
}

/// The place in the manual that explains a check.
fn help(code: &str) -> String {
    format!("{MANUAL}/warnings.md#{code}")
}

fn readable(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    for finding in diagnosis.findings() {
        // Writing into a string does not fail.
        let (level, code) = (finding.level().name(), finding.code());
        let _ = writeln!(text, "{level}  {code:<12} {}", Printable(finding.found()));
        if let Some(advice) = finding.advice() {
            let _ = writeln!(text, "{:19}{}", "", Printable(with_flags(advice)));
            let _ = writeln!(text, "{:19}help: {}", "", help(code));
        }
    }
    let count = |level| diagnosis.findings().iter().filter(|finding| finding.level() == level).count();
    let (passed, warned, failed) = (count(Level::Pass), count(Level::Warn), count(Level::Fail));
    let _ = writeln!(text, "{passed} passed, {warned} warned, {failed} failed");
    text
}
