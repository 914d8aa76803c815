//! Flags about TLS, for the service and for its clients.

use std::path::PathBuf;

/// TLS on the listeners.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "TLS")]
pub struct TlsArgs {
    /// Certificate (PEM) of the service, followed by its intermediate certificates. All listeners but
    /// --plain-probes then speak TLS. The service reloads the files of certificates when they change
    #[arg(long, value_name = "FILE", env = "TOLLGATE_TLS_CERT", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// Private key (PEM) of that certificate
    #[arg(long, value_name = "FILE", env = "TOLLGATE_TLS_KEY", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Certificates (PEM) of client authorities: each client must show a certificate that one of them signed, except on
    /// --metrics-listen and --plain-probes [default: clients show none]
    #[arg(long, value_name = "FILE", env = "TOLLGATE_TLS_CLIENT_CA", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,
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
