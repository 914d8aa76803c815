//! Imports the settings of another system: its configuration file or its environment variables.
//!
//! They become one policy or Envoy's limits, together with the store's address and the layout of its keys. Each system
//! has a file here; `spring` reads files in Spring's format. Nothing is guessed: a setting without an equivalent stops
//! the start with an error that shows what to do.

mod envoy_ratelimit;
mod rlaas;
mod spring;
mod valkey_env;

use std::ffi::OsString;
use std::path::PathBuf;

use thiserror::Error;
use tollgate::OnStoreFailure;
use tollgate_envoy::ChargingMode;
use tollgate_policy::{ConfigError, Policies, PolicyError, Printable};
use tollgate_redis::KeyLayout;

pub(crate) use self::envoy_ratelimit::ImportedDomains;
use crate::args::AnswerSystem;
use crate::args::Secret;

/// The settings of another system, not yet read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Import {
    /// The `application.yaml` of the RLaaS Users Service.
    Rlaas(PathBuf),
    /// The environment of user-rate-limit, the Valkey server.
    ValkeyEnv,
    /// The environment of envoyproxy/ratelimit, and the folder of its files.
    EnvoyRatelimit(PathBuf),
}

/// Settings of another system, as Tollgate understands them.
#[derive(Debug)]
pub(crate) enum ImportedSettings {
    Policies(ImportedPolicies),
    Domains(ImportedDomains),
}

/// Policies, and the store in which they count.
#[derive(Debug)]
pub(crate) struct ImportedPolicies {
    pub(crate) policies: Policies,
    /// Their origin, for log lines.
    pub(crate) source: Box<str>,
    /// The store that the system itself would use, with the name of the setting; `None` if there is no such setting.
    pub(crate) store: Option<(&'static str, Secret)>,
    /// The layout of its keys, if counts are shared with it.
    pub(crate) layout: Option<KeyLayout>,
    pub(crate) dialect: Option<AnswerSystem>,
    /// Notes for the log, one a line.
    pub(crate) notes: Vec<String>,
}

/// Settings that cannot be imported. The operator's fault.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The system is unknown, or its file is not named.
    #[error(
        "{0}; expected `rlaas FILE`, its application.yaml, `envoy-ratelimit FOLDER`, or `valkey-env`; in TOLLGATE_IMPORT, \
         `rlaas,FILE` and `envoy-ratelimit,FOLDER`"
    )]
    Unknown(Box<str>),
    /// The file cannot be read or is not valid.
    #[error(transparent)]
    File(ConfigError),
    /// The file is in Spring's other format.
    #[error("{0} is a properties file, and only YAML is read: write its settings into an application.yaml")]
    Properties(Box<str>),
    /// The value of a variable is not valid.
    #[error("{variable}: expected {expected}{}", found.as_deref().map(is_found).unwrap_or_default())]
    Variable {
        /// The name of the variable.
        variable: &'static str,
        /// The values that it can have.
        expected: &'static str,
        /// Its value; `None` if the value may hold a password.
        found: Option<Box<str>>,
    },
    /// The settings do not make a valid policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

/// Says what is wrong with the words of `--import`.
fn unknown(words: &[OsString]) -> ImportError {
    let first = words.first().map(|word| word.to_string_lossy()).unwrap_or_default();
    let system = first.split(',').next().unwrap_or_default();
    ImportError::Unknown(
        match system {
            "rlaas" => "`rlaas` needs one file".to_owned(),
            "envoy-ratelimit" => "`envoy-ratelimit` needs one folder".to_owned(),
            "valkey-env" => "`valkey-env` has no file".to_owned(),
            other => format!("`{}` is not a system that can be imported", Printable(other)),
        }
        .into(),
    )
}

fn is_found(found: &str) -> String {
    format!(", found `{found}`")
}

impl Import {
    /// Reads the words of `--import`.
    ///
    /// # Errors
    ///
    /// If they do not name a known system and, if it has one, its file.
    pub(crate) fn new(words: &[OsString]) -> Result<Self, ImportError> {
        match words {
            [system, file] if system == "rlaas" => Ok(Self::Rlaas(file.into())),
            [system] if system == "valkey-env" => Ok(Self::ValkeyEnv),
            [system, folder] if system == "envoy-ratelimit" => Ok(Self::EnvoyRatelimit(folder.into())),
            // An environment variable is a single word.
            [both] => match both.to_str().and_then(|both| both.split_once(',')) {
                Some(("rlaas", file)) => Ok(Self::Rlaas(file.into())),
                Some(("envoy-ratelimit", folder)) => Ok(Self::EnvoyRatelimit(folder.into())),
                _ => Err(unknown(words)),
            },
            _ => Err(unknown(words)),
        }
    }

    /// Reads the settings that the system would read. `failure` replaces the system's behaviour during an outage of the
    /// store.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or a setting is not valid.
    pub(crate) fn read(
        self,
        charging: ChargingMode,
        failure: Option<OnStoreFailure>,
    ) -> Result<ImportedSettings, ImportError> {
        match self {
            Self::Rlaas(file) => rlaas::read(&file, failure).map(ImportedSettings::Policies),
            Self::ValkeyEnv => valkey_env::read(&variable, failure).map(ImportedSettings::Policies),
            Self::EnvoyRatelimit(folder) => {
                let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
                let domains = envoy_ratelimit::read(&folder, &variable, names, charging, failure)?;
                Ok(ImportedSettings::Domains(domains))
            }
        }
    }
}

/// Returns the variables that Spring would read as settings below `ratelimiter` or `rate-limiter`, without the known
/// ones.
pub(crate) fn other_spring_variables(known: &[&str]) -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let is_spring = |name: &String| name.starts_with("RATELIMITER_") || name.starts_with("RATE_LIMITER_");
    let mut others: Vec<String> = names.filter(is_spring).collect();
    others.retain(|name| !known.contains(&name.as_str()));
    others.sort_unstable();
    others
}

/// Returns an environment variable; an empty one counts as unset.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
