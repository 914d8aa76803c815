//! Passwords and certificates that are replaced while a store is used.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tollgate_redis::{Password, RedisError, Tls};
use tollgate_testkit::servers::{Certificates, ClientCertificates, Server, Settings, Software};

use crate::support::{Caller, Load, patient_builder, until};

/// Files that are replaced as a whole, as whoever rotates secrets does.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let (path, new) = (self.path(name), self.path("new"));
        fs::write(&new, text).unwrap();
        fs::rename(&new, &path).unwrap();
        path
    }

    fn copy(&self, name: &str, from: &Path) -> PathBuf {
        self.write(name, fs::read(from).unwrap())
    }
}

/// A connection of the store, as the server has it.
#[derive(Debug, Clone, PartialEq)]
struct Client {
    id: String,
    /// Whether calls have gone over it.
    is_used: bool,
}

fn clients(server: &Server) -> Vec<Client> {
    let list: String = server.command(["CLIENT", "LIST", "TYPE", "normal"]);
    let field = |line: &str, name: &str| {
        line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
    };
    let ours = list.lines().filter(|line| field(line, "name").as_deref() == Some("tollgate"));
    ours.map(|line| Client {
        id: field(line, "id").unwrap(),
        is_used: field(line, "cmd").is_some_and(|command| command.starts_with("evalsha")),
    })
    .collect()
}

/// Cuts a connection, and waits until there is another in its place.
async fn renew(server: &Server, client: &Client) {
    server.command::<()>(["CLIENT", "KILL", "ID", &client.id]);
    let is_renewed = async || {
        let clients = clients(server);
        (clients.len() == 2 && !clients.contains(client)).then_some(())
    };
    until("a connection in the place of one that was cut", is_renewed).await;
}

/// Has both connections made again, first the one that no calls go over.
async fn renew_all(server: &Server, load: &Load) {
    let both = async || Some(clients(server)).filter(|clients| clients.len() == 2);
    let mut clients = until("two connections", both).await;
    clients.sort_by_key(|client| client.is_used);
    renew(server, &clients[0]).await;
    load.goes_on(100).await;
    renew(server, &clients[1]).await;
    load.goes_on(100).await;
}

/// Nothing was refused, and what was charged is counted.
async fn expect_nothing_lost(caller: &Caller, load: Load) {
    let tally = load.stop().await;
    assert!(tally.refused.is_empty(), "{tally:?}");
    tally.expect_counted(caller.used("alice").await);
}

