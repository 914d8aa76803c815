//! Imports the settings of another system: its configuration file or its environment variables.
//!
//! They become one policy or Envoy's limits, together with the store's address and the layout of its keys. Each system
//! has a file here; `spring` reads files in Spring's format. Nothing is guessed: a setting without an equivalent stops
//! the start with an error that shows what to do.

mod envoy_process;
mod envoy_ratelimit;
mod envoy_variables;
mod envoy_xds;
mod go_value;
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

pub(crate) use self::envoy_ratelimit::{ImportedDomains, ImportedStoreTls};
use crate::args::{AnswerSystem, Flag, OriginalEnvironment, Secret, ServerUrl};

/// The settings of another system, not yet read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Import {
    /// The `application.yaml` of the RLaaS Users Service.
    Rlaas(PathBuf),
    /// The environment of user-rate-limit, the Valkey server.
    ValkeyEnv,
    /// The environment of envoyproxy/ratelimit.
    EnvoyRatelimit {
        /// The folder of its files.
        folder: Option<PathBuf>,
        /// The management server that sends its limits instead, unless a variable names it.
        xds: Option<ServerUrl>,
    },
}

/// Settings of another system, as Tollgate understands them.
#[derive(Debug)]
pub(crate) enum ImportedSettings {
    Policies(Box<ImportedPolicies>),
    Domains(Box<ImportedDomains>),
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
        "{0}; expected `rlaas FILE`, its application.yaml, `envoy-ratelimit FOLDER`, `envoy-ratelimit` alone for limits \
         over xDS, or `valkey-env`; in TOLLGATE_IMPORT, `rlaas,FILE` and `envoy-ratelimit,FOLDER`"
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
    /// Neither files nor a management server have the limits.
    #[error(
        "`envoy-ratelimit` needs limits: name the folder of their files, or the server that sends them over xDS, with \
         `--xds URL` or CONFIG_TYPE=GRPC_XDS_SOTW and CONFIG_GRPC_XDS_SERVER_URL"
    )]
    NoLimits,
    /// A folder and a management server are named, and only one of them can have the limits.
    #[error("limits come from the folder {} or over xDS ({xds}), but not from both: leave one out", folder.display())]
    TwoSources {
        /// The folder.
        folder: PathBuf,
        /// What asks for xDS.
        xds: &'static str,
    },
    /// A management server for another system.
    #[error("`{}` is only for `--import envoy-ratelimit`", Flag("--xds"))]
    NeedlessXds,
    /// Variables contradict each other.
    #[error("{variable}: {conflict}")]
    Conflict {
        /// The name of a variable.
        variable: &'static str,
        /// What it contradicts.
        conflict: &'static str,
    },
    /// The certificates for the management server cannot be used.
    #[error("the certificates for the xDS server ({0}): {1}")]
    XdsCertificates(&'static str, Box<str>),
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
            "envoy-ratelimit" => "`envoy-ratelimit` has one folder".to_owned(),
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
    pub(crate) fn new(words: &[OsString], xds: Option<ServerUrl>) -> Result<Self, ImportError> {
        let import = match words {
            [system, file] if system == "rlaas" => Ok(Self::Rlaas(file.into())),
            [system] if system == "valkey-env" => Ok(Self::ValkeyEnv),
            [system] if system == "envoy-ratelimit" => Ok(Self::envoy_ratelimit(None)),
            [system, folder] if system == "envoy-ratelimit" => Ok(Self::envoy_ratelimit(Some(folder.into()))),
            // An environment variable is a single word.
            [both] => match both.to_str().and_then(|both| both.split_once(',')) {
                Some(("rlaas", file)) => Ok(Self::Rlaas(file.into())),
                Some(("envoy-ratelimit", folder)) => Ok(Self::envoy_ratelimit(Some(folder.into()))),
                _ => Err(unknown(words)),
            },
            _ => Err(unknown(words)),
        };
        match (import?, xds) {
            (Self::EnvoyRatelimit { folder, .. }, xds) => Ok(Self::EnvoyRatelimit { folder, xds }),
            (import, None) => Ok(import),
            (_, Some(_)) => Err(ImportError::NeedlessXds),
        }
    }

    const fn envoy_ratelimit(folder: Option<PathBuf>) -> Self {
        Self::EnvoyRatelimit { folder, xds: None }
    }

    /// Reads the settings that the system would read. `charging` replaces its default, and `failure` its behaviour
    /// during an outage of the store. Variables that have set a flag are not said to have no effect.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or a setting is not valid.
    pub(crate) fn read(
        self,
        charging: Option<ChargingMode>,
        failure: Option<OnStoreFailure>,
        original: Option<&OriginalEnvironment>,
    ) -> Result<ImportedSettings, ImportError> {
        match self {
            Self::Rlaas(file) => Ok(ImportedSettings::Policies(rlaas::read(&file, failure)?.into())),
            Self::ValkeyEnv => Ok(ImportedSettings::Policies(valkey_env::read(&variable, failure)?.into())),
            Self::EnvoyRatelimit { folder, xds } => {
                let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
                let names = names.filter(|name| !original.is_some_and(|original| original.has_used(name)));
                let domains = envoy_ratelimit::read(folder, xds, &variable, names, charging, failure)?;
                Ok(ImportedSettings::Domains(domains.into()))
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
