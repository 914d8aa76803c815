//! URLs of stores.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use percent_encoding::percent_decode_str;
use thiserror::Error;

use crate::address::Address;
use crate::password::Password;

/// The URL of a store: topology, servers, user, password and database.
///
/// | Form | Store |
/// |---|---|
/// | `redis://[user[:password]@]host[:port][/database]` | one server; the port is 6379 unless given |
/// | `unix:/path/to/socket[?db=database]`, `unix://[user[:password]@]/path/to/socket[?db=database]` | one server, over its Unix socket |
/// | `redis+sentinel://[user[:password]@]host[:port],.../primary[/database]` | the server that the sentinels name as the primary; their port is 26379 by default |
/// | `redis+cluster://[user[:password]@]host[:port],...` | a cluster, found through any of these servers |
///
/// With `rediss` instead of `redis`, connections use TLS; `valkey` and `valkeys` mean the same as `redis` and
/// `rediss`. User and password are those of the servers that count; sentinels have their own
/// ([`sentinel_password`](crate::RedisStoreBuilder::sentinel_password)). In them, `/ ? # @ : %` are written as `%2F %3F
/// %23 %40 %3A %25`; a password in the environment or in a file needs no escaping.
///
/// `Debug` and `Display` show the URL without its password, and no error shows any part of it.
///
/// # Examples
///
/// ```
/// use tollgate_redis::StoreUrl;
///
/// let url: StoreUrl = "rediss://tollgate:s3cret@cache.example/2".parse()?;
/// assert_eq!(url.to_string(), "rediss://tollgate:***@cache.example:6379/2");
///
/// let error = "redis://:s3/cret@cache.example".parse::<StoreUrl>().unwrap_err();
/// assert!(!error.to_string().contains("s3"));
/// # Ok::<(), tollgate_redis::UrlError>(())
/// ```
#[derive(Clone)]
pub struct StoreUrl {
    pub(crate) place: StorePlace,
    pub(crate) transport: Transport,
    pub(crate) user: Option<Box<str>>,
    pub(crate) password: Option<Password>,
    pub(crate) database: u32,
}

/// The servers and their topology.
#[derive(Clone)]
pub(crate) enum StorePlace {
    Single(Address),
    Sentinel { sentinels: Vec<Address>, primary: Box<str> },
    Cluster { seeds: Vec<Address> },
}

/// The transport of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Plain,
    Tls,
}

/// An invalid URL of a store. The fault of its author. It shows no part of the URL, because an apparent port may be
/// half a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UrlError {
    /// It does not begin with one of the known schemes.
    #[error(
        "the store's URL must begin with redis://, rediss://, valkey:// or valkeys://, the same with +sentinel or +cluster, or unix:"
    )]
    Scheme,
    /// It holds a blank or a control character.
    #[error("the store's URL contains a space or a control character")]
    Character,
    /// It has a fragment, or an `@` behind the servers.
    #[error(
        "the store's URL contains a # or an @ in the wrong place: in the user and password, write / ? # @ : % as %2F %3F %23 %40 %3A %25"
    )]
    Escape,
    /// User, password or primary are not text when decoded.
    #[error("the store's URL contains percent-encoded bytes that are not UTF-8")]
    Utf8,
    /// A server has no host.
    #[error("server {server} in the store's URL has no host")]
    NoHost {
        /// Its place in the list, from 1.
        server: usize,
    },
    /// A host is neither a name nor an IP address.
    #[error("server {server} in the store's URL has no valid host; an IPv6 address needs brackets")]
    Host {
        /// Its place in the list, from 1.
        server: usize,
    },
    /// A port is not a number from 1 to 65535.
    #[error("server {server} in the store's URL has a port that is not a number from 1 to 65535")]
    Port {
        /// Its place in the list, from 1.
        server: usize,
    },
    /// It has several servers but no topology.
    #[error("the store's URL names several servers: use redis+sentinel:// or redis+cluster://")]
    SeveralServers,
    /// It does not name the primary.
    #[error("the store's URL does not name the primary: redis+sentinel://host,host/primary")]
    NoPrimary,
    /// It names no socket.
    #[error("the store's URL does not name the socket by an absolute path: unix:/path/to/socket")]
    NoSocket,
    /// The database is not a number.
    #[error("the database in the store's URL is not a number")]
    Database,
    /// A cluster has one database, number 0.
    #[error("the store's URL names a database other than 0, but a Cluster has only database 0")]
    ClusterDatabase,
    /// There is text after the database.
    #[error("the store's URL has text after the database")]
    Path,
    /// It has an unknown query.
    #[error("the store's URL has a query; only unix: URLs can have one, ?db=number")]
    Query,
}

