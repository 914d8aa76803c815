//! `tollgate explain`: what a file of policies says of one request, and why.
//!
//! Whether a policy applies and what it charges comes from the policies themselves, by the way that every request
//! takes. Here it is only said in words. No store is asked, so nothing is said of what has been used.

mod readable;
mod report;

use std::collections::HashSet;

use thiserror::Error;
use tollgate::{Clock, SystemClock};
use tollgate_policy::{Attributes, Config, ConfigError, Printable};

use self::report::Report;
use crate::args::ExplainArgs;

/// Why a request is not explained. The fault of whoever asks.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExplainError {
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] ConfigError),
    /// No request can be so.
    #[error("the attribute `{}` is given twice", Printable(.0))]
    Twice(Box<str>),
}

/// Returns what to print about the request.
///
/// # Errors
///
/// If the file cannot be read or is not valid, or an attribute is given twice.
pub fn run(args: &ExplainArgs) -> Result<String, ExplainError> {
    let mut names = HashSet::new();
    if let Some((name, _)) = args.attributes.iter().find(|(name, _)| !names.insert(name)) {
        return Err(ExplainError::Twice(name.as_str().into()));
    }
    let config = Config::load(&args.file)?;
    let at = args.at.unwrap_or_else(|| SystemClock.now());
    let attributes: Attributes<'_> =
        args.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let report = Report::new(&config, &attributes, args.cost, at);
    Ok(if args.json {
        // Nothing of it can fail: all names are texts.
        serde_json::to_string(&report).unwrap_or_default() + "\n"
    } else {
        report.to_string()
    })
}
