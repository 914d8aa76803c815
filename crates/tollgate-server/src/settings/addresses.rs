//! The addresses of the listeners, and what each demands: whom it must identify, and whether it can speak TLS.

use super::SettingsError;
use crate::access::address::{ListenAddress, SocketMode};
use crate::access::listener::{ListenerKind, TlsScope};
use crate::args::{ServeArgs, TrustedProxy};

/// The addresses of all listeners, in the order in which they are announced, and the permissions of Unix sockets.
#[derive(Debug)]
pub(crate) struct Addresses {
    all: Vec<(ListenerKind, ListenAddress)>,
    pub(crate) unix_mode: SocketMode,
}

impl Addresses {
    /// # Errors
    ///
    /// If no listener accepts checks, or a flag is about Unix sockets that do not exist.
    pub(super) fn new(args: &ServeArgs) -> Result<Self, SettingsError> {
        let given = [
            (ListenerKind::Checks, args.listen.0.as_ref()),
            (ListenerKind::Admin, Some(&args.admin_listen)),
            (ListenerKind::Metrics, args.metrics_listen.0.as_ref()),
            (ListenerKind::Probes, args.plain_probes.as_ref()),
            (ListenerKind::Grpc, args.grpc.as_ref()),
        ];
        let given = given.into_iter().filter_map(|(kind, address)| Some((kind, address?.clone())));
        let addresses = Self { all: given.collect(), unix_mode: args.unix_mode.unwrap_or(SocketMode::OWNER) };
        if addresses.of(ListenerKind::Checks).or(addresses.of(ListenerKind::Grpc)).is_none() {
            return Err(SettingsError::NoChecks);
        }
        if args.unix_mode.is_some() && !addresses.iter().any(|(_, address)| address.is_unix()) {
            return Err(SettingsError::NeedlessUnixMode);
        }
        let trusts_unix = args.trusted_proxies.contains(&TrustedProxy::Unix);
        if trusts_unix && !addresses.of(ListenerKind::Checks).is_some_and(ListenAddress::is_unix) {
            return Err(SettingsError::NeedlessUnixProxy);
        }
        Ok(addresses)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ListenerKind, &ListenAddress)> {
        self.all.iter().map(|(kind, address)| (*kind, address))
    }

    pub(crate) fn of(&self, kind: ListenerKind) -> Option<&ListenAddress> {
        self.iter().find(|(other, _)| *other == kind).map(|(_, address)| address)
    }

    /// Returns the listeners that speak TLS, if there is a certificate: all of TCP but that for probes, unless the flags
    /// name some.
    pub(super) fn tls_scope(&self, args: &ServeArgs) -> Result<TlsScope, SettingsError> {
        let named = args.tls.tls_on.iter().map(|listener| listener.kind());
        for kind in named.clone() {
            match self.of(kind) {
                None => return Err(SettingsError::TlsOnNothing { listener: kind.name(), flag: kind.flag() }),
                Some(ListenAddress::Unix(path)) => {
                    return Err(SettingsError::TlsOnUnix { listener: kind.name(), path: path.clone() });
                }
                Some(ListenAddress::Tcp(_)) => {}
            }
        }
        if named.len() > 0 {
            return Ok(TlsScope(named.collect()));
        }
        let can = self.iter().filter(|(kind, address)| *kind != ListenerKind::Probes && !address.is_unix());
        let scope = TlsScope(can.map(|(kind, _)| kind).collect());
        if args.tls.tls_cert.is_some() && scope.0.is_empty() {
            return Err(SettingsError::NeedlessTls);
        }
        Ok(scope)
    }

    /// Checks that an admin listener that others can reach can identify its callers, or was opened on purpose.
    pub(super) fn check_admin(&self, args: &ServeArgs, tls_scope: &TlsScope) -> Result<(), SettingsError> {
        let knows_callers =
            args.tokens.is_some() || args.tls.tls_client_ca.is_some() && tls_scope.has(ListenerKind::Admin);
        if !self.is_admin_reachable() || knows_callers || args.insecure_admin {
            return Ok(());
        }
        Err(match &args.admin_listen {
            ListenAddress::Tcp(address) => SettingsError::OpenAdmin(*address),
            ListenAddress::Unix(_) => SettingsError::OpenAdminSocket(self.unix_mode),
        })
    }

    /// Returns whether others than this host can reach the admin listener; at a Unix socket, others than its owner.
    pub(crate) fn is_admin_reachable(&self) -> bool {
        self.of(ListenerKind::Admin).is_some_and(|address| match address {
            ListenAddress::Tcp(_) => !address.is_local(),
            ListenAddress::Unix(_) => self.unix_mode != SocketMode::OWNER,
        })
    }

    /// Checks that no other host can reach a service whose clock tests move.
    pub(super) fn check_test_clock(&self) -> Result<(), SettingsError> {
        match self.iter().find(|(_, address)| !address.is_local()) {
            Some((kind, address)) => {
                Err(SettingsError::OpenTestClock { flag: kind.flag(), address: address.clone() })
            }
            None => Ok(()),
        }
    }
}
