//! The configuration file of a server.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::Certificates;
use super::port::Port;
use super::settings::{ClientCertificates, Persistence, Role, Settings};

/// A user with every right and its password, in addition to the users of a test.
pub(super) const ADMIN: &str = "testkit";

/// Where a server listens.
#[derive(Debug)]
pub(super) struct Ports {
    pub(super) plain: Port,
    pub(super) tls: Option<Port>,
    /// Where the nodes of a cluster talk to each other.
    pub(super) bus: Option<Port>,
}

impl Ports {
    pub(super) fn reserve(settings: &Settings) -> Self {
        Self {
            plain: Port::reserve(),
            tls: settings.tls.is_some().then(Port::reserve),
            bus: (settings.role == Role::ClusterNode).then(Port::reserve),
        }
    }
}

/// The Unix socket of the server in this folder.
pub(super) fn socket(folder: &Path) -> PathBuf {
    folder.join("socket")
}

/// What the server in this folder keeps.
pub(super) fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

/// What the server in this folder is told; the lines of the settings come last, so that they win.
pub(super) fn file(
    settings: &Settings,
    ports: &Ports,
    certificates: Option<&Certificates>,
    folder: &Path,
) -> String {
    // That thread waits until a time of the clock that a test moves: while this clock is behind, it never sleeps.
    let mut text = format!(
        "bind 127.0.0.1\n\
         port {}\n\
         unixsocket \"{}\"\n\
         dir \"{}\"\n\
         user {ADMIN} on >{ADMIN} ~* &* +@all\n\
         masteruser {ADMIN}\n\
         masterauth {ADMIN}\n\
         save \"\"\n\
         enable-debug-command local\n\
         jemalloc-bg-thread no\n",
        ports.plain.number(),
        socket(folder).display(),
        data(folder).display(),
    );
    if settings.persistence == Persistence::EveryWrite {
        // With `everysec`, writes wait for up to two seconds while an earlier fsync is running, and are acknowledged
        // all the same.
        text.push_str("appendonly yes\nappendfsync no\n");
    }
    if let (Some(port), Some(certificates), Some(clients)) = (&ports.tls, certificates, settings.tls) {
        text.push_str(&tls(port, certificates, clients));
    }
    if let Some(bus) = &ports.bus {
        // The node's identity is outside its data, so that it survives their loss.
        text.push_str("cluster-enabled yes\ncluster-config-file ../nodes.conf\n");
        let _ = writeln!(text, "cluster-port {}", bus.number());
    }
    for line in &settings.lines {
        text.push_str(line);
        text.push('\n');
    }
    text
}

fn tls(port: &Port, certificates: &Certificates, clients: ClientCertificates) -> String {
    let Certificates { authority, server, .. } = certificates;
    let clients = match clients {
        ClientCertificates::Required => "yes",
        ClientCertificates::Ignored => "no",
    };
    format!(
        "tls-port {}\n\
         tls-ca-cert-file \"{}\"\n\
         tls-cert-file \"{}\"\n\
         tls-key-file \"{}\"\n\
         tls-auth-clients {clients}\n",
        port.number(),
        authority.display(),
        server.certificate.display(),
        server.key.display(),
    )
}
