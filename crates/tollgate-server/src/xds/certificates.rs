//! The certificates of the connection to a management server, which follow their files.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::sync::Notify;
use tollgate_redis::{Tls, TlsError};
use tracing::{error, info, warn};

use crate::live::watch::FolderWatch;
use crate::observe::log_gap::LogGap;
use crate::observe::with_sources::WithSources;

/// The protocol of gRPC, which the server may demand in the handshake.
const HTTP2: &[u8] = b"h2";

/// The time between two log lines about files that cannot be used.
const LOG_GAP: Duration = Duration::from_secs(60);

/// Certificates that were read from files.
#[derive(Debug)]
pub(crate) struct XdsCertificates {
    /// The certificates that are trusted. `None` for those of the system.
    authorities: Option<PathBuf>,
    /// The certificate to show, and its key.
    client: Option<(PathBuf, PathBuf)>,
    /// The name that the server's certificate must have.
    server_name: ServerName<'static>,
    live: Mutex<LoadedCertificates>,
    /// Notified when other certificates are live.
    renewed: Notify,
    failure_logged: LogGap,
}

/// What the files held when they were read.
#[derive(Debug, Clone)]
struct LoadedCertificates {
    tls: Tls,
    config: Arc<ClientConfig>,
}

impl XdsCertificates {
    /// Reads the files for the first time.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or the certificates cannot be used.
    pub(crate) fn load(
        authorities: Option<PathBuf>,
        client: Option<(PathBuf, PathBuf)>,
        server_name: ServerName<'static>,
    ) -> Result<Self, TlsError> {
        let live = LoadedCertificates::read(authorities.as_ref(), client.as_ref())?;
        Ok(Self {
            authorities,
            client,
            server_name,
            live: Mutex::new(live),
            renewed: Notify::new(),
            failure_logged: LogGap::default(),
        })
    }

    /// Returns the file of the private key, if a certificate is shown.
    pub(crate) fn key_file(&self) -> Option<&PathBuf> {
        self.client.as_ref().map(|(_, key)| key)
    }

    /// Returns the name that the server's certificate must have.
    pub(super) fn server_name(&self) -> ServerName<'static> {
        self.server_name.clone()
    }

    /// Returns the configuration of a new connection. It reads the files again; while they cannot be used, the last
    /// certificates are used.
    pub(super) async fn config(self: Arc<Self>) -> Arc<ClientConfig> {
        self.refresh_elsewhere().await;
        Arc::clone(&lock(&self.live).config)
    }

    /// Waits until the files hold other certificates than those of the last connection.
    pub(super) async fn renewed(&self) {
        self.renewed.notified().await;
    }

    /// Keeps the certificates in step with their files.
    pub(super) async fn follow(self: Arc<Self>) {
        let client = self.client.iter().flat_map(|(certificate, key)| [certificate, key]);
        let paths: Vec<&PathBuf> = self.authorities.iter().chain(client).collect();
        let watch = Arc::new(FolderWatch::start(&paths));
        loop {
            let _ = watch.changed().await;
            let armed = Arc::clone(&watch);
            // It reads folders.
            let _ = tokio::task::spawn_blocking(move || armed.arm()).await;
            if self.refresh_elsewhere().await {
                info!("the certificates for the xDS server have changed: connecting again");
                self.renewed.notify_one();
            }
        }
    }

    /// Reads the files again, on another thread. Returns whether they hold other certificates than before.
    async fn refresh_elsewhere(self: &Arc<Self>) -> bool {
        let certificates = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || certificates.refresh()).await;
        read.unwrap_or_else(|failure| {
            error!(%failure, "a look at the certificates for the xDS server ended unexpectedly");
            false
        })
    }

    /// Reads the files again. Returns whether they hold other certificates than before.
    fn refresh(&self) -> bool {
        let read = match LoadedCertificates::read(self.authorities.as_ref(), self.client.as_ref()) {
            Ok(read) => read,
            // Files may be written one by one.
            Err(error) => {
                if self.failure_logged.passes(LOG_GAP) {
                    let error = WithSources(&error);
                    warn!("the last certificates for the xDS server stay in use: {error}");
                }
                return false;
            }
        };
        let mut live = lock(&self.live);
        let differs = read.tls != live.tls;
        if differs {
            *live = read;
        }
        differs
    }
}

impl LoadedCertificates {
    fn read(authorities: Option<&PathBuf>, client: Option<&(PathBuf, PathBuf)>) -> Result<Self, TlsError> {
        let mut tls = Tls::new();
        if let Some(authorities) = authorities {
            tls = tls.with_ca_file(authorities)?;
        }
        if let Some((certificate, key)) = client {
            tls = tls.with_client_files(certificate, key)?;
        }
        let mut config = tls.config()?;
        config.alpn_protocols = vec![HTTP2.into()];
        Ok(Self { tls, config: Arc::new(config) })
    }
}

/// Nothing under this lock leaves a half-made change.
fn lock(live: &Mutex<LoadedCertificates>) -> MutexGuard<'_, LoadedCertificates> {
    live.lock().unwrap_or_else(PoisonError::into_inner)
}
