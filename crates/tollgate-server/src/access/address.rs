//! Addresses to listen on: those of TCP, and the paths of Unix sockets.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::str::FromStr;

use thiserror::Error;

/// What the path of a Unix socket is written after.
pub(crate) const UNIX: &str = "unix:";

/// The maximum length of the path of a Unix socket, in bytes: what `sun_path` has room for before its NUL.
const MAX_PATH: usize = if cfg!(any(target_os = "linux", target_os = "android")) { 107 } else { 103 };

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// An address of TCP.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(SocketPath),
}

/// The path of a Unix socket: absolute, short enough for the system, and without control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketPath(Box<str>);

/// The permissions of the file of a Unix socket. Its owner may always connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketMode(u16);

/// Why a text is not an address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddressError {
    /// It is neither an address of TCP nor the path of a Unix socket.
    #[error("expected IP:PORT, such as 127.0.0.1:8080, or unix:/PATH")]
    Form,
    /// The path of a Unix socket is relative, names a folder, or contains control characters.
    #[error("expected the absolute path of a Unix socket, such as unix:/run/tollgate/checks.sock")]
    Path,
    /// The system has no room for the path of a Unix socket.
    #[error("the path of a Unix socket has at most {MAX_PATH} bytes here, and this one has {0}")]
    LongPath(usize),
}

impl ListenAddress {
    /// Returns whether no other host can reach it.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }

    pub(crate) const fn is_unix(&self) -> bool {
        matches!(self, Self::Unix(_))
    }
}

impl FromStr for ListenAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(path) = text.strip_prefix(UNIX) {
            return path.parse().map(Self::Unix);
        }
        // `parse` accepts a plus sign.
        let port = text.strip_prefix("localhost:").filter(|port| port.bytes().all(|it| it.is_ascii_digit()));
        let local = port.and_then(|port| Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().ok()?))));
        local.or_else(|| text.parse().ok()).map(Self::Tcp).ok_or(AddressError::Form)
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => path.fmt(f),
        }
    }
}

impl AsRef<Path> for SocketPath {
    fn as_ref(&self) -> &Path {
        Path::new(&*self.0)
    }
}

impl FromStr for SocketPath {
    type Err = AddressError;

    /// Parses the path, without `unix:`.
    fn from_str(path: &str) -> Result<Self, AddressError> {
        // Two slashes would begin the host of a URL.
        let is_file = path.starts_with('/') && !path.starts_with("//") && !path.ends_with('/');
        if !is_file || path.chars().any(char::is_control) {
            return Err(AddressError::Path);
        }
        if path.len() > MAX_PATH {
            return Err(AddressError::LongPath(path.len()));
        }
        Ok(Self(path.into()))
    }
}

/// Writes it as an address: with `unix:`.
impl fmt::Display for SocketPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{UNIX}{}", self.0)
    }
}

impl SocketMode {
    /// Only the owner may connect.
    pub(crate) const OWNER: Self = Self(0o600);

    pub(crate) const fn bits(self) -> u16 {
        self.0
    }

    /// Parses an octal number. Whoever connects needs the right to write, and nobody needs the right to execute.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let is_octal =
            (3..=4).contains(&text.len()) && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
        let bits = u16::from_str_radix(text, 8).ok().filter(|_| is_octal);
        let bits = bits.filter(|bits| bits & 0o600 == 0o600 && bits & !0o666 == 0);
        bits.map(Self)
            .ok_or("expected an octal mode from 0600 to 0666, such as 0660, without rights to execute")
    }
}

impl fmt::Display for SocketMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net;

    use super::*;

    #[test]
    fn an_address_is_an_ip_and_a_port_localhost_or_a_path() {
        let reads = |text: &str| text.parse().map(|address: ListenAddress| address.to_string());
        assert_eq!(reads("localhost:9100").unwrap(), "127.0.0.1:9100");
        for text in ["[::]:0", "127.0.0.1:80", "unix:/run/tollgate/checks.sock", "unix:/a b/é"] {
            assert_eq!(reads(text).unwrap(), text);
        }
        for text in [
            "",
            "9100",
            ":9100",
            "127.0.0.1",
            "localhost",
            "localhost:x",
            "localhost:",
            "localhost:+80",
            "a:80",
        ] {
            assert_eq!(reads(text), Err(AddressError::Form), "{text}");
        }
        for text in [
            "unix:",
            "unix:/",
            "unix:a",
            "unix:./a",
            "unix:///a",
            "unix://h/a",
            "unix:/a/",
            "unix:/a\n",
            "unix:@a",
        ] {
            assert_eq!(reads(text), Err(AddressError::Path), "{text}");
        }
    }

    #[test]
    fn a_path_is_as_long_as_the_system_allows() {
        let path = |length: usize| format!("/{}", "a".repeat(length - 1));
        assert!(path(MAX_PATH).parse::<SocketPath>().is_ok());
        assert!(net::SocketAddr::from_pathname(path(MAX_PATH)).is_ok());
        let longer = path(MAX_PATH + 1);
        assert_eq!(longer.parse::<SocketPath>(), Err(AddressError::LongPath(MAX_PATH + 1)));
        assert!(net::SocketAddr::from_pathname(longer).is_err());
    }

    #[test]
    fn a_mode_lets_its_owner_connect_and_nobody_execute() {
        for (text, written) in [("0600", "0600"), ("660", "0660"), ("0666", "0666"), ("0622", "0622")] {
            assert_eq!(SocketMode::parse(text).unwrap().to_string(), written);
        }
        for text in
            ["", "0", "600 ", "0060", "0400", "0670", "0777", "1660", "00660", "+660", "0o660", "rw", "0680"]
        {
            assert!(SocketMode::parse(text).is_err(), "{text}");
        }
    }
}
