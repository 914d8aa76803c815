//! A server: a few connections, which are maintained in the background, and its lane of requests.
//!
//! Calls wait for a connection only while the first attempt to get one is pending. After it has failed, they fail at
//! once until a later attempt succeeds, so no queue grows while the server is down. A silent server counts as down and
//! its connections are replaced, so no caller's charge is ever used as a probe.
//!
//! It does not handle slots and primaries: [`topology`](crate::topology) does.

mod breaker;
mod connect;
mod connection;
mod exchange;
mod keeper;
mod state;
mod subscription;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::task::JoinSet;
use tokio::time::timeout_at;

pub(crate) use self::connect::{PeerRole, ask_once};
pub(crate) use self::exchange::{Exchange, Sender};
use self::keeper::keep_connected;
use self::state::{Link, NodeState};
pub(crate) use self::subscription::Subscription;
use crate::address::Address;
use crate::calls::Calls;
use crate::lane::Lane;
use crate::resp::{Command, RespValue, command};
use crate::settings::CheckedSettings;
use crate::time::{Instant, instant};
use crate::trouble::{ConnectTrouble, Refusal, Trouble};

/// One server. Dropping it closes its connections.
pub(crate) struct Node {
    shared: Arc<NodeState>,
    lane: Arc<Lane>,
    /// One task for each connection.
    _keepers: JoinSet<()>,
}

/// Whether a server can be called.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Health {
    Connected,
    Trying { since: Instant, trouble: ConnectTrouble },
}

/// The number of times that a call is repeated if the server does not have the script. Others may flush the script
/// again before the call.
const SCRIPT_LOADS: usize = 10;

