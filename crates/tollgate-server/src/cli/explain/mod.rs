//! `tollgate explain`: shows the effect of a policy file on one request, with reasons.
//!
//! The overrides of a service are read only if the arguments say where they are.

mod overrides;
mod readable;

use thiserror::Error;
use tollgate::{Clock, StoreError, SystemClock};
use tollgate_policy::{Config, ConfigError, Refusal};

use crate::args::ExplainArgs;
use crate::explain::{ExplainReport, ExplainedRequest};
use crate::overrides::JournalError;
use crate::request::attributes;
use crate::store::StoreSetupError;

/// Why a request cannot be explained.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExplainError {
    /// The file cannot be read, or is not valid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The settings of the store are wrong.
    #[error(transparent)]
    Setup(#[from] StoreSetupError),
    /// The overrides in the folder cannot be read.
    #[error("cannot read the overrides of `--state-dir`")]
    Folder(#[from] JournalError),
    /// The overrides in the store cannot be read.
    #[error("cannot read the overrides of `--store`")]
    Store(#[from] StoreError),
}

/// Returns the text to print about the request.
///
/// # Errors
///
/// If the file cannot be read or is not valid, or if the overrides cannot be read.
pub async fn run(args: &ExplainArgs) -> Result<String, ExplainError> {
    let config = Config::load(&args.file)?;
    let overrides = overrides::read(args, &config).await?;
    let now = || overrides.as_ref().map_or_else(|| SystemClock.now(), |overrides| overrides.now);
    let at = args.at.unwrap_or_else(now);
    let attributes = attributes::of_arguments(&args.attributes);
    let overrides = overrides.as_ref().map(|overrides| &overrides.set);
    let request = ExplainedRequest {
        policies: config.policies(),
        attributes: &attributes,
        cost: args.cost,
        at,
        overrides,
    };
    let refusal = Refusal::of_long_value(&attributes, args.max_attribute_bytes.get());
    let report = ExplainReport::new(&request, refusal, |at| {
        Some(config.file_of(at)).filter(|_| config.files().len() > 1)
    });
    Ok(if args.json {
        // This cannot fail: all keys are texts.
        serde_json::to_string(&report).unwrap_or_default() + "\n"
    } else {
        report.to_string()
    })
}
