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
mod subscription;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::{Mutex, Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{timeout, timeout_at};

pub(crate) use self::connect::{PeerRole, ask_once};
use self::connect::{connect, expect_rights, polled};
use self::connection::{Connection, Pump, Replies};
pub(crate) use self::subscription::Subscription;
use crate::address::Address;
use crate::backoff::Backoff;
use crate::calls::{Calls, InFlightGuard};
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

struct NodeState {
    address: Address,
    checked: Arc<CheckedSettings>,
    links: watch::Sender<Links>,
    /// Held while connecting, so that there is one attempt at a time.
    backoff: Mutex<Backoff>,
    script: Script,
}

/// The working connections, and the reason if there are none.
struct Links {
    up: Vec<Arc<Link>>,
    /// The error of the last attempt, if there is no connection.
    trouble: Option<ConnectTrouble>,
    /// The time since which there have been connections, or none.
    since: Instant,
    /// Whether there was ever a connection.
    was_up: bool,
}

/// A working connection.
struct Link {
    connection: Connection,
    /// Notified when the connection should be replaced.
    renew: Notify,
}

/// Loads of the script, so that many calls without it load it once.
struct Script {
    loading: Mutex<()>,
    /// The number of times that it was loaded because a call missed it.
    loads: AtomicU64,
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

/// A connection that works, over which calls can be sent without a wait.
pub(crate) struct Sender {
    shared: Arc<NodeState>,
    link: Arc<Link>,
}

/// Calls that were sent to a server together, and their outstanding replies.
pub(crate) struct Exchange {
    shared: Arc<NodeState>,
    link: Arc<Link>,
    replies: Replies,
    sent: Instant,
}

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

    /// Makes one call of the script, which is loaded again if the server has lost it.
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

