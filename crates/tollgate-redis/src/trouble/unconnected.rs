//! The reason why there is no connection, for operators.

use std::io;

use rustls::CertificateError;
use thiserror::Error;

use super::refusal::NoConnection;
use super::{Refusal, Trouble};
use crate::address::Address;
use crate::error::RedisError;
use crate::resp::ServerError;
use crate::server_verifier::is_authority;

/// The reason why there is no connection.
#[derive(Debug, Clone, PartialEq, Error)]
pub(crate) enum ConnectTrouble {
    #[error("the host's name is unknown")]
    UnknownHost,
    #[error("{}", of_kind(*.0))]
    Io(io::ErrorKind),
    #[error("connecting took too long")]
    TimedOut,
    #[error("TLS: {}", of_tls(.0))]
    Tls(#[from] rustls::Error),
    #[error("the server hung up")]
    HungUp,
    #[error("the last calls were not answered, and it has not answered since")]
    Silent,
    #[error("wrong user or password")]
    WrongPassword,
    #[error("the server requires a password")]
    PasswordWanted,
    /// With a password or a certificate that was read before, because its file cannot be used now.
    #[error("{trouble}, with what was read last: {unread}")]
    OfOldCredentials { trouble: Box<Self>, unread: Box<str> },
    #[error("the user has no right to {0}")]
    NoRight(&'static str),
    #[error("the user has no right to run {0}")]
    MissingRights(Box<str>),
    #[error("{server} {major}.{minor} is too old: use Redis 7.0 or Valkey 7.2, or newer")]
    TooOld { server: Flavor, major: u32, minor: u32 },
    #[error("{0}")]
    Unfit(&'static str),
    #[error("the server is a replica")]
    Replica,
    #[error("the server is not ready: {0}")]
    NotReady(Refusal),
    #[error("no sentinel knows the primary")]
    NoPrimary,
    #[error("asking the sentinel {0}: {1}")]
    OfSentinel(Address, Box<Self>),
    #[error("no server of the cluster said which one serves the slot")]
    SlotUnserved,
    #[error("not tried yet")]
    Untried,
}

/// The role that a server reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum Flavor {
    #[error("Redis")]
    Redis,
    #[error("Valkey")]
    Valkey,
}

impl ConnectTrouble {
    /// The same, with why credentials could not be read again, if it is about them.
    pub(crate) fn with_unread(self, unread: Option<&str>) -> Self {
        match (self, unread) {
            // With TLS 1.3, a server that refuses our certificate hangs up once we believe that we are connected.
            (
                trouble @ (Self::WrongPassword | Self::PasswordWanted | Self::Tls(_) | Self::HungUp),
                Some(unread),
            ) => Self::OfOldCredentials { trouble: Box::new(trouble), unread: unread.into() },
            (trouble, _) => trouble,
        }
    }

    /// Returns the meaning of an error reply while a connection is set up.
    pub(crate) fn of_reply(error: &ServerError, asked: &Address, doing: &'static str) -> Self {
        match (error.code(), Trouble::of_reply(error, asked)) {
            ("WRONGPASS", _) => Self::WrongPassword,
            (_, Trouble::Refused(refusal)) => match refusal.meaning().unconnected {
                NoConnection::NotReady => Self::NotReady(refusal),
                NoConnection::PasswordWanted => Self::PasswordWanted,
                NoConnection::NoRight => Self::NoRight(doing),
                NoConnection::Unfit(what) => Self::Unfit(what),
            },
            _ if error.details().starts_with("AUTH") => {
                Self::Unfit("a password is set, but the server's default user has none")
            }
            _ => Self::Unfit("the server refuses the setup of a connection"),
        }
    }
}

impl From<io::Error> for ConnectTrouble {
    fn from(error: io::Error) -> Self {
        Self::Io(error.kind())
    }
}

/// [`ConnectTrouble`] is for operators; [`RedisError`] is for callers that continue without the store.
impl From<&ConnectTrouble> for RedisError {
    fn from(trouble: &ConnectTrouble) -> Self {
        match trouble {
            ConnectTrouble::UnknownHost
            | ConnectTrouble::Io(_)
            | ConnectTrouble::TimedOut
            | ConnectTrouble::HungUp
            | ConnectTrouble::Silent
            | ConnectTrouble::NoPrimary
            | ConnectTrouble::SlotUnserved
            | ConnectTrouble::Untried => Self::Unreachable,
            ConnectTrouble::Replica | ConnectTrouble::NotReady(_) => Self::NotReady,
            ConnectTrouble::WrongPassword
            | ConnectTrouble::PasswordWanted
            | ConnectTrouble::NoRight(_)
            | ConnectTrouble::MissingRights(_) => Self::AccessDenied,
            ConnectTrouble::TooOld { .. } => {
                Self::Misconfigured("its server is older than Redis 7.0 or Valkey 7.2")
            }
            ConnectTrouble::Tls(_) => Self::Misconfigured("a TLS connection to it cannot be set up"),
            ConnectTrouble::Unfit(what) => Self::Misconfigured(what),
            ConnectTrouble::OfSentinel(_, trouble) | ConnectTrouble::OfOldCredentials { trouble, .. } => {
                trouble.as_ref().into()
            }
        }
    }
}

/// The system's own words fit databases.
fn of_kind(kind: io::ErrorKind) -> String {
    match kind {
        io::ErrorKind::NotFound => "there is no such socket".into(),
        other => other.to_string(),
    }
}

/// Names the setting that helps with the certificates that most often are not trusted.
fn of_tls(error: &rustls::Error) -> String {
    if is_authority(error) {
        return "the server's certificate is self-signed, and --store-ca does not name it".to_owned();
    }
    match error {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            format!("{error}: --store-ca does not name the authority of the server's certificate")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An operator without `--store-ca` got `Other(OtherError(CaUsedAsEndEntity))` for a self-signed certificate.
    #[test]
    fn a_certificate_that_is_not_trusted_names_the_setting() {
        let refused = |error| ConnectTrouble::Tls(rustls::Error::InvalidCertificate(error)).to_string();
        let other = std::sync::Arc::new(webpki::Error::CaUsedAsEndEntity);
        assert_eq!(
            refused(CertificateError::Other(rustls::OtherError(other))),
            "TLS: the server's certificate is self-signed, and --store-ca does not name it"
        );
        assert_eq!(
            refused(CertificateError::UnknownIssuer),
            "TLS: invalid peer certificate: UnknownIssuer: --store-ca does not name the authority of the server's \
             certificate"
        );
    }

    fn asked() -> Address {
        Address::Tcp("10.0.0.1".into(), 7000)
    }

    #[test]
    fn says_why_a_connection_could_not_be_set_up() {
        for (line, unconnected, error) in [
            (
                "WRONGPASS invalid username-password pair or user is disabled.",
                ConnectTrouble::WrongPassword,
                RedisError::AccessDenied,
            ),
            (
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used",
                ConnectTrouble::PasswordWanted,
                RedisError::AccessDenied,
            ),
            (
                "NOPERM User tollgate has no permissions to run the 'script|load' command",
                ConnectTrouble::NoRight("load scripts"),
                RedisError::AccessDenied,
            ),
            (
                "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
                ConnectTrouble::Unfit("a password is set, but the server's default user has none"),
                RedisError::Misconfigured("a password is set, but the server's default user has none"),
            ),
            (
                "LOADING Redis is loading the dataset in memory",
                ConnectTrouble::NotReady(Refusal::Loading),
                RedisError::NotReady,
            ),
        ] {
            let said = ConnectTrouble::of_reply(&ServerError::new(line), &asked(), "load scripts");
            assert_eq!(said, unconnected, "{line}");
            assert_eq!(RedisError::from(&said), error, "{line}");
        }
    }
}