impl StoreUrl {
    /// Returns whether the store is a Cluster, on which a step is in one slot.
    #[must_use]
    pub const fn is_cluster(&self) -> bool {
        matches!(self.place, StorePlace::Cluster { .. })
    }
}

impl FromStr for StoreUrl {
    type Err = UrlError;

    fn from_str(url: &str) -> Result<Self, UrlError> {
        if url.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(UrlError::Character);
        }
        let (scheme, rest) = url.split_once(':').ok_or(UrlError::Scheme)?;
        let scheme = scheme.to_ascii_lowercase();
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
        if rest.contains('#') || query.is_some_and(|query| query.contains(['#', '@'])) {
            return Err(UrlError::Escape);
        }
        if scheme == "unix" {
            return unix(rest, query);
        }
        let (scheme, form) = scheme.split_once('+').map_or((&*scheme, None), |(s, form)| (s, Some(form)));
        let transport = match scheme {
            "redis" | "valkey" => Transport::Plain,
            "rediss" | "valkeys" => Transport::Tls,
            _ => return Err(UrlError::Scheme),
        };
        let rest = rest.strip_prefix("//").ok_or(UrlError::Scheme)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if path.contains('@') {
            return Err(UrlError::Escape);
        }
        let (user, password, servers) = authority_of(authority)?;
        if query.is_some() {
            return Err(UrlError::Query);
        }
        let mut path = path.split('/');
        let place = match form {
            None => StorePlace::Single(single(servers)?),
            Some("sentinel") => {
                let sentinels = addresses(servers, 26379)?;
                let primary = decode(path.next().unwrap_or_default())?.ok_or(UrlError::NoPrimary)?;
                StorePlace::Sentinel { sentinels, primary }
            }
            Some("cluster") => StorePlace::Cluster { seeds: addresses(servers, 6379)? },
            Some(_) => return Err(UrlError::Scheme),
        };
        let database = database(path.next().unwrap_or_default())?;
        if path.next().is_some() {
            return Err(UrlError::Path);
        }
        if matches!(place, StorePlace::Cluster { .. }) && database != 0 {
            return Err(UrlError::ClusterDatabase);
        }
        Ok(Self { place, transport, user, password, database })
    }
}

fn unix(rest: &str, query: Option<&str>) -> Result<StoreUrl, UrlError> {
    let (authority, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find('/').ok_or(UrlError::NoSocket)?),
        None => ("", rest),
    };
    let (user, password, host) = authority_of(authority)?;
    if !host.is_empty() || !path.starts_with('/') {
        return Err(UrlError::NoSocket);
    }
    let path = decode(path)?.ok_or(UrlError::NoSocket)?;
    let database = match query {
        Some(query) => database(query.strip_prefix("db=").ok_or(UrlError::Query)?)?,
        None => 0,
    };
    let place = StorePlace::Single(Address::Unix(Path::new(&*path).into()));
    Ok(StoreUrl { place, transport: Transport::Plain, user, password, database })
}

type Authority<'a> = (Option<Box<str>>, Option<Password>, &'a str);

/// Returns the user, the password and the rest. An empty user or password counts as none.
fn authority_of(authority: &str) -> Result<Authority<'_>, UrlError> {
    let Some((credentials, servers)) = authority.rsplit_once('@') else {
        return Ok((None, None, authority));
    };
    let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    let password = decode(password)?.map(|password| Password::new(&password));
    Ok((decode(user)?, password, servers))
}

fn decode(text: &str) -> Result<Option<Box<str>>, UrlError> {
    let text = percent_decode_str(text).decode_utf8().map_err(|_| UrlError::Utf8)?;
    Ok((!text.is_empty()).then(|| text.into()))
}

fn single(servers: &str) -> Result<Address, UrlError> {
    if servers.contains(',') { Err(UrlError::SeveralServers) } else { address(1, servers, 6379) }
}

fn addresses(servers: &str, default_port: u16) -> Result<Vec<Address>, UrlError> {
    servers.split(',').zip(1..).map(|(text, server)| address(server, text, default_port)).collect()
}

