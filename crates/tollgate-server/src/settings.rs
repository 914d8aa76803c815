//! What the service is built from: ready objects, made of what the user wrote.

use std::error::Error;
use std::net::SocketAddr;

use thiserror::Error;
use tollgate::{CountDenied, MemoryStore};
use tollgate_redis::{PasswordError, TlsError, UrlError};

use crate::args::{LogFormat, ServeArgs, WhenFull};
use crate::policy::{Policy, PolicyError};
use crate::store::SharedSettings;

/// Everything that [`serve`](crate::serve) needs.
#[derive(Debug)]
pub struct Settings {
    pub(crate) policy: Policy,
    /// Counters of this process: all, or those of a shared store's trouble.
    pub(crate) memory: MemoryStore,
    pub(crate) shared: Option<SharedSettings>,
    pub(crate) when_full: WhenFull,
    pub(crate) listen: SocketAddr,
    pub(crate) admin_listen: SocketAddr,
    pub(crate) max_connections: u32,
    /// How log lines are written.
    pub log_format: LogFormat,
}

/// Settings that cannot be. The fault of whoever wrote the flags, or the files that they name.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The quotas or the key's attributes contradict each other.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The store's URL is none. It is not repeated, because it may hold a password.
    #[error("`--store`: {0}")]
    StoreUrl(#[from] UrlError),
    /// There is no password where it was to be found.
    #[error("`{flag}`: {}", with_source(.source))]
    Password {
        /// The flag that names the file.
        flag: &'static str,
        /// What is wrong with it.
        source: PasswordError,
    },
    /// A certificate or key cannot be read, or is none.
    #[error("`--store-ca`, `--store-cert`, `--store-key`: {}", with_source(.0))]
    Tls(#[from] TlsError),
    /// The password comes from two places.
    #[error("both `{flag}` and {variable} are given; keep one of them")]
    TwoPasswords {
        /// The flag that names a file with it.
        flag: &'static str,
        /// The variable that holds it.
        variable: &'static str,
    },
    /// The store's settings contradict each other.
    #[error("`--store`: {}", with_source(.0))]
    Store(#[from] tollgate_redis::SettingsError),
    /// A share for a policy that has none.
    #[error("`--local-share` goes with `--on-store-failure local` only")]
    NeedlessShare,
    /// A policy without its share.
    #[error("`--on-store-failure local` needs `--local-share`, such as 1/3 for one of three processes")]
    MissingShare,
}

/// What is wrong with a file, and what the system or the parser says of it.
fn with_source(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

impl Settings {
    /// Resolves what the user wrote.
    ///
    /// # Errors
    ///
    /// If flags contradict each other, or a file that they name cannot be read.
    pub fn new(args: ServeArgs) -> Result<Self, SettingsError> {
        let count_denied = if args.count_denied { CountDenied::Yes } else { CountDenied::No };
        let shared = args.store.map(|url| SharedSettings::new(&url, &args.store_args, &args.failure));
        Ok(Self {
            policy: Policy::new(args.limits, args.key, count_denied)?,
            memory: MemoryStore::builder().max_keys(args.max_keys.get()).build(),
            shared: shared.transpose()?,
            when_full: args.when_full,
            listen: args.listen,
            admin_listen: args.admin_listen,
            max_connections: args.max_connections.get(),
            log_format: args.log_format,
        })
    }
}
