//! TCP connections: looks up a host and tries its addresses.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::trouble::ConnectTrouble;

/// The name lookups in progress.
///
/// The system's lookup occupies a thread until it ends, which can take far longer than a connection may. So there is at
/// most one look-up for each name, and further callers wait for the same answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct LookUps(Arc<Mutex<HashMap<Box<str>, AddressReceiver>>>);

/// The addresses of a name, once they are known; none if the name is not.
type AddressReceiver = watch::Receiver<Option<Vec<SocketAddr>>>;

/// Connects to the address of the host that answers first. All are tried within this time.
pub(crate) async fn dial(
    host: &str,
    port: u16,
    look_ups: &LookUps,
    limit: Duration,
) -> Result<TcpStream, ConnectTrouble> {
    let mut addresses = look_ups.addresses(host).await;
    addresses.iter_mut().for_each(|address| address.set_port(port));
    let count = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    first_to_answer(addresses, limit / count.saturating_add(1)).await
}

/// Tries one address after another: the next one starts when one has failed or has not answered for some time. Slow
/// attempts continue, so one silent address does not block the others.
async fn first_to_answer(
    addresses: Vec<SocketAddr>,
    patience: Duration,
) -> Result<TcpStream, ConnectTrouble> {
    let (mut addresses, mut attempts) = (addresses.into_iter(), JoinSet::new());
    let mut trouble = ConnectTrouble::UnknownHost;
    loop {
        if let Some(address) = addresses.next() {
            attempts.spawn(TcpStream::connect(address));
        }
        match timeout(patience, attempts.join_next()).await {
            Ok(Some(Ok(Ok(stream)))) => return Ok(stream),
            Ok(Some(Ok(Err(error)))) => trouble = error.into(),
            // No attempt is in progress, and no address is left.
            Ok(None) => return Err(trouble),
            // One was dropped with the runtime, or none has answered yet.
            Ok(Some(Err(_))) | Err(_) => {}
        }
    }
}

impl LookUps {
    /// The addresses of the host, without a port.
    async fn addresses(&self, host: &str) -> Vec<SocketAddr> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return vec![(address, 0).into()];
        }
        let mut answer = self.under_way(host);
        let addresses = answer.wait_for(Option::is_some).await;
        addresses.ok().and_then(|addresses| addresses.clone()).unwrap_or_default()
    }

    /// The pending look-up of this name, or a new one.
    fn under_way(&self, host: &str) -> AddressReceiver {
        let mut names = self.names();
        if let Some(answer) = names.get(host) {
            return answer.clone();
        }
        let (sender, answer) = watch::channel(None);
        names.insert(host.into(), answer.clone());
        let (look_ups, host) = (self.clone(), host.to_owned());
        tokio::spawn(async move {
            let addresses = lookup_host((&*host, 0)).await.map(Iterator::collect).unwrap_or_default();
            look_ups.names().remove(&*host);
            // All callers may have gone away.
            let _ = sender.send(Some(addresses));
        });
        answer
    }

    fn names(&self) -> MutexGuard<'_, HashMap<Box<str>, AddressReceiver>> {
        // Nothing panics under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::{Ipv4Addr, TcpListener};

    use socket2::{Domain, SockAddr, Socket, Type};

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    /// One that takes no further connection, and says nothing about it.
    fn silent() -> (Socket, Vec<std::net::TcpStream>, SocketAddr) {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SockAddr::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))).unwrap();
        socket.listen(0).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        let connect = || std::net::TcpStream::connect_timeout(&address, Duration::from_millis(300));
        let waiting = std::iter::from_fn(|| connect().ok()).collect();
        (socket, waiting, address)
    }

    /// Only the first address was tried before the time was up, and the server was never reached.
    #[tokio::test]
    async fn an_address_that_is_silent_keeps_no_other_from_being_reached() {
        let (_socket, _waiting, silent) = silent();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let answers = listener.local_addr().unwrap();
        let dialed = first_to_answer(vec![silent, answers], Duration::from_millis(10));
        let stream = timeout(LONG, dialed).await.expect("it does not wait for the first").unwrap();
        assert_eq!(stream.peer_addr().unwrap(), answers);
    }

    #[tokio::test]
    async fn says_why_no_address_can_be_reached() {
        let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let refused = first_to_answer(vec![closed, closed], LONG).await.unwrap_err();
        assert_eq!(refused, ConnectTrouble::Io(io::ErrorKind::ConnectionRefused));
        assert_eq!(first_to_answer(vec![], LONG).await.unwrap_err(), ConnectTrouble::UnknownHost);
    }

    /// Each attempt to connect began another, which a name server that hangs made as many threads.
    #[tokio::test]
    async fn a_name_is_looked_up_once_at_a_time() {
        let look_ups = LookUps::default();
        let first = look_ups.under_way("localhost");
        assert!(first.same_channel(&look_ups.under_way("localhost")));
        assert!(!first.same_channel(&look_ups.under_way("localhost.")));
        let addresses = look_ups.addresses("localhost").await;
        assert!(!addresses.is_empty() && addresses.iter().all(|address| address.ip().is_loopback()));
        assert!(!first.same_channel(&look_ups.under_way("localhost")), "an answer was kept");
    }
}
