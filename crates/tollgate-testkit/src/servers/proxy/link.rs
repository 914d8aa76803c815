//! One connection through the proxy.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio::time::{Sleep, sleep};

use super::faults::{ByteDirection, ConnectionEnd, Faults};

/// Bytes that came together.
struct DelayedBytes {
    bytes: Vec<u8>,
    /// Began when they came.
    delay: Option<Pin<Box<Sleep>>>,
}

type SharedFaults = Arc<watch::Sender<Faults>>;

/// Carries bytes both ways until both sides have ended, or a fault ends the connection.
pub(super) async fn carry(mut client: TcpStream, server: SocketAddr, shared: SharedFaults) {
    let ending = match TcpStream::connect(server).await {
        Ok(mut server) => connected(&mut client, &mut server, shared).await,
        Err(_) => Some(ConnectionEnd::Reset),
    };
    if ending == Some(ConnectionEnd::Reset) {
        // What the socket still has to send would be dropped with it. Over the loopback that is nothing, unless the
        // client has let megabytes pile up.
        let _ = client.set_zero_linger();
    }
}

async fn connected(
    client: &mut TcpStream,
    server: &mut TcpStream,
    shared: SharedFaults,
) -> Option<ConnectionEnd> {
    for stream in [&*client, &*server] {
        stream.set_nodelay(true).expect("an open socket can be set");
    }
    let mut faults = shared.subscribe();
    let born = faults.borrow().severings;
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let both = async {
        tokio::try_join!(
            one_way(ByteDirection::Request, from_client, to_server, &shared),
            one_way(ByteDirection::Reply, from_server, to_client, &shared),
        )
    };
    let severed = faults.wait_for(|faults| faults.severed_since(born).is_some());
    tokio::select! {
        ended = both => ended.err(),
        severed = severed => severed.ok()?.severed_since(born),
    }
}

/// Carries bytes one way until they end. Fails with the ending that a cut asked for.
async fn one_way(
    way: ByteDirection,
    from: ReadHalf<'_>,
    to: WriteHalf<'_>,
    shared: &SharedFaults,
) -> Result<(), ConnectionEnd> {
    // Reading continues while bytes are held or delayed, so that they arrive late but complete.
    let (queue, pieces) = mpsc::unbounded_channel();
    let take = async {
        take(way, from, queue, shared).await;
        Ok(())
    };
    tokio::try_join!(take, give(way, pieces, to, shared)).map(|((), ())| ())
}

/// Reads until the end. A reset is an end as well: what came before it is still delivered.
async fn take(
    way: ByteDirection,
    mut from: ReadHalf<'_>,
    queue: UnboundedSender<DelayedBytes>,
    shared: &SharedFaults,
) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let mut delay = None;
        shared.send_modify(|faults| {
            let direction = faults.way_mut(way);
            direction.arrived += length as u64;
            delay = Some(direction.delay).filter(|delay| !delay.is_zero());
        });
        let piece = DelayedBytes {
            bytes: buffer[..length].to_vec(),
            delay: delay.map(|delay| Box::pin(sleep(delay))),
        };
        if queue.send(piece).is_err() {
            return;
        }
    }
}

/// Writes what was read, as the faults allow.
async fn give(
    way: ByteDirection,
    mut pieces: UnboundedReceiver<DelayedBytes>,
    mut to: WriteHalf<'_>,
    shared: &SharedFaults,
) -> Result<(), ConnectionEnd> {
    while let Some(piece) = pieces.recv().await {
        if let Some(delay) = piece.delay {
            delay.await;
        }
        let mut rest = piece.bytes.as_slice();
        while !rest.is_empty() {
            released(way, shared).await;
            let mut pass = None;
            shared.send_if_modified(|faults| {
                pass = Some(faults.way_mut(way).pass(rest.len()));
                false
            });
            let pass = pass.expect("was just set");
            let (now, later) = rest.split_at(pass.bytes);
            if to.write_all(now).await.is_err() {
                // The other side is gone. The other direction ends by itself.
                return Ok(());
            }
            rest = later;
            shared.send_modify(|faults| faults.way_mut(way).passed += pass.bytes as u64);
            if let Some(ending) = pass.ending {
                return Err(ending);
            }
            if !pass.pause.is_zero() {
                sleep(pass.pause).await;
            }
        }
    }
    released(way, shared).await;
    // A side that is gone needs no end.
    let _ = to.shutdown().await;
    Ok(())
}

/// Waits while this way is held.
async fn released(way: ByteDirection, shared: &SharedFaults) {
    // It fails only if the proxy is gone, and this task with it.
    let _ = shared.subscribe().wait_for(|faults| !faults.way(way).is_held).await;
}