    /// Loads the script, unless another call has done so meanwhile.
    async fn load_script(&self, loads: u64, deadline: Instant) -> Result<(), Trouble> {
        let script = &self.shared.script;
        let _loading = script.loading.lock().await;
        if script.loads.load(Relaxed) != loads {
            return Ok(());
        }
        let load = Calls::of(&command("SCRIPT").arg("LOAD").arg(self.shared.checked.script));
        let reply = match self.send(&load, deadline).await {
            Ok(exchange) => exchange.only(deadline).await,
            Err(trouble) => Err(trouble),
        };
        match reply {
            Ok(_) => script.loads.fetch_add(1, Relaxed),
            // Whether or not the load succeeds, the call did not run.
            Err(trouble)
                if trouble.may_have_run() || matches!(trouble, Trouble::Unconnected(_) | Trouble::Late) =>
            {
                return Err(Trouble::Refused(Refusal::NoScript));
            }
            Err(trouble) => return Err(trouble),
        };
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

impl Sender {
    /// Sends calls immediately.
    ///
    /// # Errors
    ///
    /// If the connection has ended. Then nothing was sent.
    pub(crate) fn send(self, calls: &Calls) -> Result<Exchange, Trouble> {
        let Self { shared, link } = self;
        let sent = instant();
        let replies = link.connection.send(calls).inspect_err(|_| shared.close(&link, None))?;
        Ok(Exchange { shared, link, replies, sent })
    }
}

impl Exchange {
    /// Returns the time at which the calls were sent.
    pub(crate) const fn sent(&self) -> Instant {
        self.sent
    }

    /// The next reply.
    ///
    /// # Cancel safety
    ///
    /// No reply is lost.
    pub(crate) async fn next(&mut self) -> Result<RespValue, Trouble> {
        let reply = self.next_as_it_is().await?;
        let RespValue::Error(error) = reply else { return Ok(reply) };
        let trouble = Trouble::of_reply(&error, &self.shared.address);
        if matches!(&trouble, Trouble::Refused(refusal) if refusal.meaning().is_replica) {
            // It is not a primary any more and would go on refusing. Its name may now belong to another server.
            self.shared.close(&self.link, Some(ConnectTrouble::Replica));
        }
        if matches!(&trouble, Trouble::Stopped(code) if code.is_missing_right()) {
            // The user had the right when this connection was set up. The next one finds out which right it is.
            self.shared
                .close(&self.link, Some(ConnectTrouble::NoRight("run a command of the counting script")));
        }
        Err(trouble)
    }

    /// The next reply, be it an error of the server.
    async fn next_as_it_is(&mut self) -> Result<RespValue, Trouble> {
        self.replies.next().await
    }

    /// The reply to an only call, until the deadline.
    async fn only(mut self, deadline: Instant) -> Result<RespValue, Trouble> {
        match timeout_at(deadline, self.next()).await {
            Ok(reply) => reply,
            Err(_) => Err(self.give_up()),
        }
    }

    /// Returns whether the next reply has arrived.
    pub(crate) fn is_there(&self) -> bool {
        self.replies.is_there()
    }

    /// Keeps this guard until all replies have arrived or the connection ends, even if no caller waits for that.
    pub(crate) fn hold(&self, guard: InFlightGuard) {
        self.replies.hold(guard);
    }

    /// Records that there was no reply in time, and returns the reason.
    pub(crate) fn give_up(self) -> Trouble {
        let breaker = self.link.connection.breaker();
        let trouble = if breaker.is_late() { Trouble::TooSlow } else { Trouble::TimedOut };
        if breaker.unanswered(self.sent, instant()) {
            self.shared.close(&self.link, Some(ConnectTrouble::Silent));
            self.shared.links.borrow().up.iter().for_each(|other| other.connection.breaker().doubt());
        }
        trouble
    }
}

impl Links {
    /// Returns the connection for calls: always the same while it works. One connection carries all that a server can
    /// count, and its memory stays in the caches of both sides.
    fn first(&self) -> Result<Option<Arc<Link>>, ConnectTrouble> {
        match self.up.first() {
            Some(link) => Ok(Some(link.clone())),
            None => self.trouble.clone().map_or(Ok(None), Err),
        }
    }
}

impl NodeState {
    fn new(address: Address, checked: Arc<CheckedSettings>) -> Self {
        let links = Links { up: Vec::new(), trouble: None, since: instant(), was_up: false };
        Self {
            address,
            links: watch::Sender::new(links),
            backoff: Mutex::new(Backoff::with_first(checked.settings.connections)),
            script: Script { loading: Mutex::new(()), loads: AtomicU64::new(0) },
            checked,
        }
    }

    fn open(&self, link: Arc<Link>) {
        self.links.send_modify(|links| {
            if links.up.is_empty() {
                links.since = instant();
            }
            links.up.push(link);
            links.trouble = None;
            links.was_up = true;
        });
    }

    /// Stops using this connection. If it was the last one, calls fail with this error until there is another.
    fn close(&self, link: &Arc<Link>, trouble: Option<ConnectTrouble>) {
        self.links.send_if_modified(|links| {
            let count = links.up.len();
            links.up.retain(|other| !Arc::ptr_eq(other, link));
            if links.up.len() == count {
                return false;
            }
            if links.up.is_empty() {
                links.trouble = trouble;
                links.since = instant();
            }
            true
        });
        // Only now: the task that keeps the connection closes it as well, and knows of no trouble.
        link.renew.notify_one();
    }

    fn fail(&self, trouble: ConnectTrouble) {
        self.links.send_modify(|links| {
            // While there are other connections, calls go on over those.
            if links.up.is_empty() {
                links.trouble = Some(trouble);
            }
        });
    }

    fn is_away(&self) -> bool {
        self.links.borrow().trouble.is_some()
    }
}

/// Keeps one connection up.
async fn keep_connected(shared: Arc<NodeState>) {
    loop {
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
            Ok((link, pump)) => {
                shared.open(link.clone());
                tokio::select! {
                    () = pump => {}
                    () = link.renew.notified() => {}
                }
                shared.close(&link, None);
            }
            Err(trouble) => shared.fail(trouble),
        }
    }
}

/// Connects. A server that was down must also answer a call, or others would meet the next silence. It has as long as
/// any other step of setting up a connection: one that answers after the deadline is too slow, and not silent.
async fn set_up(shared: &NodeState) -> Result<(Arc<Link>, Pump), ConnectTrouble> {
    let (connection, mut pump) = connect(&shared.address, PeerRole::Store, &shared.checked).await?;
    // They are the same over a second connection.
    let is_first = shared.links.borrow().up.is_empty();
    if let Some(rights) = shared.checked.settings.rights.as_ref().filter(|_| is_first) {
        expect_rights(&mut pump, &connection, rights, &shared.address, &shared.checked).await?;
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

#[cfg(test)]
mod tests;
