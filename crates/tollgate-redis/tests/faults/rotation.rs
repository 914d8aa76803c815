//! Passwords and certificates are replaced, and connections are cut meanwhile.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use tempfile::TempDir;
use tollgate_redis::{Password, RedisStoreBuilder, Tls};
use tollgate_testkit::servers::{Certificates, ClientCertificates, Data, Server, Settings};

use crate::crowd::{Crowd, Noticed};
use crate::fault::{Fault, Round};

/// The server takes another password than before, after a while in which it took both.
pub(crate) const PASSWORD: Fault = Fault { name: "password-rotation", round: password };

/// Another authority signs the certificates of both sides, after a while in which both authorities are trusted.
pub(crate) const CERTIFICATES: Fault = Fault { name: "certificate-rotation", round: certificates };

#[test]
fn nobody_is_refused_while_a_password_is_rotated() {
    PASSWORD.test(2);
}

#[test]
fn nobody_is_refused_while_certificates_are_rotated() {
    CERTIFICATES.test(2);
}

const ROTATIONS: u32 = 5;

/// How long setting up a connection may take: one that has read the old file is logged in by then, or has given up.
const LOGIN: Duration = Duration::from_millis(250);

/// Replaces the file as a whole.
fn write(folder: &TempDir, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let (path, new) = (folder.path().join(name), folder.path().join("new"));
    fs::write(&new, text).unwrap();
    fs::rename(&new, &path).unwrap();
    path
}

/// Cuts all connections at once.
fn cut(server: &Server) {
    server.command::<u64>(["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
}

fn password(round: &mut Round) {
    let server = Settings::new(round.software()).user("counter", "password-0", "~* +@all").start();
    let folder = tempfile::tempdir().unwrap();
    let file = write(&folder, "password", "password-0");
    let url = format!("redis://counter@{}", server.address());
    let tell =
        |builder: tollgate_redis::RedisStoreBuilder| builder.password(Password::from_file(&file).unwrap());
    let mut crowd = Crowd::start_as(&url, Data::Kept, tell);
    for number in 0..ROTATIONS {
        crowd.in_trouble(round, |round| {
            let next = format!("password-{}", number + 1);
            server.command::<()>(["ACL", "SETUSER", "counter", &format!(">{next}")]);
            sleep(round.millis(0..20));
            cut(&server);
            write(&folder, "password", &next);
            sleep(LOGIN + round.millis(0..20));
            server.command::<()>(["ACL", "SETUSER", "counter", &format!("<password-{number}")]);
            cut(&server);
            sleep(round.millis(0..20));
        });
    }
    crowd.end(round, &Noticed::Perhaps, &[&server]);
}

fn certificates(round: &mut Round) {
    let server = Settings::new(round.software()).tls(ClientCertificates::Required).start();
    let (folder, next) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let read = |path: &Path| fs::read(path).unwrap();
    let mut old = server.certificates().clone();
    let ca = write(&folder, "ca", read(&old.authority));
    let certificate = write(&folder, "certificate", read(&old.client.certificate));
    let key = write(&folder, "key", read(&old.client.key));
    let url = format!("rediss://{}", server.tls_address());
    let tell = |builder: RedisStoreBuilder| {
        let tls = Tls::new().with_ca_file(&ca).unwrap().with_client_files(&certificate, &key).unwrap();
        builder.tls(tls)
    };
    let mut crowd = Crowd::start_as(&url, Data::Kept, tell);
    let trusts = |file: &Path| {
        server.command::<()>(["CONFIG", "SET", "tls-ca-cert-file", file.to_str().unwrap()]);
    };
    for number in 0..ROTATIONS {
        let own = next.path().join(number.to_string());
        fs::create_dir(&own).unwrap();
        let new = Certificates::make(&own);
        crowd.in_trouble(round, |round| {
            // Both sides trust both.
            let both = [read(&old.authority), read(&new.authority)].concat();
            write(&folder, "ca", &both);
            trusts(&write(&next, "both", &both));
            cut(&server);
            sleep(LOGIN + round.millis(0..20));
            // One file after the other: in between they do not fit.
            write(&folder, "key", read(&new.client.key));
            sleep(round.millis(0..20));
            cut(&server);
            sleep(round.millis(0..20));
            write(&folder, "certificate", read(&new.client.certificate));
            server.command::<()>([
                "CONFIG",
                "SET",
                "tls-cert-file",
                new.server.certificate.to_str().unwrap(),
                "tls-key-file",
                new.server.key.to_str().unwrap(),
            ]);
            cut(&server);
            sleep(LOGIN + round.millis(0..20));
            // And now only the new one.
            write(&folder, "ca", read(&new.authority));
            trusts(&new.authority);
            cut(&server);
            sleep(round.millis(0..20));
        });
        old = new;
    }
    crowd.end(round, &Noticed::Perhaps, &[&server]);
}
