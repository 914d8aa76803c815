//! Keeps the credentials in step with their files. Either all files are valid, match each other and become live
//! together, or nothing changes.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use tollgate::{Clock, SystemClock, Timestamp};
use tracing::{error, info, warn};

use super::alpn::Alpn;
use super::credentials::{Credentials, TlsFileError};
use super::files::{TlsFiles, TlsLook};
use super::security::Security;
use crate::live::cause::Cause;
use crate::live::follow::{Followed, Glance, SECOND_LOOK, SLOW_WRITER};

/// The days before its expiry on which the log warns about a certificate.
const SOON: i64 = 14;

const DAY_MILLIS: i64 = 86_400_000;

/// The TLS of all listeners.
pub(crate) struct ServerTls {
    files: TlsFiles,
    live: ArcSwap<Credentials>,
    /// Held for a whole reload, so that reloads never overlap.
    read: Mutex<ReadLast>,
    reloads: TlsReloads,
    /// The days until the expiry of the live certificate that the log last told; [`UNTOLD`] if none.
    told_days: AtomicI64,
}

const UNTOLD: i64 = i64::MAX;

/// A remark about the expiry of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expiry {
    Soon,
    Past,
}

/// The files of the last read.
struct ReadLast {
    live: TlsLook,
    /// Set if they did not become live, so that this is logged once.
    failed: Option<TlsLook>,
}

/// The outcomes of reloads so far.
///
/// Every access is relaxed: the counts are independent and guard no other memory.
#[derive(Debug, Default)]
pub(crate) struct TlsReloads {
    replaced: AtomicU64,
    unchanged: AtomicU64,
    failed: AtomicU64,
    is_out_of_step: AtomicBool,
}

impl ServerTls {
    /// Reads the files for the first time.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, does not contain the expected data, or does not match another.
    pub(crate) fn load(files: TlsFiles) -> Result<Self, TlsFileError> {
        let look = files.look();
        let credentials = Credentials::new(&look)?;
        let read = Mutex::new(ReadLast { live: look, failed: None });
        let (live, reloads) = (ArcSwap::from_pointee(credentials), TlsReloads::default());
        Ok(Self { files, live, read, reloads, told_days: AtomicI64::new(UNTOLD) })
    }

    pub(crate) fn files(&self) -> &TlsFiles {
        &self.files
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

    pub(crate) fn reloads(&self) -> &TlsReloads {
        &self.reloads
    }

    /// Warns of probable mistakes in the live files.
    pub(crate) fn log_warnings(&self) {
        let read = lock(&self.read);
        self.warn_of(&read.live);
    }

    fn warn_of(&self, look: &TlsLook) {
        if let Some(mode) = look.key.public_mode {
            let (file, mode) = (look.key.path.display(), format_args!("{mode:o}"));
            warn!(%file, %mode, "every user of this machine can read the private key");
        }
        self.tell_expiry();
    }

    /// Warns that the live certificate expires soon, or has expired, once a day.
    fn tell_expiry(&self) {
        let Some(remark) = self.remark_on_expiry(SystemClock.now()) else { return };
        let date = jiff::Timestamp::from_millisecond(self.expiry().as_unix_millis()).unwrap_or_default();
        let file = self.files.certificate.display();
        match remark {
            Expiry::Past => {
                warn!(%file, expiry = %date, "the certificate has expired: clients will refuse it")
            }
            Expiry::Soon => warn!(%file, expiry = %date, "the certificate expires soon"),
        }
    }

    /// Returns what the log should say about the live certificate now, if it has not said so today.
    fn remark_on_expiry(&self, now: Timestamp) -> Option<Expiry> {
        let left = self.expiry().as_unix_millis() - now.as_unix_millis();
        let days = left.div_euclid(DAY_MILLIS);
        // Relaxed, here and below: the number guards no other memory.
        let is_news = days < SOON && self.told_days.swap(days, Ordering::Relaxed) != days;
        is_news.then_some(if left <= 0 { Expiry::Past } else { Expiry::Soon })
    }

    fn take(&self, read: &mut ReadLast, look: TlsLook, cause: Cause) {
        let is_known = |known: Option<&TlsLook>| known.is_some_and(|known| known.holds_same(&look));
        if cause.is_guess() && is_known(read.failed.as_ref().or(Some(&read.live))) {
            // The event was about another file in the folder.
            return;
        }
        let (certificate, cause) = (self.files.certificate.display(), cause.name());
        if is_known(Some(&read.live)) {
            read.failed = None;
            self.reloads.is_out_of_step.store(false, Ordering::Relaxed);
            self.reloads.unchanged.fetch_add(1, Ordering::Relaxed);
            info!(%certificate, cause, "certificates are unchanged");
            return;
        }
        match Credentials::new(&look) {
            Ok(credentials) => {
                self.live.store(Arc::new(credentials));
                self.told_days.store(UNTOLD, Ordering::Relaxed);
                self.reloads.is_out_of_step.store(false, Ordering::Relaxed);
                self.reloads.replaced.fetch_add(1, Ordering::Relaxed);
                info!(%certificate, cause, "certificates are replaced");
                self.warn_of(&look);
                *read = ReadLast { live: look, failed: None };
            }
            Err(error) => {
                self.reloads.is_out_of_step.store(true, Ordering::Relaxed);
                self.reloads.failed.fetch_add(1, Ordering::Relaxed);
                error!(cause, "certificates stay as they are: `{}`: {error}", error.flag);
                read.failed = Some(look);
            }
        }
    }
}

impl Followed for ServerTls {
    type Look = TlsLook;