impl Node {
    /// Starts to connect, and never waits.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub(crate) fn start(address: Address, checked: Arc<CheckedSettings>) -> Self {
        let shared = Arc::new(NodeState::new(address, checked));
        let mut keepers = JoinSet::new();
        for _ in 0..shared.checked.settings.connections {
            keepers.spawn(keep_connected(shared.clone()));
        }
        let lane = Arc::new(Lane::new(shared.checked.settings.bounds()));
        Self { shared, lane, _keepers: keepers }
    }

    /// The requests that wait for this server.
    pub(crate) const fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }

    pub(crate) fn address(&self) -> &Address {
        &self.shared.address
    }

    /// Returns whether it is a member of a Cluster.
    pub(crate) fn is_in_cluster(&self) -> bool {
        self.shared.checked.settings.url.is_cluster()
    }

    pub(crate) fn health(&self) -> Health {
        let links = self.shared.links.borrow();
        if links.up.is_empty() {
            let untried = if links.was_up { ConnectTrouble::HungUp } else { ConnectTrouble::Untried };
            let trouble = links.trouble.clone().unwrap_or(untried);
            Health::Trying { since: links.since, trouble }
        } else {
            Health::Connected
        }
    }

    /// Why a call would get no reply in time.
    pub(crate) fn lateness(&self) -> Trouble {
        let is_late = |link: &Arc<Link>| link.connection.breaker().is_late();
        if self.shared.links.borrow().up.first().is_some_and(is_late) {
            Trouble::TooSlow
        } else {
            Trouble::TimedOut
        }
    }

    /// Returns whether no call can be sent, and an attempt to connect has failed.
    pub(crate) fn is_away(&self) -> bool {
        self.shared.is_away()
    }

    /// Returns why no call can be sent; `None` if one can, or if no attempt to connect has failed.
    pub(crate) fn why_away(&self) -> Option<ConnectTrouble> {
        self.shared.links.borrow().trouble.clone()
    }

    /// Waits until all connections are open and have answered this call.
    pub(crate) async fn warm_up(&self, call: &Calls, deadline: Instant) -> Result<(), Trouble> {
        let mut links = self.shared.links.subscribe();
        let connections = self.shared.checked.settings.connections;
        let up = match timeout_at(deadline, links.wait_for(|links| links.up.len() >= connections)).await {
            Ok(Ok(links)) => links.up.clone(),
            Ok(Err(_)) | Err(_) => {
                return Err(self.shared.links.borrow().trouble.clone().map_or(Trouble::Late, Trouble::from));
            }
        };
        for link in up {
            self.sender_over(link).send(call)?.only(deadline).await?;
        }
        Ok(())
    }

    /// Sends calls immediately. Waits only for the first attempt to connect.
    async fn send(&self, calls: &Calls, deadline: Instant) -> Result<Exchange, Trouble> {
        let sender = match self.sender()? {
            Some(sender) => sender,
            None => match Box::pin(timeout_at(deadline, self.first_sender())).await {
                Ok(sender) => sender?,
                Err(_) => return Err(Trouble::Late),
            },
        };
        if deadline <= instant() {
            return Err(Trouble::Late);
        }
        sender.send(calls)
    }

    /// Makes one call of a script. If the server has lost it, all are loaded again.
    ///
    /// # Cancel safety
    ///
    /// The call may run even if its future is dropped; its reply is discarded then.
    pub(crate) async fn call(&self, call: &Calls, deadline: Instant) -> Result<RespValue, Trouble> {
        for _ in 0..SCRIPT_LOADS {
            let loads = self.shared.script.loads.load(Relaxed);
            let answer = self.send(call, deadline).await?.only(deadline).await;
            if answer != Err(Trouble::Refused(Refusal::NoScript)) {
                return answer;
            }
            // The call did not run. If the script cannot be loaded in time, that is the error.
            match Box::pin(timeout_at(deadline, self.load_script(loads, deadline))).await {
                Ok(loaded) => loaded?,
                Err(_) => break,
            }
        }
        Err(Trouble::Refused(Refusal::NoScript))
    }

    /// Sends any other command and returns the reply unchanged, even an error of the server.
    pub(crate) async fn ask(&self, command: &Command, deadline: Instant) -> Result<RespValue, Trouble> {
        let mut exchange = self.send(&Calls::of(command), deadline).await?;
        match timeout_at(deadline, exchange.next_as_it_is()).await {
            Ok(reply) => reply,
            Err(_) => Err(exchange.give_up()),
        }
    }

    /// Loads all scripts, unless another call has done so meanwhile.
    async fn load_script(&self, loads: u64, deadline: Instant) -> Result<(), Trouble> {
        let script = &self.shared.script;
        let _loading = script.loading.lock().await;
        if script.loads.load(Relaxed) != loads {
            return Ok(());
        }
        for text in self.shared.checked.scripts {
            let load = Calls::of(&command("SCRIPT").arg("LOAD").arg(text));
            let reply = match self.send(&load, deadline).await {
                Ok(exchange) => exchange.only(deadline).await,
                Err(trouble) => Err(trouble),
            };
            match reply {
                Ok(_) => {}
                // Whether or not the load succeeds, the call did not run.
                Err(trouble)
                    if trouble.may_have_run()
                        || matches!(trouble, Trouble::Unconnected(_) | Trouble::Late) =>
                {
                    return Err(Trouble::Refused(Refusal::NoScript));
                }
                Err(trouble) => return Err(trouble),
            }
        }
        script.loads.fetch_add(1, Relaxed);
        Ok(())
    }

    /// A connection that works. None while the first attempt to get one is pending.
    pub(crate) fn sender(&self) -> Result<Option<Sender>, Trouble> {
        Ok(self.shared.links.borrow().first()?.map(|link| self.sender_over(link)))
    }

    /// The same, after a wait for the first attempt. It does not wait for a later one.
    pub(crate) async fn first_sender(&self) -> Result<Sender, Trouble> {
        let mut links = self.shared.links.subscribe();
        let settled = links.wait_for(|links| !links.up.is_empty() || links.trouble.is_some()).await;
        // The sender of links lives as long as the node.
        let first = settled.map_or(Ok(None), |links| links.first())?;
        first.map(|link| self.sender_over(link)).ok_or(Trouble::Late)
    }

    fn sender_over(&self, link: Arc<Link>) -> Sender {
        Sender { shared: Arc::clone(&self.shared), link }
    }
}

#[cfg(test)]
mod tests;
