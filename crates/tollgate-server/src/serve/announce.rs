//! What the service says at startup.

use std::path::Path;

use tracing::field::display;
use tracing::{info, warn};

use super::BoundServer;
use super::example::StartExample;
use crate::access::address::ListenAddress;
use crate::access::listener::{Listener, ListenerKind};
use crate::args::LogFormat;
use crate::cli::output;
use crate::net::open_files::Caps;
use crate::net::socket;
use crate::tls::Security;

impl BoundServer {
    /// Announces the addresses: for people on standard output, otherwise in a log line. Warnings come after them.
    pub(super) fn announce(&self) {
        let Self { listeners, checks, admin, rule, generation, example, open_files, max_connections, .. } =
            self;
        let version = env!("CARGO_PKG_VERSION");
        let try_it = example.as_ref().and_then(|example| match example {
            StartExample::Request(path) => checks.as_ref().map(|checks| self.request(checks, path)),
            StartExample::Explain(command) => Some(command.clone()),
        });
        let mut is_printed = self.log_format == LogFormat::Text;
        if is_printed {
            let mut text = format!("tollgate {version}: {rule}\n");
            for listener in listeners {
                let place = match &listener.address {
                    ListenAddress::Tcp(_) => listener.url(),
                    ListenAddress::Unix(path) => path.to_string(),
                };
                text += &format!("{:<7} {place}\n", listener.name);
            }
            text.extend(try_it.iter().map(|try_it| format!("try     {try_it}\n")));
            if let Err(error) = output::answer(&text) {
                is_printed = false;
                warn!(%error, "cannot write to standard output: the addresses are only in the log");
            }
        }
        // The system may allow less than was requested.
        let backlog = socket::backlog();
        let generation = generation.map(display);
        let Caps { public: connections, admin: admin_connections } = self.caps;
        if is_printed {
            info!(connections, admin_connections, backlog, generation, "started");
        } else {
            let address = |kind| listeners.iter().find(|it| it.kind == kind).map(|it| display(&it.address));
            info!(
                version,
                checks = address(ListenerKind::Checks),
                admin = %admin.address,
                metrics = address(ListenerKind::Metrics),
                probes = address(ListenerKind::Probes),
                grpc = address(ListenerKind::Grpc),
                rule,
                try_it,
                connections,
                admin_connections,
                backlog,
                generation,
                "started"
            );
        }
        if connections < *max_connections {
            warn!(
                open_files,
                max_connections,
                "the service accepts fewer connections than --max-connections, because its limit of open files is \
                 too low: raise it (`ulimit -n`, in systemd `LimitNOFILE=`)"
            );
        }
        if self.is_admin_open {
            warn!(admin = %admin.address, "anyone who can reach the admin listener can change counters: --insecure-admin");
        }
    }

    /// Returns the command that sends a request for this path to a listener.
    fn request(&self, listener: &Listener, path: &str) -> String {
        let certificates = match listener.security {
            Security::Plain => "",
            Security::Tls => "--cacert CA ",
            Security::Mutual => "--cacert CA --cert CERTIFICATE --key KEY ",
        };
        let token = if self.asks_token { "-H \"Authorization: Bearer $(cat token.txt)\" " } else { "" };
        let socket = match &listener.address {
            ListenAddress::Tcp(_) => String::new(),
            ListenAddress::Unix(path) => format!("--unix-socket {} ", quoted(path.as_ref())),
        };
        format!("curl -i {certificates}{token}{socket}'{}{path}'", listener.url())
    }
}

/// Returns the path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}
