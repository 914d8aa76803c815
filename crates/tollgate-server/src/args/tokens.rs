//! Flags of the commands about tokens.

use std::path::PathBuf;

use clap::Subcommand;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser as _};

use super::value;
use crate::access::scope::Scope;

/// The commands about tokens.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Create a token, and the line with its SHA-256 for the file of `serve --tokens`
    New(NewTokenArgs),
}

/// Flags of `tollgate token new`.
#[derive(Debug, clap::Args)]
pub struct NewTokenArgs {
    /// Name of the principal, for metrics and logs
    #[arg(long, value_name = "NAME", value_parser = value::name_of_file)]
    pub name: String,

    /// Scope that the token grants. For several, repeat the flag or separate them with commas
    #[arg(long = "scope", value_name = "SCOPE", required = true, value_delimiter = ',')]
    #[arg(value_parser = PossibleValuesParser::new(Scope::ALL.map(word)).try_map(scope))]
    pub scopes: Vec<Scope>,

    /// Policy that the principal may use. For several, repeat the flag or separate them with commas [default: all]
    #[arg(long = "policy", value_name = "NAME", value_delimiter = ',', value_parser = value::name_of_file)]
    pub policies: Vec<String>,

    /// Time of expiry, such as 2027-01-01T00:00:00Z [default: never]
    #[arg(long, value_name = "TIME", value_parser = value::expiry)]
    pub expires: Option<jiff::Timestamp>,

    /// Write the token to this new file, which only you can read, instead of the terminal
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// Add the line to this file, which is created if it does not exist. A running service reloads it
    #[arg(long, value_name = "FILE")]
    pub tokens: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

fn word(scope: Scope) -> PossibleValue {
    PossibleValue::new(scope.name()).help(scope.grants())
}

fn scope(name: String) -> Result<Scope, &'static str> {
    Scope::of_name(&name).ok_or("unknown scope")
}
