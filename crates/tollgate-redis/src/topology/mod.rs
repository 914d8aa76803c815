//! The topology of a store: which server has a counter, and what to do after it has moved.
//!
//! A call goes to one server. If the server certainly did not run it, because it reported this or could not be reached,
//! the call may be repeated within its deadline: on another server, over another connection, or a little later. Nothing
//! else is ever sent again. No replica is asked, but a primary that has become one is noticed only when it refuses a
//! write, or when another is announced.

mod cluster;
mod finder;
mod listener;
mod primary_search;
mod sentinel;
mod status;

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tollgate::Timestamp;

use self::cluster::Cluster;
use self::sentinel::Sentinel;
pub use self::status::{ServerStatus, StoreStatus};
use crate::address::Address;
use crate::calls::Calls;
use crate::lane::Lane;
use crate::node::Node;
use crate::resp::RespValue;
use crate::settings::{Settings, SettingsError};
use crate::slot::{self, ClusterSlot};
use crate::time::instant;
use crate::trouble::{Remedy, Trouble};
use crate::url::StorePlace;

/// The servers of a store.
pub(crate) struct Topology {
    servers: Servers,
    /// For requests whose server is not known yet, or which have no server.
    unrouted: Arc<Lane>,
    late_replies: Arc<AtomicU64>,
}

/// The servers.
enum Servers {
    Single(Arc<Node>),
    Sentinel(Sentinel),
    Cluster(Cluster),
}

/// The reply to a call, and its server.
pub(crate) type ServerReply = (RespValue, Arc<Node>);

/// Whether a call can be split into several with fewer keys each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Divisible {
    Yes,
    No,
}

/// Slots that are in one place.
pub(crate) type SlotShare = Vec<RangeInclusive<u16>>;

/// The maximum number of immediate retries of a call that did not run. A key that is being moved to another server can
/// need two: `ASK`, then `MOVED`. Many more are a loop.
const REPEATS: usize = 8;

