//! A TCP proxy that forwards bytes at once, or after a delay.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

pub(super) struct SlowProxy {
    pub(super) address: SocketAddr,
    delay: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl SlowProxy {
    /// Starts to forward connections to this address, without a delay.
    pub(super) fn start(upstream: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
        let address = listener.local_addr()?;
        let (delay, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let proxy = Self { address, delay: Arc::clone(&delay), is_over: Arc::clone(&is_over) };
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                // Without the service, the client's connection ends.
                if let Ok(server) = TcpStream::connect(upstream) {
                    let _ = forward_both_ways(&client, &server, &delay);
                }
            }
        });
        Ok(proxy)
    }

    /// From now on, every piece waits this long, in each direction.
    pub(super) fn delay_by(&self, delay: Duration) {
        let millis = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.delay.store(millis, Ordering::Relaxed);
    }
}

impl Drop for SlowProxy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

fn forward_both_ways(client: &TcpStream, server: &TcpStream, delay: &Arc<AtomicU64>) -> Result<()> {
    for (from, to) in [(client, server), (server, client)] {
        to.set_nodelay(true)?;
        let (from, to, delay) = (from.try_clone()?, to.try_clone()?, Arc::clone(delay));
        thread::spawn(move || forward(from, to, &delay));
    }
    Ok(())
}

/// Forwards until one side ends, then ends the other.
fn forward(mut from: TcpStream, mut to: TcpStream, delay: &AtomicU64) {
    let mut piece = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        let wait = Duration::from_millis(delay.load(Ordering::Relaxed));
        if !wait.is_zero() {
            thread::sleep(wait);
        }
        if to.write_all(&piece[..length]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stopwatch::Stopwatch;

    #[test]
    fn forwards_both_ways_and_delays_each() {
        let upstream = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let proxy = SlowProxy::start(upstream.local_addr().unwrap()).unwrap();
        let mut client = TcpStream::connect(proxy.address).unwrap();
        let (mut server, _) = upstream.accept().unwrap();
        let mut converse = || {
            let (watch, mut byte) = (Stopwatch::start(), [0]);
            client.write_all(b"?").unwrap();
            server.read_exact(&mut byte).unwrap();
            server.write_all(b"!").unwrap();
            client.read_exact(&mut byte).unwrap();
            assert_eq!(&byte, b"!");
            watch.elapsed()
        };
        converse();
        proxy.delay_by(Duration::from_millis(50));
        assert!(converse() >= Duration::from_millis(100));
        drop(server);
        assert_eq!(client.read(&mut [0]).unwrap(), 0, "the end is forwarded");
    }
}
