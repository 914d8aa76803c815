//! The credentials for new connections: passwords and certificates, as currently in their files.
//!
//! Files are read again for each connection. That is soon enough, because open connections stay open, and a refused
//! connection is retried with the contents of the files at that time.

use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::spawn_blocking;

use crate::password::Password;
use crate::tls::{Tls, TlsError};

/// The credentials for new connections.
pub(crate) struct Credentials {
    known: Mutex<Arc<KnownCredentials>>,
    /// Held while files are read.
    reading: Mutex<()>,
}

/// Passwords and certificates as they were read last.
#[derive(Clone)]
pub(crate) struct KnownCredentials {
    pub(crate) password: Option<Password>,
    pub(crate) sentinel_password: Option<Password>,
    pub(crate) tls: Option<TlsClientSettings>,
    /// Why something of it is older than the last look at the files.
    pub(crate) unread: Option<Box<str>>,
}

/// The settings for TLS connections.
#[derive(Clone)]
pub(crate) struct TlsClientSettings {
    tls: Tls,
    pub(crate) config: Arc<rustls::ClientConfig>,
}

impl Credentials {
    pub(crate) fn new(
        password: Option<Password>,
        sentinel_password: Option<Password>,
        tls: Option<TlsClientSettings>,
    ) -> Self {
        let known = KnownCredentials { password, sentinel_password, tls, unread: None };
        Self { known: Mutex::new(Arc::new(known)), reading: Mutex::default() }
    }

    /// Returns the current contents of the files or, for unusable files, the last usable contents.
    pub(crate) async fn current(self: &Arc<Self>) -> Arc<KnownCredentials> {
        let known = self.known();
        if !known.is_in_files() {
            return known;
        }
        let credentials = Arc::clone(self);
        spawn_blocking(move || credentials.read_again()).await.unwrap_or(known)
    }

    fn read_again(&self) -> Arc<KnownCredentials> {
        // One at a time, because reading can hang with its file system, and each reading occupies a thread.
        let Ok(_reading) = self.reading.try_lock() else { return self.known() };
        let next = Arc::new(self.known().read_again());
        *self.lock() = Arc::clone(&next);
        next
    }

    fn known(&self) -> Arc<KnownCredentials> {
        Arc::clone(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Arc<KnownCredentials>> {
        // Nothing that holds it can panic.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownCredentials {
    fn is_in_files(&self) -> bool {
        let passwords = [&self.password, &self.sentinel_password];
        self.tls.as_ref().is_some_and(|it| !it.tls.is_empty())
            || passwords.into_iter().flatten().any(Password::is_in_file)
    }

    fn read_again(&self) -> Self {
        let (mut next, mut unread) = (self.clone(), None);
        for password in [&mut next.password, &mut next.sentinel_password].into_iter().flatten() {
            keep(password, Password::read_again, &mut unread);
        }
        if let Some(tls) = &mut next.tls {
            // One by one: a certificate without its key yet does not keep the other side from being trusted.
            keep(tls, |known| known.as_now(known.tls.clone().with_ca_again()?), &mut unread);
            keep(tls, |known| known.as_now(known.tls.clone().with_client_again()?), &mut unread);
        }
        Self { unread, ..next }
    }
}

/// Replaces this with the newly read value, or notes the error.
fn keep<T, E: Error>(
    known: &mut T,
    read_again: impl FnOnce(&T) -> Result<T, E>,
    unread: &mut Option<Box<str>>,
) {
    match read_again(known) {
        Ok(next) => *known = next,
        Err(error) => *unread = Some(said(&error).into()),
    }
}

/// The error and its sources in one line.
fn said(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {}", said(source)))
}

impl TlsClientSettings {
    /// # Errors
    ///
    /// If certificates or keys are unfit.
    pub(crate) fn new(tls: Tls) -> Result<Self, TlsError> {
        let config = Arc::new(tls.config()?);
        Ok(Self { tls, config })
    }

    /// Returns the settings with the newly read files. If these are unchanged, so are the settings, which keeps
    /// sessions that can be resumed.
    fn as_now(&self, tls: Tls) -> Result<Self, TlsError> {
        if tls == self.tls { Ok(self.clone()) } else { Self::new(tls) }
    }
}
