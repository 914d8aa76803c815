//! Flags about TLS, for the service and for its clients.

use std::path::PathBuf;

use clap::ValueEnum;
use rustls::pki_types::ServerName;

use super::value;
use crate::access::listener::ListenerKind;

/// TLS on the listeners.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "TLS")]
pub struct TlsArgs {
    /// Certificate (PEM) of the service, followed by its intermediate certificates. All listeners but
    /// --plain-probes then speak TLS, unless --tls-on names some. The service reloads the files of certificates when
    /// they change
    #[arg(long, value_name = "FILE", env = "TOLLGATE_TLS_CERT", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// Private key (PEM) of that certificate
    #[arg(long, value_name = "FILE", env = "TOLLGATE_TLS_KEY", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Certificates (PEM) of client authorities: each client must show a certificate that one of them signed, except on
    /// --metrics-listen and --plain-probes [default: clients show none]
    #[arg(long, value_name = "FILE", env = "TOLLGATE_TLS_CLIENT_CA", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,

    /// Host that the certificate of each client must be valid for [default: any]
    #[arg(long, value_name = "NAME", env = "TOLLGATE_TLS_CLIENT_NAME", requires = "tls_client_ca")]
    #[arg(value_parser = value::certified_name)]
    pub tls_client_name: Option<ServerName<'static>>,

    /// Listener that speaks TLS, while all others stay plain; for several, repeat the flag or separate them with commas
    /// [default: all but --plain-probes]
    #[arg(
        long,
        value_name = "LISTENER",
        env = "TOLLGATE_TLS_ON",
        value_delimiter = ',',
        requires = "tls_cert"
    )]
    pub tls_on: Vec<TlsListener>,
}

/// A listener that can speak TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TlsListener {
    /// That of --listen
    Checks,
    /// That of --admin-listen
    Admin,
    /// That of --metrics-listen, which asks for no client certificate
    Metrics,
    /// That of --grpc
    Grpc,
}

impl TlsListener {
    pub(crate) const fn kind(self) -> ListenerKind {
        match self {
            Self::Checks => ListenerKind::Checks,
            Self::Admin => ListenerKind::Admin,
            Self::Metrics => ListenerKind::Metrics,
            Self::Grpc => ListenerKind::Grpc,
        }
    }
}

/// TLS of commands that ask a service.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "TLS")]
pub struct ClientTlsArgs {
    /// Certificates (PEM) of the authorities that may sign the service's certificate [default: those of the system]
    #[arg(long, value_name = "FILE", env = "TOLLGATE_CA")]
    pub ca: Option<PathBuf>,

    /// Certificate (PEM) to show to the service
    #[arg(long, value_name = "FILE", env = "TOLLGATE_CLIENT_CERT", requires = "client_key")]
    pub client_cert: Option<PathBuf>,

    /// Private key (PEM) of that certificate
    #[arg(long, value_name = "FILE", env = "TOLLGATE_CLIENT_KEY", requires = "client_cert")]
    pub client_key: Option<PathBuf>,
}
