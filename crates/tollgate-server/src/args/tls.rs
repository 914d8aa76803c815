//! Flags about TLS: of the service, and of those who ask it.

use std::path::PathBuf;

/// TLS on the listeners.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "TLS")]
pub struct TlsArgs {
    /// Certificate (PEM) of the service, and after it those between it and its authority. All listeners then speak
    /// TLS. The service reads the files of certificates again whenever they change
    #[arg(long, value_name = "FILE", env = "TOLLGATE_TLS_CERT", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// Private key (PEM) of that certificate
    #[arg(long, value_name = "FILE", env = "TOLLGATE_TLS_KEY", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Certificates (PEM) of the authorities of clients: each client has to show a certificate that one of them signed,
    /// except at --metrics-listen [default: clients show none]
    #[arg(long, value_name = "FILE", env = "TOLLGATE_TLS_CLIENT_CA", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,
}

/// TLS of `tollgate check`.
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
