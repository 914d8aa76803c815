//! The address of a shared store and the settings for its connections, checked before any is opened.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use tollgate_redis::{
    AcrossSlots, Identity, IdentitySecret, KeyLayout, Password, RedisStore, RedisStoreBuilder, StoreUrl, Tls,
};

use crate::args::{IdentityForm, Secret, StoreArgs};
use crate::settings::SettingsError;

/// A store, and the settings for its connections.
pub(crate) struct StoreSetup {
    /// Safe to print: it hides its password.
    pub(crate) url: StoreUrl,
    pub(crate) prefix: String,
    /// The form of identities in keys, without a layout.
    pub(crate) identity: Identity,
    /// The layout of keys, if not Tollgate's own.
    pub(crate) layout: Option<KeyLayout>,
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) builder: RedisStoreBuilder,
}

/// The default prefix of keys.
pub(crate) const DEFAULT_PREFIX: &str = "tollgate";

impl StoreSetup {
    /// The store of a flag, without a file.
    pub(crate) fn new(
        url: &Secret,
        layout: Option<&KeyLayout>,
        args: &StoreArgs,
    ) -> Result<Self, SettingsError> {
        Self::of(Self::url_of_flag(url)?, None, layout, args)
    }

    /// Parses the store URL of a flag.
    pub(crate) fn url_of_flag(url: &Secret) -> Result<StoreUrl, SettingsError> {
        url.expose().parse().map_err(SettingsError::StoreUrl)
    }

    /// The store of a file. Flags set how to connect, and override the file.
    pub(crate) fn of_file(
        store: &tollgate_policy::StoreSettings,
        layout: Option<&KeyLayout>,
        args: &StoreArgs,
    ) -> Result<Self, SettingsError> {
        let url = store.url().parse().map_err(SettingsError::FileStoreUrl)?;
        Self::of(url, Some(store), layout, args)
    }

    /// The store of this URL, with the other store settings of a file.
    pub(crate) fn of(
        url: StoreUrl,
        file: Option<&tollgate_policy::StoreSettings>,
        layout: Option<&KeyLayout>,
        args: &StoreArgs,
    ) -> Result<Self, SettingsError> {
        if let (Some(_), Some(layout)) =
            (&args.keys.store_prefix, layout.filter(|layout| !layout.names_prefix()))
        {
            return Err(SettingsError::NeedlessPrefix(layout.clone()));
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
            tollgate_redis::SettingsError::PasswordMissing => SettingsError::PasswordMissing,
            tollgate_redis::SettingsError::SentinelPasswordMissing => SettingsError::SentinelPasswordMissing,
            tollgate_redis::SettingsError::NeedlessIdentitySecret => SettingsError::NeedlessIdentitySecret,
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

fn identity(args: &StoreArgs) -> Result<Identity, SettingsError> {
    match (args.identity, &args.identity_secret_file) {
        (IdentityForm::Plain, Some(_)) => Err(SettingsError::NeedlessIdentitySecret),
        (IdentityForm::Plain, None) => Ok(Identity::Plain),
        (IdentityForm::Digest, Some(file)) => Ok(Identity::Keyed(IdentitySecret::from_file(file)?)),
        (IdentityForm::Digest, None) => Ok(Identity::Digest),
    }
}

fn tls(args: &StoreArgs) -> Result<Tls, SettingsError> {
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
) -> Result<Option<Password>, SettingsError> {
    match (file, held) {
        (Some(_), Some(_)) => Err(SettingsError::TwoPasswords { flag, variable }),
        (Some(file), None) => match Password::from_file(file) {
            Ok(password) => Ok(Some(password)),
            Err(source) => Err(SettingsError::Password { flag, source }),
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
