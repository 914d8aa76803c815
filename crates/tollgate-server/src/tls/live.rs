//! The credentials that are live. Either all files are valid, match each other and become live together, or nothing
//! changes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use tollgate::{Clock, SystemClock, Timestamp};
use tracing::warn;

use super::alpn::Alpn;
use super::credentials::{Credentials, TlsFileError};
use super::files::{TlsFiles, TlsReading};
use super::security::Security;
use crate::live::record::Changes;
use crate::live::reload::{FileSource, Reloads, WAIT_IF_HALF, WAIT_IF_WHOLE};
use crate::live::target::LiveTarget;

/// The days before its expiry on which the log warns about a certificate.
const SOON: i64 = 14;

const DAY_MILLIS: i64 = 86_400_000;

/// The TLS of all listeners.
pub(crate) struct ServerTls {
    files: TlsFiles,
    live: ArcSwap<Credentials>,
    /// The days until the expiry of the live certificate in the last line of the log about it; [`NEVER`] if there is
    /// none.
    logged_days: AtomicI64,
}

const NEVER: i64 = i64::MAX;

/// The files of certificates and keys, which are reloaded together.
pub(crate) struct TlsSource {
    files: TlsFiles,
    name: String,
    /// The reading that was parsed last, valid or not.
    last: Arc<TlsReading>,
    /// The last valid one.
    live: Arc<TlsReading>,
}

/// The live credentials of a service, and the files that they were read from.
pub(crate) struct LiveCredentials {
    tls: Arc<ServerTls>,
    reading: Arc<TlsReading>,
    version: u64,
}

/// A remark about the expiry of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpiryRemark {
    Soon,
    Past,
}

/// The error in a file, with the flag that names it.
pub(crate) struct TlsReloadError(TlsFileError);

impl ServerTls {
    /// Reads the files for the first time. Returns the reading as well, for [`reloads`](Self::reloads): it holds the
    /// private key, and stays in memory only until other files are live.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, does not contain the expected data, or does not match another.
    pub(crate) fn load(files: TlsFiles) -> Result<(Self, TlsReading), TlsFileError> {
        let reading = files.read();
        let live = ArcSwap::from_pointee(Credentials::new(&reading)?);
        Ok((Self { files, live, logged_days: AtomicI64::new(NEVER) }, reading))
    }

    /// Returns what keeps the credentials in step with their files, of which this is the first reading.
    pub(crate) fn reloads(self: &Arc<Self>, reading: TlsReading) -> Reloads<TlsSource, LiveCredentials> {
        let reading = Arc::new(reading);
        let name = self.files.certificate.display().to_string();
        let (last, live) = (Arc::clone(&reading), Arc::clone(&reading));
        let source = TlsSource { files: self.files.clone(), name, last, live };
        Reloads::new(source, LiveCredentials { tls: Arc::clone(self), reading, version: 1 })
    }

    /// Returns whether clients must present a certificate.
    pub(crate) fn is_mutual(&self) -> bool {
        self.files.client_authorities.is_some()
    }

    /// Returns the configuration for a new connection of a listener.
    pub(crate) fn config(&self, security: Security, alpn: Alpn) -> Arc<ServerConfig> {
        let live = self.live.load();
        // On a listener with TLS alone, clients show no certificate, even if other listeners demand one.
        let configs = if security == Security::Tls { &live.open } else { &live.demanding };
        configs.of(alpn)
    }

    /// Returns when the live certificate expires.
    pub(crate) fn expiry(&self) -> Timestamp {
        self.live.load().expiry
    }

    /// Warns of probable mistakes in the live files, which this is the reading of.
    pub(crate) fn log_warnings(&self, reading: &TlsReading) {
        if let Some(mode) = reading.key.public_mode {
            let (file, mode) = (reading.key.path.display(), format_args!("{mode:o}"));
            warn!(%file, %mode, "every user of this machine can read the private key");
        }
        self.log_expiry();
    }

