//! `tollgate check-config`: reports every error and probable mistake in policy files.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::Serialize;
use tollgate_policy::{Config, ConfigError, Printable, Problem, ProblemKind, Sources, Warning};
use tollgate_redis::StoreUrl;

use crate::args::CheckConfigArgs;
use crate::store::StoreSetup;
use crate::store::fit::{StoreFit, StoreFlags};
use crate::store::joined_values;

/// The output of `--json`.
#[derive(Serialize)]
struct FileReport {
    /// The paths as given. Each finding names its own file.
    file: String,
    valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    policies: Option<usize>,
    /// That of a service as soon as it enforces these files.
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<String>,
    errors: Vec<FoundError>,
    warnings: Vec<FoundWarning>,
}

#[derive(Serialize)]
struct FoundError {
    file: String,
    line: usize,
    column: usize,
    message: String,
}

#[derive(Serialize)]
struct FoundWarning {
    code: &'static str,
    file: String,
    line: usize,
    column: usize,
    policy: String,
    message: String,
    help: String,
}

/// Checks the files. Returns the report, and whether they pass.
///
/// # Errors
///
/// If a file cannot be read, or `--store` is not the URL of a store.
pub fn run(args: &CheckConfigArgs) -> anyhow::Result<(String, bool)> {
    let file = args.files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ");
    let url = args.store.as_ref().map(StoreSetup::url_of_flag).transpose()?;
    let flags = StoreFlags::new(url.as_ref(), &args.keys, &args.cluster);
    let checked = Config::parse_sources(&Sources::read(&args.files)?, |config| {
        let (_, problems) = StoreFit::of_file(config, &flags);
        let wrong_url = if url.is_none() { wrong_store_url(config) } else { None };
        problems.into_iter().chain(wrong_url).collect()
    });
    let report = match checked {
        Ok(config) => {
            let (fit, _) = StoreFit::of_file(&config, &flags);
            let warnings = joined_values::with_those_of_file(&config, fit.layout());
            FileReport {
                file,
                valid: true,
                policies: Some(config.policies().as_slice().len()),
                generation: Some(config.policies().generation().to_string()),
                errors: Vec::new(),
                warnings: warnings.iter().map(|warning| FoundWarning::new(warning, &config)).collect(),
            }
        }
        Err(ConfigError::Invalid { files, problems }) => FileReport {
            file,
            valid: false,
            policies: None,
            generation: None,
            errors: problems.iter().map(|problem| FoundError::new(problem, &files)).collect(),
            warnings: Vec::new(),
        },
        Err(error) => return Err(error.into()),
    };
    let text = if args.json { json(&report) } else { readable(&report) };
    let passes = report.valid && (!args.deny_warnings || report.warnings.is_empty());
    Ok((text, passes))
}

/// Returns the problem if the store URL in the file is invalid.
fn wrong_store_url(config: &Config) -> Option<Problem> {
    let (store, at) = config.store().zip(config.store_url_at())?;
    let error = store.url().parse::<StoreUrl>().err()?;
    Some(Problem::new(at, ProblemKind::Other(error.to_string().into())))
}

impl FoundError {
    fn new(problem: &Problem, files: &[Box<str>]) -> Self {
        let at = problem.at();
        let file = files.get(at.file as usize).map(ToString::to_string).unwrap_or_default();
        Self { file, line: at.line, column: at.column, message: problem.message() }
    }
}

impl FoundWarning {
    fn new(warning: &Warning, config: &Config) -> Self {
        let at = warning.at();
        Self {
            code: warning.code(),
            file: config.file_of(at).to_owned(),
            line: at.line,
            column: at.column,
            policy: warning.policy().to_owned(),
            message: warning.kind().to_string(),
            help: warning.help(),
        }
    }
}

fn json(report: &FileReport) -> String {
    // This cannot fail: all keys are texts.
    serde_json::to_string(report).unwrap_or_default() + "\n"
}

/// Formats the report as compilers do, so that editors can jump to the places.
fn readable(report: &FileReport) -> String {
    let FileReport { file, policies, generation, errors, warnings, .. } = report;
    let mut text = String::new();
    // Writing into a string does not fail.
    for FoundError { file, line, column, message } in errors {
        let _ = writeln!(text, "{}:{line}:{column}: error: {}", Printable(file), Printable(message));
    }
    for FoundWarning { code, file, line, column, policy, message, .. } in warnings {
        let (file, message) = (Printable(file), Printable(message));
        let _ = writeln!(text, "{file}:{line}:{column}: warning: policy `{policy}`: {message} [{code}]");
    }
    for help in warnings.iter().map(|warning| &warning.help).collect::<BTreeSet<_>>() {
        let _ = writeln!(text, "help: {help}");
    }
    let file = Printable(file);
    let _ = match policies.zip(generation.as_ref()) {
        Some((policies, generation)) => writeln!(
            text,
            "{file} is valid: {}, {}, generation {generation}",
            counted(policies, "policy", "policies"),
            counted(warnings.len(), "warning", "warnings")
        ),
        None => writeln!(text, "{file} is not valid: {}", counted(errors.len(), "error", "errors")),
    };
    text
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
