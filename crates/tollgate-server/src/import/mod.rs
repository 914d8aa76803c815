//! Starting as another system is started: with its own file, or its own variables.
//!
//! Reads another system's settings as one policy or as Envoy's limits, with the store's address and key layout. Each
//! system is a file; `spring` reads what Spring writes. Nothing is guessed: a setting without a meaning here stops the
//! start with an error that says what to do.

mod envoy_ratelimit;
mod rlaas;
mod spring;
mod valkey_env;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use tollgate::OnStoreFailure;
use tollgate_envoy::Charging;
use tollgate_policy::{ConfigError, Policies, PolicyError};
use tollgate_redis::KeyLayout;

pub(crate) use self::envoy_ratelimit::ImportedDomains;
use crate::args::Secret;
use crate::http::Dialect;

/// What another system is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Import {
    /// The `application.yaml` of the RLaaS Users Service.
    Rlaas(PathBuf),
    /// The environment of user-rate-limit, the Valkey server.
    ValkeyEnv,
    /// The environment of envoyproxy/ratelimit, and the folder of its files.
    EnvoyRatelimit(PathBuf),
}

/// What that means here.
#[derive(Debug)]
pub(crate) enum Imported {
    Policies(ImportedPolicies),
    Domains(ImportedDomains),
}

/// Policies, and the store in which they count.
#[derive(Debug)]
pub(crate) struct ImportedPolicies {
    pub(crate) policies: Policies,
    /// Where they are from, for people.
    pub(crate) source: Box<str>,
    /// The store that the system itself would use, under the name of where it says so; `None` if it does not say.
    pub(crate) store: Option<(&'static str, Secret)>,
    pub(crate) layout: KeyLayout,
    pub(crate) dialect: Option<&'static Dialect>,
    /// What is worth a line of the log each.
    pub(crate) notes: Vec<String>,
}

/// What cannot be imported. The fault of whoever wrote it, or started the service.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImportError {
    /// There is no such system, or its file is missing.
    #[error(
        "expected `rlaas FILE`, its application.yaml, `envoy-ratelimit FOLDER`, or `valkey-env`; in TOLLGATE_IMPORT, \
         `rlaas,FILE` and `envoy-ratelimit,FOLDER`"
    )]
    Unknown,
    /// The file cannot be read, or says what cannot be.
    #[error(transparent)]
    File(ConfigError),
    /// The file has the other form that Spring reads.
    #[error("{0} is a file of properties: only YAML is read; write its settings into an application.yaml")]
    Properties(Box<str>),
    /// A variable says what cannot be.
    #[error("{variable}: expected {expected}{}", found.as_deref().map(is_found).unwrap_or_default())]
    Variable {
        /// Its name.
        variable: &'static str,
        /// What it may say.
        expected: &'static str,
        /// What it says; `None` if that may hold a password.
        found: Option<Box<str>>,
    },
    /// What it says is no policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

fn is_found(found: &str) -> String {
    format!(", found `{found}`")
}

impl Import {
    /// # Errors
    ///
    /// If the words name no system, or not what it needs.
    pub(crate) fn new(words: &[OsString]) -> Result<Self, ImportError> {
        match words {
            [system, file] if system == "rlaas" => Ok(Self::Rlaas(file.into())),
            [system] if system == "valkey-env" => Ok(Self::ValkeyEnv),
            [system, folder] if system == "envoy-ratelimit" => Ok(Self::EnvoyRatelimit(folder.into())),
            // A variable is one word.
            [both] => match both.to_str().and_then(|both| both.split_once(',')) {
                Some(("rlaas", file)) => Ok(Self::Rlaas(file.into())),
                Some(("envoy-ratelimit", folder)) => Ok(Self::EnvoyRatelimit(folder.into())),
                _ => Err(ImportError::Unknown),
            },
            _ => Err(ImportError::Unknown),
        }
    }

    /// Reads what the system would read. In trouble of the store, `failure` is said instead of what the system does; a
    /// decision waits for it as long as `timeout`.
    ///
    /// # Errors
    ///
    /// If that cannot be read, or says what cannot be.
    pub(crate) fn read(
        self,
        charging: Charging,
        failure: Option<OnStoreFailure>,
        timeout: Duration,
    ) -> Result<Imported, ImportError> {
        match self {
            Self::Rlaas(file) => rlaas::read(&file, failure).map(Imported::Policies),
            Self::ValkeyEnv => valkey_env::read(&variable, failure).map(Imported::Policies),
            Self::EnvoyRatelimit(folder) => {
                let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
                let domains = envoy_ratelimit::read(&folder, &variable, names, charging, failure, timeout)?;
                Ok(Imported::Domains(domains))
            }
        }
    }
}

/// The variables by which Spring would set something under `ratelimiter` or `rate-limiter`, but for these.
pub(crate) fn other_spring_variables(known: &[&str]) -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let is_spring = |name: &String| name.starts_with("RATELIMITER_") || name.starts_with("RATE_LIMITER_");
    let mut others: Vec<String> = names.filter(is_spring).collect();
    others.retain(|name| !known.contains(&name.as_str()));
    others.sort_unstable();
    others
}

/// A variable of the environment; an empty one counts as unset.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