impl Topology {
    /// Starts to connect, and never waits.
    ///
    /// # Errors
    ///
    /// If the settings are invalid. A server that is down is not an error.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub(crate) fn start(settings: Settings, scripts: &'static [&'static str]) -> Result<Self, SettingsError> {
        let checked = settings.check(scripts)?;
        let unrouted = Arc::new(Lane::new(checked.settings.bounds()));
        let late_replies = Arc::clone(&checked.late_replies);
        let servers = match &checked.settings.url.place {
            StorePlace::Single(address) => Servers::Single(Arc::new(Node::start(address.clone(), checked))),
            StorePlace::Sentinel { sentinels, primary } => {
                Servers::Sentinel(Sentinel::start(sentinels.clone(), primary.clone(), checked))
            }
            StorePlace::Cluster { seeds } => Servers::Cluster(Cluster::start(seeds.clone(), checked)),
        };
        Ok(Self { servers, unrouted, late_replies })
    }

    /// Returns whether all keys of a call must be in one slot.
    pub(crate) const fn is_cluster(&self) -> bool {
        matches!(self.servers, Servers::Cluster(_))
    }

    /// Returns the server of the slot, if it is known.
    pub(crate) fn server(&self, slot: ClusterSlot) -> Option<Arc<Node>> {
        match &self.servers {
            Servers::Single(single) => Some(Arc::clone(single)),
            Servers::Sentinel(sentinel) => sentinel.primary_already(),
            Servers::Cluster(cluster) => cluster.serving_already(slot.0),
        }
    }

    /// The server that has all of these slots, as far as is known now. Returns `None` if there are several.
    pub(crate) fn server_of_all(&self, slots: impl Iterator<Item = ClusterSlot>) -> Option<Arc<Node>> {
        match &self.servers {
            Servers::Single(single) => Some(Arc::clone(single)),
            Servers::Sentinel(sentinel) => sentinel.primary_already(),
            Servers::Cluster(cluster) => cluster.serving_all(slots.map(|slot| slot.0)),
        }
    }

    /// Returns the lane in which requests of this slot wait.
    pub(crate) fn lane(&self, slot: ClusterSlot) -> Arc<Lane> {
        if let Servers::Single(single) = &self.servers {
            return Arc::clone(single.lane());
        }
        self.server(slot).map_or_else(|| Arc::clone(&self.unrouted), |server| Arc::clone(server.lane()))
    }

    /// Returns when a slot last moved, as far as is known, or when they were found. `None` where slots never move.
    pub(crate) fn settled(&self) -> Option<Instant> {
        match &self.servers {
            Servers::Single(_) | Servers::Sentinel(_) => None,
            Servers::Cluster(cluster) => Some(cluster.settled()),
        }
    }

    /// Estimates the store's time. On a Cluster, returns this machine's clock.
    pub(crate) fn time_at(&self, instant: Instant) -> Timestamp {
        let lane = if self.is_cluster() {
            None
        } else {
            self.server(ClusterSlot(0)).map(|it| Arc::clone(it.lane()))
        };
        lane.as_ref().unwrap_or(&self.unrouted).time().estimate_at(instant)
    }

    /// Makes one call of the script on the server that has the slot. If the keys are on two servers, because the slot
    /// is being moved, a divisible call is refused immediately with `TRYAGAIN`.
    ///
    /// # Cancel safety
    ///
    /// The call may run even if its future is dropped; its reply is discarded then.
    pub(crate) async fn call(
        &self,
        slot: ClusterSlot,
        call: &Calls,
        divisible: Divisible,
        deadline: Instant,
    ) -> Result<ServerReply, Trouble> {
        let node = self.serving(slot, deadline).await?;
        match node.call(call, deadline).await {
            Ok(reply) => Ok((reply, node)),
            Err(trouble) => self.call_again(slot, call, divisible, deadline, node, trouble).await,
        }
    }

    /// Retries a call that this server has answered with an error, while the error has a remedy.
    pub(crate) async fn call_again(
        &self,
        slot: ClusterSlot,
        call: &Calls,
        divisible: Divisible,
        deadline: Instant,
        mut node: Arc<Node>,
        mut trouble: Trouble,
    ) -> Result<ServerReply, Trouble> {
        let (begun, mut repeats) = (instant(), 0);
        while repeats < REPEATS {
            let is_unsent = matches!(trouble, Trouble::Unconnected(_));
            repeats += 1;
            let mut asked = Arc::clone(&node);
            let answer = match trouble.remedy() {
                Remedy::Follow(address) => {
                    let Some(next) = self.moved(address) else { return Err(trouble) };
                    (node, asked) = (Arc::clone(&next), next);
                    node.call(call, deadline).await
                }
                Remedy::FollowOnce(address) => {
                    let Some(next) = self.member(address) else { return Err(trouble) };
                    asked = next;
                    asked.call(&call.asking(), deadline).await
                }
                Remedy::Divide if divisible == Divisible::Yes => return Err(trouble),
                Remedy::Divide | Remedy::Wait => {
                    if !wait_a_little(begun, deadline).await {
                        return Err(trouble);
                    }
                    repeats = 0;
                    node.call(call, deadline).await
                }
                Remedy::Resolve => match self.resolve(slot, &node, &trouble, deadline).await {
                    Some(next) => {
                        (node, asked) = (Arc::clone(&next), next);
                        node.call(call, deadline).await
                    }
                    // One connection has broken, and there is another or may be at once.
                    None if is_unsent && !node.is_away() => node.call(call, deadline).await,
                    // Why the server is down explains more than that this connection has broken.
                    None if is_unsent => return Err(node.why_away().map_or(trouble, Trouble::from)),
                    None => return Err(trouble),
                },
                Remedy::None => return Err(trouble),
            };
            // Returns the earlier error: it explains more than `Late`.
            trouble = match answer {
                Ok(reply) => return Ok((reply, asked)),
                Err(Trouble::Late) => return Err(trouble),
                Err(next) => next,
            };
        }
        Err(trouble)
    }

    /// The server that has the slot. Waits for the first attempt to find the server.
    async fn serving(&self, slot: ClusterSlot, deadline: Instant) -> Result<Arc<Node>, Trouble> {
        match &self.servers {
            Servers::Single(single) => Ok(Arc::clone(single)),
            Servers::Sentinel(sentinel) => sentinel.primary(deadline).await,
            Servers::Cluster(cluster) => cluster.serving(slot.0, deadline).await,
        }
    }

    /// Returns the member of a cluster to which a call was redirected.
    fn member(&self, address: &Address) -> Option<Arc<Node>> {
        match &self.servers {
            Servers::Cluster(cluster) => Some(cluster.member(address)),
            Servers::Single(_) | Servers::Sentinel(_) => None,
        }
    }

    /// Returns the member of a cluster that has taken over a slot.
    fn moved(&self, address: &Address) -> Option<Arc<Node>> {
        if let Servers::Cluster(cluster) = &self.servers {
            cluster.learn_from(address);
        }
        self.member(address)
    }

    /// Finds the server that has replaced this one. Returns `None` if it is still the same, or unknown.
    async fn resolve(
        &self,
        slot: ClusterSlot,
        asked: &Arc<Node>,
        trouble: &Trouble,
        deadline: Instant,
    ) -> Option<Arc<Node>> {
        // A server without a connection may be down for long: no call waits for that.
        let patience = if matches!(trouble, Trouble::Unconnected(_)) { None } else { Some(deadline) };
        match &self.servers {
            Servers::Single(_) => None,
            Servers::Sentinel(sentinel) => sentinel.resolve(asked, patience).await,
            Servers::Cluster(cluster) => cluster.resolve(slot.0, asked, patience).await,
        }
    }

    /// All servers that count.
    ///
    /// # Errors
    ///
    /// If they are not known in time.
    pub(crate) async fn primaries(&self, deadline: Instant) -> Result<Vec<Arc<Node>>, Trouble> {
        match &self.servers {
            Servers::Single(_) | Servers::Sentinel(_) => {
                Ok(vec![self.serving(ClusterSlot(0), deadline).await?])
            }
            Servers::Cluster(cluster) => cluster.primaries(deadline).await,
        }
    }

    /// Returns the share of each server, as far as is known; slots without a server are a share too.
    pub(crate) fn shares(&self) -> Vec<SlotShare> {
        match &self.servers {
            Servers::Single(_) | Servers::Sentinel(_) => vec![vec![0..=slot::SLOTS - 1]],
            Servers::Cluster(cluster) => cluster.shares(),
        }
    }

    /// Returns which servers are connected.
    pub(crate) fn status(&self) -> StoreStatus {
        let servers = match &self.servers {
            Servers::Single(single) => vec![ServerStatus::of(single)],
            Servers::Sentinel(sentinel) => vec![sentinel.status()],
            Servers::Cluster(cluster) => cluster.status(),
        };
        StoreStatus::new(servers, self.late_replies.load(Relaxed))
    }
}

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.status().servers()).finish()
    }
}