fn address(server: usize, text: &str, default_port: u16) -> Result<Address, UrlError> {
    let (host, port) = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        Some((host, port)) if host.parse::<std::net::Ipv6Addr>().is_ok() => match port.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if port.is_empty() => (host, None),
            None => return Err(UrlError::Port { server }),
        },
        Some(_) => return Err(UrlError::Host { server }),
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err(UrlError::NoHost { server });
    }
    if port.is_some_and(|port| port.contains(':'))
        || host.contains(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '-' | '_' | ':'))
    {
        return Err(UrlError::Host { server });
    }
    let port = match port {
        // `parse` alone would take a sign.
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => port.parse().unwrap_or(0),
        Some(_) => 0,
        None => default_port,
    };
    if port == 0 { Err(UrlError::Port { server }) } else { Ok(Address::Tcp(host.into(), port)) }
}

fn database(text: &str) -> Result<u32, UrlError> {
    match text {
        "" => Ok(0),
        text if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            text.parse().map_err(|_| UrlError::Database)
        }
        _ => Err(UrlError::Database),
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.transport {
            Transport::Plain => "redis",
            Transport::Tls => "rediss",
        };
        match &self.place {
            StorePlace::Single(Address::Unix(path)) => {
                write!(f, "unix://{}{}?db={}", self.credentials(), path.display(), self.database)
            }
            StorePlace::Single(address) => {
                write!(f, "{scheme}://{}{address}/{}", self.credentials(), self.database)
            }
            StorePlace::Sentinel { sentinels, primary } => {
                write!(f, "{scheme}+sentinel://{}", self.credentials())?;
                write!(f, "{}/{primary}/{}", list(sentinels, ","), self.database)
            }
            StorePlace::Cluster { seeds } => {
                write!(f, "{scheme}+cluster://{}{}", self.credentials(), list(seeds, ","))
            }
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

impl StoreUrl {
    /// The place of the store as configured, for errors. The addresses of Sentinels and seeds do not show which server
    /// failed, so the text names their role.
    pub(crate) fn place(&self) -> String {
        match &self.place {
            StorePlace::Single(address) => address.to_string(),
            StorePlace::Sentinel { sentinels, .. } => format!("Sentinels {}", list(sentinels, ", ")),
            StorePlace::Cluster { seeds } => format!("Cluster of {}", list(seeds, ", ")),
        }
    }

    /// Returns the user, and whether there is a password.
    fn credentials(&self) -> String {
        let password = if self.password.is_some() { ":***" } else { "" };
        match &self.user {
            Some(user) => format!("{user}{password}@"),
            None if password.is_empty() => String::new(),
            None => format!("{password}@"),
        }
    }
}

fn list(addresses: &[Address], separator: &str) -> String {
    addresses.iter().map(Address::to_string).collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_says_the_same_when_shown() {
        for (url, shown) in [
            ("redis://localhost", "redis://localhost:6379/0"),
            ("redis://localhost/", "redis://localhost:6379/0"),
            ("REDIS://localhost:7000/15", "redis://localhost:7000/15"),
            ("valkey://[::1]", "redis://[::1]:6379/0"),
            ("valkeys://[::1]:7000/1", "rediss://[::1]:7000/1"),
            ("rediss://alice@10.0.0.1", "rediss://alice@10.0.0.1:6379/0"),
            ("redis://:pw@h", "redis://:***@h:6379/0"),
            ("redis://pw:@h", "redis://pw@h:6379/0"),
            ("unix:/run/redis.sock", "unix:///run/redis.sock?db=0"),
            ("unix:///run/redis.sock?db=3", "unix:///run/redis.sock?db=3"),
            ("unix://alice:pw@/run/a%20b.sock", "unix://alice:***@/run/a b.sock?db=0"),
            ("redis+sentinel://a,b:7,[::1]/main", "redis+sentinel://a:26379,b:7,[::1]:26379/main/0"),
            ("valkeys+sentinel://u:p@a/main/4", "rediss+sentinel://u:***@a:26379/main/4"),
            ("redis+cluster://a,b:7000", "redis+cluster://a:6379,b:7000"),
            ("rediss+cluster://a/0", "rediss+cluster://a:6379"),
        ] {
            let parsed: StoreUrl = url.parse().unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!(parsed.to_string(), shown, "{url}");
            assert_eq!(format!("{parsed:?}"), format!("StoreUrl({shown})"));
        }
    }

    /// With Sentinels and on a Cluster, errors read as if all servers of the URL had failed.
    #[test]
    fn the_place_says_what_its_addresses_are() {
        for (url, place) in [
            ("redis://u:p@h", "h:6379"),
            ("unix:///run/redis.sock?db=3", "unix:/run/redis.sock"),
            ("redis+sentinel://u:p@s1,s2/main", "Sentinels s1:26379, s2:26379"),
            ("redis+cluster://u:p@a,b", "Cluster of a:6379, b:6379"),
        ] {
            assert_eq!(url.parse::<StoreUrl>().unwrap().place(), place);
        }
    }

    #[test]
    fn user_and_password_are_decoded() {
        let url: StoreUrl = "redis://us%3Aer:p%40%2F%23%3a%25@h".parse().unwrap();
        assert_eq!(url.user.as_deref(), Some("us:er"));
        assert_eq!(url.password.as_ref().map(Password::reveal), Some("p@/#:%"));
        // An unescaped @ or : in the password does no harm.
        let url: StoreUrl = "redis://u:p@x:y@h".parse().unwrap();
        assert_eq!(url.password.as_ref().map(Password::reveal), Some("p@x:y"));
        let url: StoreUrl = "redis://u:@h".parse().unwrap();
        assert!(url.password.is_none());
    }

    #[test]
    fn says_what_is_wrong() {
        for (url, error) in [
            ("", UrlError::Scheme),
            ("localhost", UrlError::Scheme),
            ("localhost:6379", UrlError::Scheme),
            ("redis:localhost", UrlError::Scheme),
            ("http://localhost", UrlError::Scheme),
            ("redis+ring://localhost", UrlError::Scheme),
            ("redis://local host", UrlError::Character),
            ("redis://localhost\n", UrlError::Character),
            ("redis://", UrlError::NoHost { server: 1 }),
            ("redis://:6379", UrlError::NoHost { server: 1 }),
            ("redis://a,b", UrlError::SeveralServers),
            ("redis+cluster://a,,b", UrlError::NoHost { server: 2 }),
            ("redis+cluster://a,b:x", UrlError::Port { server: 2 }),
            ("redis://a:0", UrlError::Port { server: 1 }),
            ("redis://a:65536", UrlError::Port { server: 1 }),
            ("redis://a:+1", UrlError::Port { server: 1 }),
            ("redis://a:", UrlError::Port { server: 1 }),
            ("redis://[::1]7", UrlError::Port { server: 1 }),
            ("redis://::1", UrlError::NoHost { server: 1 }),
            ("redis://fe80::1", UrlError::Host { server: 1 }),
            ("redis://[::x]", UrlError::Host { server: 1 }),
            ("redis://a$b", UrlError::Host { server: 1 }),
            ("redis://a/b", UrlError::Database),
            ("redis://a/-1", UrlError::Database),
            ("redis://a/4294967296", UrlError::Database),
            ("redis://a/1/2", UrlError::Path),
            ("redis://a?db=1", UrlError::Query),
            ("redis+sentinel://a", UrlError::NoPrimary),
            ("redis+sentinel://a/", UrlError::NoPrimary),
            ("redis+cluster://a/1", UrlError::ClusterDatabase),
            ("redis://u:p/q@a", UrlError::Escape),
            ("redis://u:p?q@a", UrlError::Escape),
            ("redis://u:p#q@a", UrlError::Escape),
            ("redis://u:%ff@a", UrlError::Utf8),
            ("unix:", UrlError::NoSocket),
            ("unix:run/redis.sock", UrlError::NoSocket),
            ("unix://host/run/redis.sock", UrlError::NoSocket),
            ("unix:/run/redis.sock?name=1", UrlError::Query),
        ] {
            assert_eq!(url.parse::<StoreUrl>().err(), Some(error), "{url}");
        }
    }

    #[test]
    fn no_password_is_shown_be_it_escaped_or_not() {
        for odd in ["", "/", "?", "#", "@", ":", "%ff", " ", ",", "[", "]", "+", "//", "?db=", "/?#@"] {
            for scheme in ["redis", "redis+sentinel", "redis+cluster", "unix", "what"] {
                for url in [
                    format!("{scheme}://user:Sesame{odd}Open@host/path"),
                    format!("{scheme}://:{odd}Sesame@host"),
                    format!("{scheme}://:Sesame{odd}"),
                    format!("{scheme}:{odd}Sesame"),
                ] {
                    let shown = match url.parse::<StoreUrl>() {
                        Ok(parsed) if parsed.password.is_none() => continue,
                        Ok(parsed) => format!("{parsed} {parsed:?}"),
                        Err(error) => format!("{error} {error:?}"),
                    };
                    assert!(!shown.contains("Sesame") && !shown.contains("Open"), "{url}: {shown}");
                }
            }
        }
    }
}
