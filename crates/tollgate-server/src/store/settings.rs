//! Where a shared store is and how it is spoken to, checked and not yet begun.

use std::fmt;
use std::time::Duration;

use tollgate::OnStoreFailure;
use tollgate_redis::{Identity, Password, RedisStore, RedisStoreBuilder, StoreUrl, Tls};

use crate::args::{self, FailureArgs, IdentityForm, Secret, StoreArgs};
use crate::settings::SettingsError;

/// A store that others share, and what its trouble means.
pub(crate) struct SharedSettings {
    pub(crate) store: StoreSettings,
    pub(crate) on_failure: OnStoreFailure,
}

/// A store, and how it is spoken to.
pub(crate) struct StoreSettings {
    /// To be shown: it hides its password.
    pub(crate) url: StoreUrl,
    pub(crate) prefix: String,
    pub(crate) timeout: Duration,
    pub(crate) builder: RedisStoreBuilder,
}

impl SharedSettings {
    pub(crate) fn new(url: &Secret, args: &StoreArgs, failure: &FailureArgs) -> Result<Self, SettingsError> {
        let on_failure = match (failure.on_store_failure, failure.local_share) {
            (args::OnStoreFailure::Local, Some(share)) => OnStoreFailure::Local(share),
            (args::OnStoreFailure::Local, None) => return Err(SettingsError::MissingShare),
            (_, Some(_)) => return Err(SettingsError::NeedlessShare),
            (args::OnStoreFailure::Open, None) => OnStoreFailure::Open,
            (args::OnStoreFailure::Closed, None) => OnStoreFailure::Closed,
        };
        Ok(Self { store: StoreSettings::new(url, args)?, on_failure })
    }
}

impl StoreSettings {
    pub(crate) fn new(url: &Secret, args: &StoreArgs) -> Result<Self, SettingsError> {
        let url: StoreUrl = url.expose().parse()?;
        let mut builder = RedisStore::builder(url.clone())
            .deadline(args.store_timeout)
            .connect_timeout(args.store_connect_timeout)
            .prefix(&args.store_prefix)
            .identity(match args.identity {
                IdentityForm::Digest => Identity::Digest,
                IdentityForm::Plain => Identity::Plain,
            })
            .tls(tls(args)?);
        if let Some(password) = password(args)? {
            builder = builder.password(password);
        }
        let (prefix, timeout) = (args.store_prefix.clone(), args.store_timeout);
        Ok(Self { url, prefix, timeout, builder })
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

fn password(args: &StoreArgs) -> Result<Option<Password>, SettingsError> {
    match (&args.store_password_file, &args.password) {
        (Some(_), Some(_)) => Err(SettingsError::TwoPasswords),
        (Some(file), None) => Ok(Some(Password::from_file(file)?)),
        (None, Some(password)) => Ok(Some(Password::new(password.expose()))),
        (None, None) => Ok(None),
    }
}

impl fmt::Debug for SharedSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (url, on_failure) = (&self.store.url, &self.on_failure);
        f.debug_struct("SharedSettings")
            .field("url", url)
            .field("on_failure", on_failure)
            .finish_non_exhaustive()
    }
}