/// The password was read once, so that a connection that broke after it had been changed was never made again.
#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_rotated_under_load() {
    for software in Software::ALL {
        let rights = "~* &* +@all";
        let server = Settings::new(software).user("counter", "first", rights).start();
        let folder = Folder::new();
        let file = folder.write("password", "first\n");
        let url = format!("redis://counter@{}", server.address());
        let caller = Caller::new(patient_builder(&url).password(Password::from_file(&file).unwrap()));
        caller.until_served("bob").await;
        let load = caller.load("alice", 8);

        // While both are valid, and nothing is cut that is used, nothing can be told from before.
        server.command::<()>(["ACL", "SETUSER", "counter", ">second"]);
        folder.write("password", "second\n");
        load.goes_on(100).await;
        let clients =
            until("two connections", async || Some(clients(&server)).filter(|it| it.len() == 2)).await;
        renew(&server, clients.iter().find(|client| !client.is_used).unwrap()).await;
        load.goes_on(100).await;
        assert_eq!(load.tally().unknown, 0);

        server.command::<()>(["ACL", "SETUSER", "counter", "<first"]);
        renew_all(&server, &load).await;
        expect_nothing_lost(&caller, load).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_rotated_under_load() {
    for software in Software::ALL {
        let server = Settings::new(software).tls(ClientCertificates::Required).start();
        let (folder, next) = (Folder::new(), Folder::new());
        let copy = |certificates: &Certificates| {
            let client = &certificates.client;
            (
                folder.copy("ca", &certificates.authority),
                folder.copy("certificate", &client.certificate),
                folder.copy("key", &client.key),
            )
        };
        let (ca, certificate, key) = copy(server.certificates());
        let tls = Tls::new().with_ca_file(ca).unwrap().with_client_files(certificate, key).unwrap();
        let caller = Caller::new(patient_builder(&format!("rediss://{}", server.tls_address())).tls(tls));
        caller.until_served("bob").await;
        let load = caller.load("alice", 8);
        load.goes_on(100).await;

        // Another authority signs both sides.
        let next = Certificates::make(next.0.path());
        let path = |path: &Path| path.to_str().unwrap().to_owned();
        server.command::<()>([
            "CONFIG",
            "SET",
            "tls-ca-cert-file",
            &path(&next.authority),
            "tls-cert-file",
            &path(&next.server.certificate),
            "tls-key-file",
            &path(&next.server.key),
        ]);
        copy(&next);
        renew_all(&server, &load).await;
        expect_nothing_lost(&caller, load).await;
    }
}

/// What cannot be used does not replace what could, and is named once it matters.
#[tokio::test(flavor = "multi_thread")]
async fn files_that_cannot_be_used_are_named_and_may_be_mended_at_any_time() {
    let server = Settings::new(Software::Redis).user("counter", "first", "~* &* +@all").start();
    let folder = Folder::new();
    let file = folder.write("password", "first");
    let url = format!("redis://counter@{}", server.address());
    let caller = Caller::new(patient_builder(&url).password(Password::from_file(&file).unwrap()));
    caller.until_served("bob").await;
    let load = caller.load("alice", 2);

    // An empty file, as one is for a moment that is written in place.
    fs::write(&file, "").unwrap();
    renew_all(&server, &load).await;
    expect_nothing_lost(&caller, load).await;

    server.command::<()>(["ACL", "SETUSER", "counter", "resetpass", ">second"]);
    let cut = || server.command::<()>(["CLIENT", "KILL", "USER", "counter"]);
    let is_said = async |what: &str| {
        let said = || caller.store.status().servers()[0].trouble().map(str::to_owned);
        until(what, async || said().filter(|said| said == what)).await;
        assert_eq!(caller.refusal("alice").await, RedisError::AccessDenied);
    };
    cut();
    let why = format!("the file {}, which should hold a password, is empty", file.display());
    is_said(&format!("wrong user or password, with what was read last: {why}")).await;
    folder.write("password", "third");
    is_said("wrong user or password").await;
    folder.write("password", "second");
    caller.until_served("alice").await;
}

/// A key that does not fit its certificate, because the second file is still to be replaced. Until it was, the
/// authorities were not read again either.
#[tokio::test(flavor = "multi_thread")]
async fn certificates_that_do_not_fit_their_key_wait_for_it() {
    let server = Settings::new(Software::Redis).tls(ClientCertificates::Required).start();
    let (folder, other) = (Folder::new(), Folder::new());
    let client = &server.certificates().client;
    let files = (folder.copy("certificate", &client.certificate), folder.copy("key", &client.key));
    let ca = folder.copy("ca", &server.certificates().authority);
    let tls = Tls::new().with_ca_file(ca).unwrap().with_client_files(files.0, files.1).unwrap();
    let url = format!("rediss://{}", server.tls_address());
    let caller = Caller::new(patient_builder(&url).tls(tls));
    caller.until_served("bob").await;
    let load = caller.load("alice", 2);
    let other = Certificates::make(other.0.path());
    folder.copy("key", &other.client.key);
    renew_all(&server, &load).await;
    folder.copy("ca", &other.authority);
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let (certificate, key) = (path(&other.server.certificate), path(&other.server.key));
    server.command::<()>(["CONFIG", "SET", "tls-cert-file", &certificate, "tls-key-file", &key]);
    renew_all(&server, &load).await;
    expect_nothing_lost(&caller, load).await;
}