    /// Warns that the live certificate expires soon, or has expired, once a day.
    fn log_expiry(&self) {
        let Some(remark) = self.remark_on_expiry(SystemClock.now()) else { return };
        let date = jiff::Timestamp::from_millisecond(self.expiry().as_unix_millis()).unwrap_or_default();
        let file = self.files.certificate.display();
        match remark {
            ExpiryRemark::Past => {
                warn!(%file, expiry = %date, "the certificate has expired: clients will refuse it")
            }
            ExpiryRemark::Soon => warn!(%file, expiry = %date, "the certificate expires soon"),
        }
    }

    /// Returns what the log should say about the live certificate now, if it has not said so today.
    fn remark_on_expiry(&self, now: Timestamp) -> Option<ExpiryRemark> {
        let left = self.expiry().as_unix_millis() - now.as_unix_millis();
        let days = left.div_euclid(DAY_MILLIS);
        // Relaxed, here and below: the number guards no other memory.
        let is_news = days < SOON && self.logged_days.swap(days, Ordering::Relaxed) != days;
        is_news.then_some(if left <= 0 { ExpiryRemark::Past } else { ExpiryRemark::Soon })
    }
}

impl FileSource for TlsSource {
    type Reading = TlsReading;

    type Content = (Credentials, Arc<TlsReading>);

    type Error = TlsReloadError;

    fn name(&self) -> &str {
        &self.name
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.files.paths().into_iter().map(Path::to_path_buf).collect()
    }

    fn read(&self) -> TlsReading {
        self.files.read()
    }

    fn is_same(&self, earlier: &TlsReading, later: &TlsReading) -> bool {
        earlier.is_same(later)
    }

    fn is_known(&self, reading: &TlsReading) -> bool {
        self.last.holds_same(reading)
    }

    /// A file that was renamed into place may be the first of two.
    fn are_several(&self) -> bool {
        true
    }

    fn wait(&self, reading: &TlsReading) -> Duration {
        let is_whole = !reading.is_shorter(&self.live) && Credentials::new(reading).is_ok();
        if is_whole { WAIT_IF_WHOLE } else { WAIT_IF_HALF }
    }

    fn parse(&mut self, reading: TlsReading) -> Result<Self::Content, TlsReloadError> {
        let reading = Arc::new(reading);
        self.last = Arc::clone(&reading);
        let credentials = Credentials::new(&reading).map_err(TlsReloadError)?;
        self.live = Arc::clone(&reading);
        Ok((credentials, reading))
    }
}

impl LiveTarget for LiveCredentials {
    const NAME: &'static str = "certificates";

    type Content = (Credentials, Arc<TlsReading>);

    fn go_live(&mut self, (credentials, reading): Self::Content, _: &str) -> Option<Changes> {
        let files = reading.all().zip(self.reading.all());
        let changed = files.filter(|(now, before)| now.bytes.as_ref().ok() != before.bytes.as_ref().ok());
        let changes = Changes::of(changed.map(|(now, _)| format!("{} has changed", now.path.display())))?;
        self.tls.live.store(Arc::new(credentials));
        self.tls.logged_days.store(NEVER, Ordering::Relaxed);
        self.tls.log_warnings(&reading);
        self.reading = reading;
        self.version += 1;
        Some(changes)
    }

    fn version(&self) -> u64 {
        self.version
    }

    /// The log says once a day that a certificate expires soon.
    fn remind(&self) {
        self.tls.log_expiry();
    }
}