/// Waits briefly for short conditions and longer for others, but not if there is no time for it. The same time must
/// remain for the reply, or a request that was certainly not charged would end with an unknown outcome.
async fn wait_a_little(begun: Instant, deadline: Instant) -> bool {
    let shortest = (begun.elapsed() / 8).clamp(Duration::from_millis(1), Duration::from_millis(20));
    let wait = shortest.mul_f64(1.0 + 2.0 * fastrand::f64());
    let is_time = instant() + wait * 2 <= deadline;
    if is_time {
        sleep(wait).await;
    }
    is_time
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trouble::ConnectTrouble;

    /// A call met a connection that was just being closed for a missing right, and its caller was told that the store
    /// cannot be reached.
    #[tokio::test]
    async fn a_call_that_was_not_sent_says_why_the_server_is_away() {
        // Nothing listens on this port.
        let settings = Settings::new("redis://127.0.0.1:1".parse().unwrap());
        let topology = Topology::start(settings, &["return 1"]).unwrap();
        let node = topology.server(ClusterSlot(0)).unwrap();
        let deadline = instant() + Duration::from_secs(20);
        let trouble = node.first_sender().await.err().unwrap();
        assert_ne!(trouble, Trouble::Unconnected(ConnectTrouble::HungUp));
        let hung_up = ConnectTrouble::HungUp.into();
        let call = Calls::default();
        let answer = topology.call_again(ClusterSlot(0), &call, Divisible::No, deadline, node, hung_up).await;
        assert_eq!(answer.err(), Some(trouble));
    }
}