    fn glance(&self, earlier: Option<&TlsLook>, is_over: bool, cause: Cause) -> Glance<TlsLook> {
        let mut read = lock(&self.read);
        self.tell_expiry();
        let look = self.files.look();
        let is_known = read.failed.as_ref().unwrap_or(&read.live).holds_same(&look);
        let is_same = earlier.is_some_and(|earlier| earlier.is_same(&look));
        // A file that was renamed into place may be the first of two.
        if !cause.is_guess() || is_known || is_same && is_over {
            self.take(&mut read, look, cause);
            return Glance::Settled;
        }
        if is_same {
            return Glance::Same;
        }
        let is_whole = !look.is_shorter(&read.live) && Credentials::new(&look).is_ok();
        Glance::Changed(look, if is_whole { SECOND_LOOK } else { SLOW_WRITER })
    }
}

impl TlsReloads {
    /// Returns the number of reloads by outcome.
    pub(crate) fn counts(&self) -> [(&'static str, u64); 3] {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("replaced", count(&self.replaced)),
            ("unchanged", count(&self.unchanged)),
            ("failed", count(&self.failed)),
        ]
    }

    /// Returns whether the files of the last read are live.
    pub(crate) fn are_in_step(&self) -> bool {
        !self.is_out_of_step.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerTls").field("files", &self.files).finish_non_exhaustive()
    }
}

/// Nothing under this lock leaves a half-made change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use rcgen::{CertificateParams, KeyPair};
    use tempfile::TempDir;

