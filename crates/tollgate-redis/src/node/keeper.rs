//! Keeps connections up, in the background.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::connect::{PeerRole, connect, polled, polled_in_time};
use super::connection::Pump;
use super::state::{Link, NodeState};
use crate::calls::Calls;
use crate::resp::command;
use crate::trouble::ConnectTrouble;

/// Keeps one connection up. One that is replaced stays open until the calls in flight have their own replies: they may
/// have been refused like the one that led to it, and must not be called unknown.
pub(super) async fn keep_connected(shared: Arc<NodeState>) {
    let mut finishing = JoinSet::new();
    loop {
        while finishing.try_join_next().is_some() {}
        let connected = {
            let mut backoff = shared.backoff.lock().await;
            backoff.wait().await;
            let connected = set_up(&shared).await;
            if connected.is_ok() {
                backoff.succeeded();
            }
            connected
        };
        match connected {
            Ok((link, mut pump)) => {
                shared.open(link.clone());
                let is_over = tokio::select! {
                    () = &mut pump => true,
                    () = link.renew.notified() => false,
                };
                shared.close(&link, None);
                if !is_over {
                    finishing.spawn(timeout(shared.checked.settings.connect_timeout, pump.finish()));
                }
            }
            Err(trouble) => shared.fail(trouble),
        }
    }
}

/// Connects. A server that was down must also answer a call, or others would meet the next silence. It has as long as
/// any other step of setting up a connection: one that answers after the deadline is too slow, and not silent.
async fn set_up(shared: &NodeState) -> Result<(Arc<Link>, Pump), ConnectTrouble> {
    let (connection, mut pump) = connect(&shared.address, PeerRole::Store, &shared.checked).await?;
    // They are the same over a second connection. If they were not checked, the first request of its kind would be the
    // one to find out, and some kinds are rare.
    let is_first = shared.links.borrow().up.is_empty();
    if let Some(rights) = shared.checked.settings.rights.as_ref().filter(|_| is_first) {
        let answers = polled_in_time(&mut pump, &connection, rights.commands(), &shared.checked).await?;
        rights.judge(&answers, &shared.address)?;
    }
    if shared.is_away() {
        let limit = shared.checked.settings.connect_timeout;
        match timeout(limit, polled(&mut pump, &connection, &Calls::of(&command("PING")))).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) => return Err(ConnectTrouble::HungUp),
            Err(_) => return Err(ConnectTrouble::Silent),
        }
    }
    Ok((Arc::new(Link { connection, renew: Notify::new() }), pump))
}
