//! The address of a shared store and the settings for its connections, checked before any is opened.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use thiserror::Error;
use tollgate_redis::{
    AcrossSlots, IdentitySecret, IdentitySecretError, KeyIdentity, KeyLayout, Password, PasswordError,
    RedisStore, RedisStoreBuilder, StoreUrl, Tls, TlsError, UrlError,
};

use crate::args::{Flag, FlagWith, IdentityForm, Secret, StoreArgs};
use crate::observe::with_sources::WithSources;

/// A store, and the settings for its connections.
pub(crate) struct StoreSetup {
    /// Safe to print: it hides its password.
    pub(crate) url: StoreUrl,
    pub(crate) prefix: String,
    /// The form of identities in keys, without a layout.
    pub(crate) identity: KeyIdentity,
    /// The layout of keys, if not Tollgate's own.
    pub(crate) layout: Option<KeyLayout>,
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) builder: RedisStoreBuilder,
}

/// Invalid settings of a shared store. The fault of the flags, or of the files that they name.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreSetupError {
    /// The URL of the store is invalid. It is not repeated, because it may hold a password.
    #[error("`{flag}`: {0}", flag = Flag("--store"))]
    StoreUrl(UrlError),
    /// The URL of the store in the file of policies is invalid. It is not repeated, because it may hold a password.
    #[error("`{flag}`: the file's `store: url:` cannot be used: {0}", flag = Flag("--config"))]
    FileStoreUrl(UrlError),
    /// The prefix would be in no key.
    #[error(
        "`{prefix}` would have no effect: the key layout `{0}` does not contain {{prefix}}; leave out the prefix, or \
         use a layout of your own that contains it (`{layout}`)",
        prefix = Flag("--store-prefix"),
        layout = Flag("--store-layout")
    )]
    NeedlessPrefix(KeyLayout),
    /// The secret for digests of keys cannot be read or used.
    #[error("`{}`: {}", Flag("--identity-secret-file"), WithSources(.0))]
    IdentitySecret(#[from] IdentitySecretError),
    /// A secret for digests, although keys are not digests.
    #[error(
        "`{}` is only valid with digests: leave it out, or leave out `{}` or the key layout",
        Flag("--identity-secret-file"),
        FlagWith("--identity", &"plain")
    )]
    NeedlessIdentitySecret,
    /// A file has no password.
    #[error("`{}`: {}", Flag(.flag), WithSources(.source))]
    Password {
        /// The flag that names the file.
        flag: &'static str,
        /// The fault.
        source: PasswordError,
    },
    /// A certificate or key for the store cannot be used.
    #[error("`{}`, `{}`, `{}`: {}", Flag("--store-ca"), Flag("--store-cert"), Flag("--store-key"), WithSources(.0))]
    Tls(#[from] TlsError),
    /// The password comes from two places.
    #[error("both `{}` and {variable} are given; keep one of them", Flag(.flag))]
    TwoPasswords {
        /// The flag that names a file with it.
        flag: &'static str,
        /// The variable that holds it.
        variable: &'static str,
    },
    /// The URL has a user, but there is no password.
    #[error(
        "the store's URL names a user, which needs a password: pass `--store-password-file` or set \
         TOLLGATE_STORE_PASSWORD"
    )]
    PasswordMissing,
    /// There is a user for the Sentinels, but no password.
    #[error(
        "`{}` needs a password: pass `--store-sentinel-password-file` or set TOLLGATE_STORE_SENTINEL_PASSWORD",
        Flag("--store-sentinel-user")
    )]
    SentinelPasswordMissing,
    /// The store's settings contradict each other.
    #[error("the store: {}", WithSources(.0))]
    Store(#[from] tollgate_redis::SettingsError),
}

/// The default prefix of keys.
pub(crate) const DEFAULT_PREFIX: &str = "tollgate";

impl StoreSetup {
    /// The store of a flag, without a file.
    pub(crate) fn new(
        url: &Secret,
        layout: Option<&KeyLayout>,
        args: &StoreArgs,
    ) -> Result<Self, StoreSetupError> {
        Self::of(Self::url_of_flag(url)?, None, layout, args)
    }

    /// Parses the store URL of a flag.
    pub(crate) fn url_of_flag(url: &Secret) -> Result<StoreUrl, StoreSetupError> {
        url.expose().parse().map_err(StoreSetupError::StoreUrl)
    }

    /// The store of a file. Flags set how to connect, and override the file.
    pub(crate) fn of_file(
        store: &tollgate_policy::StoreSettings,
        layout: Option<&KeyLayout>,
        args: &StoreArgs,
    ) -> Result<Self, StoreSetupError> {
        let url = store.url().parse().map_err(StoreSetupError::FileStoreUrl)?;
        Self::of(url, Some(store), layout, args)
    }