    use super::*;

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
        tls: ServerTls,
    }

    impl Loaded {
        /// `more` follows the certificate in its file.
        fn new(more: &str) -> Self {
            let (folder, pair) = (tempfile::tempdir().unwrap(), pair());
            let path = |name: &str| folder.path().join(name);
            fs::write(path("tls.crt"), pair[0].clone() + more).unwrap();
            fs::write(path("tls.key"), &pair[1]).unwrap();
            let files =
                TlsFiles { certificate: path("tls.crt"), key: path("tls.key"), client_authorities: None };
            Self { tls: ServerTls::load(files).unwrap(), folder, pair }
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.folder.path().join(name), text).unwrap();
        }

        /// Returns the number of reloads that replaced something, changed nothing, and failed.
        fn outcomes(&self) -> [u64; 3] {
            self.tls.reloads().counts().map(|(_, count)| count)
        }
    }

    fn changed(glance: Glance<TlsLook>) -> (TlsLook, Duration) {
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
        let tls = &loaded.tls;
        assert!(matches!(tls.glance(None, false, Cause::Rename), Glance::Settled));

        let [certificate, key] = pair();
        // Signatures differ in length by some bytes, and a file that got shorter may be half written.
        loaded.write("tls.crt", &(certificate + &"\n".repeat(16)));
        let (half, rest) = changed(tls.glance(None, false, Cause::Rename));
        assert_eq!(rest, SLOW_WRITER);
        loaded.write("tls.key", &key);
        let (whole, rest) = changed(tls.glance(Some(&half), false, Cause::Rename));
        assert_eq!((rest, loaded.outcomes()), (SECOND_LOOK, [0, 0, 0]));
        assert!(matches!(tls.glance(Some(&whole), false, Cause::Watch), Glance::Same));
        assert!(matches!(tls.glance(Some(&whole), true, Cause::Watch), Glance::Settled));
        assert_eq!((loaded.outcomes(), tls.reloads().are_in_step()), ([1, 0, 0], true));
    }

    #[test]
    fn an_invalid_file_is_logged_once_and_the_last_good_one_stays() {
        let loaded = Loaded::new("");
        let tls = &loaded.tls;
        let before = tls.config(Security::Tls, Alpn::Http);

        loaded.write("tls.crt", &pair()[0]);
        let (look, _) = changed(tls.glance(None, false, Cause::Watch));
        assert!(matches!(tls.glance(Some(&look), true, Cause::Watch), Glance::Settled));
        assert!(matches!(tls.glance(None, false, Cause::Interval), Glance::Settled));
        assert_eq!((loaded.outcomes(), tls.reloads().are_in_step()), ([0, 0, 1], false));
        assert!(matches!(tls.glance(None, false, Cause::Signal), Glance::Settled));
        assert_eq!(loaded.outcomes(), [0, 0, 2], "who asks is told again");
        assert!(Arc::ptr_eq(&tls.config(Security::Tls, Alpn::Http), &before));

        loaded.write("tls.crt", &loaded.pair[0]);
        let (look, _) = changed(tls.glance(None, false, Cause::Watch));
        assert!(matches!(tls.glance(Some(&look), true, Cause::Watch), Glance::Settled));
        assert_eq!((loaded.outcomes(), tls.reloads().are_in_step()), ([0, 1, 2], true));
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
        };
        let tickets = |tls: &ServerTls, security| tls.config(security, Alpn::Http).send_tls13_tickets;
        let mutual = ServerTls::load(files(Some(path("tls.crt")))).unwrap();
        assert_ne!(tickets(&mutual, Security::Tls), 0);
        assert_eq!(tickets(&mutual, Security::Mutual), 0);
        assert_ne!(tickets(&ServerTls::load(files(None)).unwrap(), Security::Tls), 0);
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
    fn an_expiry_is_told_once_a_day() {
        let loaded = Loaded::new("");
        let tls = &loaded.tls;
        let hours = |hours: i64| {
            let now = tls.expiry().as_unix_millis() + hours * 3_600_000;
            tls.remark_on_expiry(Timestamp::from_unix_millis(now))
        };
        assert_eq!([hours(-24 * 365), hours(-24 * 14)], [None; 2]);
        assert_eq!([hours(-335), hours(-334), hours(-313)], [Some(Expiry::Soon), None, None]);
        assert_eq!([hours(-311), hours(-289), hours(-1)], [Some(Expiry::Soon), None, Some(Expiry::Soon)]);
        assert_eq!([hours(1), hours(2), hours(25)], [Some(Expiry::Past), None, Some(Expiry::Past)]);

        let [certificate, key] = pair();
        loaded.write("tls.crt", &certificate);
        loaded.write("tls.key", &key);
        assert!(matches!(tls.glance(None, false, Cause::Signal), Glance::Settled));
        assert_eq!([hours(-1), hours(-1)], [Some(Expiry::Soon), None], "it is another certificate");
    }

    /// A list of authorities that is written slowly is valid after each authority.
    #[test]
    fn a_chain_that_has_become_shorter_waits() {
        let [more, _] = pair();
        let loaded = Loaded::new(&more);
        let [certificate, _] = &loaded.pair;
        loaded.write("tls.crt", certificate);
        assert_eq!(changed(loaded.tls.glance(None, false, Cause::Watch)).1, SLOW_WRITER);
        loaded.write("tls.crt", &[certificate, &*more, &*more].concat());
        assert_eq!(changed(loaded.tls.glance(None, false, Cause::Watch)).1, SECOND_LOOK);
    }
}
