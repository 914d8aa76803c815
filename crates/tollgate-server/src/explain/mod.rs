//! `tollgate explain`: what a file of policies says of one request, and why.
//!
//! Whether a policy applies and what it charges comes from the policies themselves, by the way that every request
//! takes. Here it is only said in words. No store is asked, so nothing is said of what has been used.

mod readable;
mod report;

use tollgate::{Clock, SystemClock};
use tollgate_policy::{Config, ConfigError};

use self::report::Report;
use crate::args::ExplainArgs;
use crate::attributes;

/// Returns what to print about the request.
///
/// # Errors
///
/// If the file cannot be read or is not valid.
pub fn run(args: &ExplainArgs) -> Result<String, ConfigError> {
    let config = Config::load(&args.file)?;
    let at = args.at.unwrap_or_else(|| SystemClock.now());
    let attributes = attributes::of_arguments(&args.attributes);
    let report = Report::new(&config, &attributes, args.cost, at);
    Ok(if args.json {
        // Nothing of it can fail: all names are texts.
        serde_json::to_string(&report).unwrap_or_default() + "\n"
    } else {
        report.to_string()
    })
}