    /// The store of this URL, with the other store settings of a file.
    pub(crate) fn of(
        url: StoreUrl,
        file: Option<&tollgate_policy::StoreSettings>,
        layout: Option<&KeyLayout>,
        args: &StoreArgs,
    ) -> Result<Self, StoreSetupError> {
        if let (Some(_), Some(layout)) =
            (&args.keys.store_prefix, layout.filter(|layout| !layout.names_prefix()))
        {
            return Err(StoreSetupError::NeedlessPrefix(layout.clone()));
        }
        let prefix = args.keys.store_prefix.as_deref().or(file.and_then(|file| file.prefix()));
        let prefix = prefix.unwrap_or(DEFAULT_PREFIX);
        let identity = identity(args)?;
        let mut builder = RedisStore::builder(url.clone())
            .deadline(args.store_timeout)
            .connect_timeout(args.store_connect_timeout)
            .prefix(prefix)
            .identity(identity.clone())
            .tls(tls(args)?);
        if let Some(layout) = layout {
            builder = builder.layout(layout.clone());
        }
        let flags = ("--store-password-file", "TOLLGATE_STORE_PASSWORD");
        if let Some(password) = password(flags, args.store_password_file.as_deref(), &args.password)? {
            builder = builder.password(password);
        }
        let flags = ("--store-sentinel-password-file", "TOLLGATE_STORE_SENTINEL_PASSWORD");
        let file = args.store_sentinel_password_file.as_deref();
        if let Some(password) = password(flags, file, &args.sentinel_password)? {
            builder = builder.sentinel_password(password);
        }
        if let Some(user) = &args.store_sentinel_user {
            builder = builder.sentinel_user(user);
        }
        builder.validate().map_err(|error| match error {
            tollgate_redis::SettingsError::PasswordMissing => StoreSetupError::PasswordMissing,
            tollgate_redis::SettingsError::SentinelPasswordMissing => {
                StoreSetupError::SentinelPasswordMissing
            }
            tollgate_redis::SettingsError::NeedlessIdentitySecret => StoreSetupError::NeedlessIdentitySecret,
            other => other.into(),
        })?;
        Ok(Self {
            url,
            prefix: prefix.to_owned(),
            identity,
            layout: layout.cloned(),
            timeout: args.store_timeout,
            connect_timeout: args.store_connect_timeout,
            builder,
        })
    }

    /// Sets the prefix of all keys.
    pub(crate) fn with_prefix(self, prefix: String) -> Self {
        Self { builder: self.builder.prefix(&prefix), prefix, ..self }
    }

    /// Sets how many denied keys are remembered.
    pub(crate) fn local_denials(self, keys: usize) -> Self {
        Self { builder: self.builder.local_denials(keys), ..self }
    }

    /// Sets the handling of requests whose counters are in several slots of a Cluster.
    pub(crate) fn across_slots(self, across_slots: AcrossSlots) -> Self {
        Self { builder: self.builder.across_slots(across_slots), ..self }
    }
}

fn identity(args: &StoreArgs) -> Result<KeyIdentity, StoreSetupError> {
    match (args.identity, &args.identity_secret_file) {
        (IdentityForm::Plain, Some(_)) => Err(StoreSetupError::NeedlessIdentitySecret),
        (IdentityForm::Plain, None) => Ok(KeyIdentity::Plain),
        (IdentityForm::Digest, Some(file)) => Ok(KeyIdentity::Keyed(IdentitySecret::from_file(file)?)),
        (IdentityForm::Digest, None) => Ok(KeyIdentity::Digest),
    }
}

fn tls(args: &StoreArgs) -> Result<Tls, StoreSetupError> {
    let mut tls = Tls::new();
    if let Some(authorities) = &args.store_ca {
        tls = tls.with_ca_file(authorities)?;
    }
    if let (Some(certificate), Some(key)) = (&args.store_cert, &args.store_key) {
        tls = tls.with_client_files(certificate, key)?;
    }
    Ok(tls)
}

/// Returns the password from the file, or from the variable.
fn password(
    (flag, variable): (&'static str, &'static str),
    file: Option<&Path>,
    held: &Option<Secret>,
) -> Result<Option<Password>, StoreSetupError> {
    match (file, held) {
        (Some(_), Some(_)) => Err(StoreSetupError::TwoPasswords { flag, variable }),
        (Some(file), None) => match Password::from_file(file) {
            Ok(password) => Ok(Some(password)),
            Err(source) => Err(StoreSetupError::Password { flag, source }),
        },
        (None, Some(password)) => Ok(Some(Password::new(password.expose()))),
        (None, None) => Ok(None),
    }
}

impl fmt::Debug for StoreSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (url, prefix) = (&self.url, &self.prefix);
        f.debug_struct("StoreSetup").field("url", url).field("prefix", prefix).finish_non_exhaustive()
    }
}
