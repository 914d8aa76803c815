//! The connection settings of a store.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use thiserror::Error;

use crate::credentials::{Credentials, TlsClientSettings};
use crate::dial::LookUps;
use crate::lane::Bounds;
use crate::password::{Password, PasswordError};
use crate::rights::Rights;
use crate::tls::{Tls, TlsError};
use crate::url::{StorePlace, StoreUrl, Transport, UrlError};

/// The default deadline of a decision.
///
/// A shorter time saves little, because callers wait for a silent server only until its connections are given up. But
/// it makes a busy machine an outage. A service that had just started was asked 200 at once on two processors with five
/// runnable threads each; the store missed a deadline of 20 ms in 63 bursts of 80, one of 50 ms in 19, and one of 100
/// ms in none (`cargo xtask prove burst`).
const TIMEOUT: Duration = Duration::from_millis(100);

/// The default time for setting up a connection. It takes at least two replies, each of which may be late by a whole
/// deadline. Longer attempts would keep a server that is back from being noticed within two seconds.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// The longest wait; it can be added to any instant.
pub(crate) const LONGEST: Duration = Duration::from_secs(86_400);

/// The settings for reaching the servers of a store: the URL's and others.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) url: StoreUrl,
    /// The deadline of a decision.
    pub(crate) timeout: Duration,
    /// The time limit for setting up one connection, including TLS and login.
    pub(crate) connect_timeout: Duration,
    /// Connections to each server. One carries as much as a server can count; a second one keeps serving while the
    /// first reconnects.
    pub(crate) connections: usize,
    /// Counters that may be in flight to each server.
    pub(crate) counters_in_flight: usize,
    pub(crate) tls: Tls,
    pub(crate) sentinel_user: Option<Box<str>>,
    pub(crate) sentinel_password: Option<Password>,
    /// The rights that the user needs, if they are to be checked.
    pub(crate) rights: Option<Rights>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, timeout, connect_timeout, connections, counters_in_flight, tls, .. } = self;
        f.debug_struct("Settings")
            .field("url", url)
            .field("timeout", timeout)
            .field("connect_timeout", connect_timeout)
            .field("connections", connections)
            .field("counters_in_flight", counters_in_flight)
            .field("tls", tls)
            .finish_non_exhaustive()
    }
}

/// An invalid configuration of a store. The fault of its author.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The URL of the store.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// A password that cannot be read from its configured place.
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// Certificates or keys.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// There is a user but no password.
    #[error("the store's URL names a user, but no password is set")]
    PasswordMissing,
    /// There is a user for the Sentinels but no password.
    #[error("a user for the Sentinels is set, but no password")]
    SentinelPasswordMissing,
    /// There is a login for Sentinels, but the URL names none.
    #[error("a login for Sentinels is set, but the store's URL names no Sentinels: use redis+sentinel://")]
    SentinelsMissing,
    /// There is a secret for digests of keys, but the layout writes keys without digests.
    #[error("a secret for key digests is set, but the key layout writes keys without digests")]
    NeedlessIdentitySecret,
    /// There are certificates, but the URL does not use TLS.
    #[error("certificates are set, but the store's URL does not use TLS: use rediss:// or valkeys://")]
    TlsUnused,
}

/// Checked settings.
pub(crate) struct CheckedSettings {
    pub(crate) settings: Settings,
    pub(crate) credentials: Arc<Credentials>,
    pub(crate) look_ups: LookUps,
    /// Replies that came after their deadline, of all servers.
    pub(crate) late_replies: Arc<AtomicU64>,
    /// The texts of the scripts that servers must have.
    pub(crate) scripts: &'static [&'static str],
}

impl Settings {
    pub(crate) fn new(url: StoreUrl) -> Self {
        Self {
            url,
            timeout: TIMEOUT,
            connect_timeout: CONNECT_TIMEOUT,
            connections: 2,
            counters_in_flight: 16_384,
            tls: Tls::new(),
            sentinel_user: None,
            sentinel_password: None,
            rights: None,
        }
    }

    /// Returns the limits of a server's lane.
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds { under_way: self.counters_in_flight, prompt: self.timeout / 2 }
    }

    /// # Errors
    ///
    /// If certificates or keys are unfit, or parts contradict each other.
    pub(crate) fn check(
        self,
        scripts: &'static [&'static str],
    ) -> Result<Arc<CheckedSettings>, SettingsError> {
        if self.url.user.is_some() && self.url.password.is_none() {
            return Err(SettingsError::PasswordMissing);
        }
        let has_sentinels = matches!(self.url.place, StorePlace::Sentinel { .. });
        match (&self.sentinel_user, &self.sentinel_password) {
            (Some(_), None) => return Err(SettingsError::SentinelPasswordMissing),
            (_, Some(_)) if !has_sentinels => return Err(SettingsError::SentinelsMissing),
            _ => {}
        }
        let tls = match self.url.transport {
            Transport::Tls => Some(TlsClientSettings::new(self.tls.clone())?),
            Transport::Plain if !self.tls.is_empty() => return Err(SettingsError::TlsUnused),
            Transport::Plain => None,
        };
        let (look_ups, late_replies) = Default::default();
        let (password, sentinel_password) = (self.url.password.clone(), self.sentinel_password.clone());
        let credentials = Arc::new(Credentials::new(password, sentinel_password, tls));
        Ok(Arc::new(CheckedSettings { settings: self, credentials, look_ups, late_replies, scripts }))
    }
}
