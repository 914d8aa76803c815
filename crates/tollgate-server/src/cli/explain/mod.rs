//! `tollgate explain`: shows the effect of a policy file on one request, with reasons.
//!
//! The policies themselves decide, in the code that every request runs through; this module only puts the outcome into
//! words. It contacts no store, so it does not know the usage.

mod readable;
mod report;

use tollgate::{Clock, SystemClock};
use tollgate_policy::{Config, ConfigError};

use self::report::ExplainReport;
use crate::args::ExplainArgs;
use crate::request::attributes;

/// Returns the text to print about the request.
///
/// # Errors
///
/// If the file cannot be read or is not valid.
pub fn run(args: &ExplainArgs) -> Result<String, ConfigError> {
    let config = Config::load(&args.file)?;
    let at = args.at.unwrap_or_else(|| SystemClock.now());
    let attributes = attributes::of_arguments(&args.attributes);
    let report = ExplainReport::new(&config, &attributes, args.max_attribute_bytes.get(), args.cost, at);
    Ok(if args.json {
        // This cannot fail: all keys are texts.
        serde_json::to_string(&report).unwrap_or_default() + "\n"
    } else {
        report.to_string()
    })
}