impl fmt::Display for TlsReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.0.flag, self.0)
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").field("files", &self.files).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use rcgen::{CertificateParams, KeyPair};
    use tempfile::TempDir;

    use super::*;
    use crate::live::cause::Cause;
    use crate::live::reload::{Glance, Reload};

    /// A certificate and its key, as PEM.
    fn pair() -> [String; 2] {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        [certificate.pem(), key.serialize_pem()]
    }

    /// The files of a service that has loaded them.
    struct Loaded {
        folder: TempDir,
        /// The first certificate and its key.
        pair: [String; 2],
        tls: Arc<ServerTls>,
        reloads: Reloads<TlsSource, LiveCredentials>,
    }

    impl Loaded {
        /// `more` follows the certificate in its file.
        fn new(more: &str) -> Self {
            let (folder, pair) = (tempfile::tempdir().unwrap(), pair());
            let path = |name: &str| folder.path().join(name);
            fs::write(path("tls.crt"), pair[0].clone() + more).unwrap();
            fs::write(path("tls.key"), &pair[1]).unwrap();
            let files = TlsFiles {
                certificate: path("tls.crt"),
                key: path("tls.key"),
                client_authorities: None,
                client_name: None,
            };
            let (tls, reading) = ServerTls::load(files).unwrap();
            let tls = Arc::new(tls);
            Self { reloads: tls.reloads(reading), tls, folder, pair }
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.folder.path().join(name), text).unwrap();
        }

        /// Returns the number of reloads that replaced something, changed nothing, and failed.
        fn outcomes(&self) -> [u64; 3] {
            self.reloads.state().counts().map(|(_, count)| count)
        }
    }

    fn changed(glance: Glance<TlsReading>) -> (TlsReading, Duration) {
        match glance {
            Glance::Changed(look, rest) => (look, rest),
            Glance::Settled => panic!("it was taken"),
            Glance::Same => panic!("it is the same"),
        }
    }

    /// A new certificate with the old key is only half of a change, even if each file is renamed into place.
    #[test]
    fn a_certificate_waits_for_its_key() {
        let loaded = Loaded::new("");
        let reloads = &loaded.reloads;
        assert!(matches!(reloads.glance(None, false, Cause::Rename), Glance::Settled));

        let [certificate, key] = pair();
        // Signatures differ in length by some bytes, and a file that got shorter may be half written.
        loaded.write("tls.crt", &(certificate + &"\n".repeat(16)));
        let (half, rest) = changed(reloads.glance(None, false, Cause::Rename));
        assert_eq!(rest, WAIT_IF_HALF);
        loaded.write("tls.key", &key);
        let (whole, rest) = changed(reloads.glance(Some(&half), false, Cause::Rename));
        assert_eq!((rest, loaded.outcomes()), (WAIT_IF_WHOLE, [0, 0, 0]));
        assert!(matches!(reloads.glance(Some(&whole), false, Cause::Watch), Glance::Same));
        assert!(matches!(reloads.glance(Some(&whole), true, Cause::Watch), Glance::Settled));
        assert_eq!((loaded.outcomes(), reloads.state().failure().is_none()), ([1, 0, 0], true));
    }

    #[test]
    fn an_invalid_file_is_logged_once_and_the_last_good_one_stays() {
        let loaded = Loaded::new("");
        let (tls, reloads) = (&loaded.tls, &loaded.reloads);
        let before = tls.config(Security::Tls, Alpn::Http);

        loaded.write("tls.crt", &pair()[0]);
        let (look, _) = changed(reloads.glance(None, false, Cause::Watch));
        assert!(matches!(reloads.glance(Some(&look), true, Cause::Watch), Glance::Settled));
        assert!(matches!(reloads.glance(None, false, Cause::Interval), Glance::Settled));
        assert_eq!((loaded.outcomes(), reloads.state().failure().is_none()), ([0, 0, 1], false));
        assert!(matches!(reloads.glance(None, false, Cause::Signal), Glance::Settled));
        assert_eq!(loaded.outcomes(), [0, 0, 2], "a requested reload is logged again");
        assert!(Arc::ptr_eq(&tls.config(Security::Tls, Alpn::Http), &before));

        loaded.write("tls.crt", &loaded.pair[0]);
        let (look, _) = changed(reloads.glance(None, false, Cause::Watch));
        assert!(matches!(reloads.glance(Some(&look), true, Cause::Watch), Glance::Settled));
        assert_eq!((loaded.outcomes(), reloads.state().failure().is_none()), ([0, 1, 2], true));
    }

    /// A scraper of metrics has no certificate. Tickets would resume sessions, and a resumed session shows no
    /// certificate.
    #[test]
    fn a_listener_with_tls_alone_demands_no_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let [certificate, key] = pair();
        fs::write(path("tls.crt"), certificate).unwrap();
        fs::write(path("tls.key"), key).unwrap();
        let files = |client_authorities| TlsFiles {
            certificate: path("tls.crt"),
            key: path("tls.key"),
            client_authorities,
            client_name: None,
        };
        let tickets = |tls: &ServerTls, security| tls.config(security, Alpn::Http).send_tls13_tickets;
        let (mutual, _) = ServerTls::load(files(Some(path("tls.crt")))).unwrap();
        assert_ne!(tickets(&mutual, Security::Tls), 0);
        assert_eq!(tickets(&mutual, Security::Mutual), 0);
        assert_ne!(tickets(&ServerTls::load(files(None)).unwrap().0, Security::Tls), 0);
    }

    /// Each handshake of a gRPC client copied the whole configuration, to change its list of protocols.
    #[test]
    fn all_handshakes_of_a_protocol_share_one_configuration() {
        let tls = Loaded::new("").tls;
        for (alpn, protocols) in [(Alpn::Http, &[&b"h2"[..], b"http/1.1"][..]), (Alpn::Http2, &[b"h2"])] {
            for security in [Security::Tls, Security::Mutual] {
                let config = tls.config(security, alpn);
                assert!(Arc::ptr_eq(&config, &tls.config(security, alpn)));
                assert_eq!(config.alpn_protocols, protocols);
            }
        }
    }

    /// The log warned at the start and after a change alone. A service that ran for a year never said that its
    /// certificate was about to expire.
    #[test]
    fn an_expiry_is_logged_once_a_day() {
        let loaded = Loaded::new("");
        let (tls, reloads) = (&loaded.tls, &loaded.reloads);
        let hours = |hours: i64| {
            let now = tls.expiry().as_unix_millis() + hours * 3_600_000;
            tls.remark_on_expiry(Timestamp::from_unix_millis(now))
        };
        assert_eq!([hours(-24 * 365), hours(-24 * 14)], [None; 2]);
        assert_eq!([hours(-335), hours(-334), hours(-313)], [Some(ExpiryRemark::Soon), None, None]);
        assert_eq!(
            [hours(-311), hours(-289), hours(-1)],
            [Some(ExpiryRemark::Soon), None, Some(ExpiryRemark::Soon)]
        );
        assert_eq!(
            [hours(1), hours(2), hours(25)],
            [Some(ExpiryRemark::Past), None, Some(ExpiryRemark::Past)]
        );

        let [certificate, key] = pair();
        loaded.write("tls.crt", &certificate);
        loaded.write("tls.key", &key);
        assert!(matches!(reloads.glance(None, false, Cause::Signal), Glance::Settled));
        assert_eq!([hours(-1), hours(-1)], [Some(ExpiryRemark::Soon), None], "it is another certificate");
    }

    /// A list of authorities that is written slowly is valid after each authority.
    #[test]
    fn a_chain_that_has_become_shorter_waits() {
        let [more, _] = pair();
        let loaded = Loaded::new(&more);
        let [certificate, _] = &loaded.pair;
        loaded.write("tls.crt", certificate);
        assert_eq!(changed(loaded.reloads.glance(None, false, Cause::Watch)).1, WAIT_IF_HALF);
        loaded.write("tls.crt", &[certificate, &*more, &*more].concat());
        assert_eq!(changed(loaded.reloads.glance(None, false, Cause::Watch)).1, WAIT_IF_WHOLE);
    }
}
