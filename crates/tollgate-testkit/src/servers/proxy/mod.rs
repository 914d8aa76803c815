//! A proxy in front of a server that does to its connections what networks do.
//!
//! It carries bytes and knows nothing of what they mean, so it stands before any server, with TLS or without. It is
//! an ordinary process's sockets and timers: no rights and no settings of the system are needed. What it does
//! depends on what it was told and on the bytes that come, not on chance.

mod faults;
mod link;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::watch;

pub use self::faults::{ByteDirection, ConnectionEnd};
use self::faults::{Cut, Direction, Faults};
use super::patience::wait_for;
use super::port::Port;

/// A proxy to one address, until it is dropped. It begins without faults.
///
/// Faults can be changed at any time and hold for open connections as well as for new ones. Without one, bytes pass
/// at once. What a client sent before it hung up is still delivered, at last when it is released.
#[derive(Debug)]
pub struct FaultProxy {
    port: Port,
    faults: Arc<watch::Sender<Faults>>,
    thread: Option<JoinHandle<()>>,
}

impl FaultProxy {
    /// Stands before the server at this address, which need not listen yet. A client that connects while it does not is
    /// accepted and then reset.
    ///
    /// # Panics
    ///
    /// If no thread or no socket is to be had.
    #[must_use]
    pub fn before(server: SocketAddr) -> Self {
        let port = Port::reserve();
        let faults = Arc::new(watch::Sender::new(Faults::default()));
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime starts");
        let (address, shared) = (port.address(), Arc::clone(&faults));
        let run = move || runtime.block_on(accept(address, server, shared));
        let thread =
            thread::Builder::new().name("fault proxy".to_owned()).spawn(run).expect("a thread starts");
        let proxy = Self { port, faults, thread: Some(thread) };
        proxy.wait_until("a proxy that listens", |faults| faults.is_listening);
        proxy
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Ends a connection as soon as so many more bytes have passed this way on all of them together: the one on
    /// which the last of them passed. With 0, the next byte ends its connection and does not pass.
    ///
    /// It happens once; other connections go on. The server still gets every byte that passed, then an end; the
    /// client gets its bytes, then the ending that is asked for.
    pub fn cut(&self, way: ByteDirection, after: u64, ending: ConnectionEnd) {
        self.set(way, |direction| direction.cut = Some(Cut { left: after, ending }));
    }

    /// Lets bytes that arrive from now on pass so much later, in their order, however many follow each other.
    pub fn delay(&self, way: ByteDirection, delay: Duration) {
        self.set(way, |direction| direction.delay = delay);
    }

    /// Keeps what arrives, until it is released.
    pub fn hold(&self, way: ByteDirection) {
        self.set(way, |direction| direction.is_held = true);
    }

    /// Delivers what was held, also what a client sent that has hung up meanwhile.
    pub fn release(&self, way: ByteDirection) {
        self.set(way, |direction| direction.is_held = false);
    }

    /// Lets no more than so many bytes a second pass on each connection, a hundredth of them at once. The sender
    /// does not notice: what waits is kept here.
    ///
    /// # Panics
    ///
    /// If it is 0: [`hold`](Self::hold) does that.
    pub fn throttle(&self, way: ByteDirection, bytes_per_second: u64) {
        assert_ne!(bytes_per_second, 0, "to let nothing pass is to hold");
        self.set(way, |direction| direction.bytes_per_second = Some(bytes_per_second));
    }

    /// Ends every connection at once; what waited on them is lost.
    pub fn sever(&self, ending: ConnectionEnd) {
        self.faults.send_modify(|faults| faults.sever(ending));
    }

    /// Refuses new connections, as a server that is down does; those that are open stay so.
    pub fn refuse(&self) {
        self.faults.send_modify(|faults| faults.refuses = true);
        self.wait_until("a proxy that refuses", |faults| !faults.is_listening);
    }

    /// Leads new connections to another server, as a name does that was given to it; those that are open stay.
    pub fn lead_to(&self, server: SocketAddr) {
        self.faults.send_modify(|faults| faults.leads_to = Some(server));
    }

    /// Takes new connections again.
    pub fn accept(&self) {
        self.faults.send_modify(|faults| faults.refuses = false);
        self.wait_until("a proxy that listens", |faults| faults.is_listening);
    }

    /// Lifts every fault: takes connections, releases what is held, forgets a cut that has not happened.
    pub fn heal(&self) {
        for way in [ByteDirection::Request, ByteDirection::Reply] {
            self.set(way, |direction| {
                *direction = Direction {
                    arrived: direction.arrived,
                    passed: direction.passed,
                    ..Direction::default()
                };
            });
        }
        self.accept();
    }

    /// Returns how many bytes have come from one side.
    #[must_use]
    pub fn arrived(&self, way: ByteDirection) -> u64 {
        self.faults.borrow().way(way).arrived
    }

    /// Returns how many bytes the other side was given.
    #[must_use]
    pub fn passed(&self, way: ByteDirection) -> u64 {
        self.faults.borrow().way(way).passed
    }

    /// Blocks until so many bytes have come from one side since the proxy was started: whatever is held is here.
    ///
    /// # Panics
    ///
    /// If they do not come within a minute.
    pub fn wait_until_arrived(&self, way: ByteDirection, bytes: u64) {
        self.wait_until("bytes that arrive at the proxy", |faults| faults.way(way).arrived >= bytes);
    }

    /// Returns how many connections it has taken.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.faults.borrow().connections
    }

    fn set(&self, way: ByteDirection, change: impl FnOnce(&mut Direction)) {
        self.faults.send_modify(|faults| change(faults.way_mut(way)));
    }

    fn wait_until(&self, what: &str, holds: impl Fn(&Faults) -> bool) {
        wait_for(format_args!("{what}, at {}", self.address()), || {
            holds(&self.faults.borrow()).then_some(())
        });
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.faults.send_modify(|faults| faults.is_over = true);
        if let Some(thread) = self.thread.take() {
            // Its panic has been printed, and a second one here would hide why the test failed.
            let _ = thread.join();
        }
    }
}

/// Takes connections until the proxy is dropped.
async fn accept(address: SocketAddr, server: SocketAddr, shared: Arc<watch::Sender<Faults>>) {
    let mut faults = shared.subscribe();
    loop {
        let listener = TcpListener::bind(address).await.expect("a reserved port is free");
        shared.send_modify(|faults| faults.is_listening = true);
        let told = loop {
            tokio::select! {
                Ok((client, _)) = listener.accept() => {
                    let mut server = server;
                    shared.send_modify(|faults| {
                        faults.connections += 1;
                        server = faults.leads_to.unwrap_or(server);
                    });
                    tokio::spawn(link::carry(client, server, Arc::clone(&shared)));
                }
                told = faults.wait_for(|faults| faults.refuses || faults.is_over) => break told.is_ok(),
            }
        };
        drop(listener);
        shared.send_modify(|faults| faults.is_listening = false);
        let until = faults.wait_for(|faults| !faults.refuses || faults.is_over).await;
        if !told || until.is_ok_and(|faults| faults.is_over) {
            return;
        }
    }
}
