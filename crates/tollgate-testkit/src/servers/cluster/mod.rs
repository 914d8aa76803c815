//! A cluster of six servers.

mod migration;
mod view;

use std::thread;

use redis::RedisResult;

pub use self::migration::Migration;
use self::view::NodeLine;
use super::patience::wait_for;
use super::server::{names, text_field};
use super::settings::{Role, Settings};
use super::{Server, Software};

/// Three primaries that share the slots, and a replica of each.
///
/// A node that others cannot reach for a second is replaced by its replica, whatever that has received.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Server>,
}

/// How many slots a cluster has.
pub const SLOTS: u16 = 16_384;

const PRIMARIES: u16 = 3;

/// How often one looks whether something has come about before it is asked for again: for a few seconds at least.
const LOOKS: u32 = 500;

impl Cluster {
    /// Starts one of this software and waits until every slot is served and has a replica.
    ///
    /// # Panics
    ///
    /// If it does not come about.
    #[must_use]
    pub fn start(software: Software) -> Self {
        Self::with(&Settings::new(software))
    }

    /// Starts one of nodes with these settings.
    ///
    /// # Panics
    ///
    /// If it does not come about.
    #[must_use]
    pub fn with(settings: &Settings) -> Self {
        let settings = settings
            .clone()
            .role(Role::ClusterNode)
            .config("cluster-node-timeout", "1000")
            .config("cluster-replica-validity-factor", "0")
            .config("repl-diskless-sync-delay", "0");
        let cluster = Self { nodes: start_all(vec![settings; 2 * usize::from(PRIMARIES)]) };
        cluster.assign_slots();
        cluster.introduce();
        cluster.attach_replicas();
        cluster
    }

    /// Lets no replica take over because a machine that is busy stalled its primary: for tests that are not about
    /// failovers. A node renews a silent link after half of this timeout, so nodes agree within the minute that tests
    /// wait.
    #[must_use]
    pub fn calm(self) -> Self {
        for node in &self.nodes {
            node.command::<()>(["CONFIG", "SET", "cluster-node-timeout", "20000"]);
        }
        self
    }

    /// Every node, dead or alive; the first three began as primaries.
    #[must_use]
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// The slot of a key.
    #[must_use]
    pub fn slot_of(&self, key: &str) -> u16 {
        self.running().next().expect("a node that runs").command(["CLUSTER", "KEYSLOT", key])
    }

    /// The primary that serves the slot, once all nodes that run agree on it and serve every slot. After the death
    /// of one that is its former replica.
    ///
    /// # Panics
    ///
    /// If they do not agree within a minute.
    #[must_use]
    pub fn primary_of(&self, slot: u16) -> &Server {
        self.agreed(slot).0
    }

    /// The replica of the primary that serves the slot, once it is up to date.
    ///
    /// # Panics
    ///
    /// If there is none within a minute.
    #[must_use]
    pub fn replica_of(&self, slot: u16) -> &Server {
        self.wait_for("a replica that is up to date", || {
            let (_, primary) = self.agreed(slot);
            let view = self.view(self.running().next()?).ok()?;
            let replica = view.iter().find(|node| node.primary.as_ref() == Some(&primary) && !node.failed)?;
            Some(self.node(replica)?).filter(|replica| replica.is_running() && is_linked(replica))
        })
    }

    /// Kills the primary that serves the slot, and gives it.
    pub fn kill_primary_of(&self, slot: u16) -> &Server {
        let primary = self.primary_of(slot);
        primary.kill();
        primary
    }

    /// Makes the replica of the slot's primary take over, as an operator would: nothing is lost. Comes back when
    /// all nodes know, and gives the new primary.
    ///
    /// # Panics
    ///
    /// If it does not come about within a minute.
    pub fn fail_over(&self, slot: u16) -> &Server {
        let replica = self.replica_of(slot);
        let mut looks = 0;
        self.wait_for("a replica that takes over", || {
            // One that has just been asked for a vote may refuse for a moment. One that was not voted for, or did
            // not catch up within five seconds, gives up without a word, and has to be asked again.
            let is_asked = looks % LOOKS > 0 || replica.try_command::<()>(["CLUSTER", "FAILOVER"]).is_ok();
            looks += u32::from(is_asked);
            (self.primary_of(slot).address() == replica.address()).then_some(())
        });
        replica
    }

    /// Makes the replica of a slot's primary that is dead take over at once, without waiting for the others to find
    /// that out. Comes back when all nodes know, and gives the new primary.
    ///
    /// # Panics
    ///
    /// If it does not come about within a minute, or the primary was not killed.
    pub fn take_over(&self, slot: u16, dead: &Server) -> &Server {
        assert!(!dead.is_running(), "the primary of slot {slot} is alive");
        let port = dead.address().port();
        let replica = self.wait_for("a replica of the dead primary", || {
            let view = self.view(self.running().next()?).ok()?;
            let dead = view.iter().find(|node| node.port == port)?;
            self.node(view.iter().find(|node| node.primary.as_ref() == Some(&dead.id))?)
        });
        replica.command::<()>(["CLUSTER", "FAILOVER", "TAKEOVER"]);
        self.wait_for("a replica that takes over", || {
            (self.primary_of(slot).address() == replica.address()).then_some(())
        });
        replica
    }

    /// Begins to move a slot to another primary; no key is moved yet.
    ///
    /// # Panics
    ///
    /// If it is there already, or a node refuses.
    pub fn migrate<'a>(&'a self, slot: u16, to: &'a Server) -> Migration<'a> {
        let from = self.primary_of(slot);
        assert_ne!(from.address(), to.address(), "slot {slot} is there already");
        let slot_text = slot.to_string();
        to.command::<()>(["CLUSTER", "SETSLOT", &slot_text, "IMPORTING", &id(from)]);
        from.command::<()>(["CLUSTER", "SETSLOT", &slot_text, "MIGRATING", &id(to)]);
        Migration { cluster: self, slot, from, to }
    }

    /// Moves a slot and its keys to another primary.
    ///
    /// # Panics
    ///
    /// As [`migrate`](Self::migrate) does.
    pub fn move_slot(&self, slot: u16, to: &Server) {
        self.migrate(slot, to).finish();
    }

    /// A primary that does not serve the slot: somewhere to move it.
    ///
    /// # Panics
    ///
    /// If the nodes do not agree within a minute.
    #[must_use]
    pub fn other_primary(&self, slot: u16) -> &Server {
        let primary = self.primary_of(slot).address();
        // The slots of each began as a third of all.
        let other = |third| self.primary_of(third * (SLOTS / PRIMARIES));
        (0..PRIMARIES).map(other).find(|other| other.address() != primary).expect("there are three")
    }

    fn assign_slots(&self) {
        for (index, node) in (0_u16..).zip(&self.nodes) {
            // Nodes that all begin with epoch 0 have to settle that first.
            node.command::<()>(["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
            if index < PRIMARIES {
                let bound = |third: u16| u32::from(SLOTS) * u32::from(third) / u32::from(PRIMARIES);
                let (first, last) = (bound(index).to_string(), (bound(index + 1) - 1).to_string());
                node.command::<()>(["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
            }
        }
    }

    fn introduce(&self) {
        let (first, others) = self.nodes.split_first().expect("there are six");
        let meet = |node: &Server| {
            let (port, bus) = (node.address().port().to_string(), node.bus_address().port().to_string());
            first.command::<()>(["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        };
        let mut looks = 0;
        self.wait_for("nodes that know each other", || {
            // A node that pauses for a second during the handshake is forgotten, and has to be met again.
            if looks % LOOKS == 0 {
                others.iter().for_each(meet);
            }
            looks += 1;
            let knows_all = |node| {
                self.view(node)
                    .is_ok_and(|view| view.len() == self.nodes.len() && view.iter().all(|other| other.linked))
            };
            self.nodes.iter().all(knows_all).then_some(())
        });
    }

    fn attach_replicas(&self) {
        let (primaries, replicas) = self.nodes.split_at(usize::from(PRIMARIES));
        for (primary, replica) in primaries.iter().zip(replicas) {
            replica.command::<()>(["CLUSTER", "REPLICATE", &id(primary)]);
        }
        for third in 0..PRIMARIES {
            let _ = self.replica_of(third * (SLOTS / PRIMARIES));
        }
    }

    /// The primary of the slot and its id, once all nodes that run agree.
    fn agreed(&self, slot: u16) -> (&Server, String) {
        self.wait_for("nodes that agree and serve every slot", || {
            let mut agreed: Option<String> = None;
            for node in self.running() {
                let info: String = node.try_command(["CLUSTER", "INFO"]).ok()?;
                let serves_all = text_field(&info, "cluster_state") == Some("ok")
                    && text_field(&info, "cluster_slots_ok") == Some("16384");
                let view = self.view(node).ok()?;
                let primary = view.into_iter().find(|node| node.serves(slot)).filter(|_| serves_all)?;
                if agreed.get_or_insert_with(|| primary.id.clone()) != &primary.id {
                    return None;
                }
            }
            let primary = self
                .view(self.running().next()?)
                .ok()?
                .into_iter()
                .find(|node| Some(&node.id) == agreed.as_ref())?;
            // Others may not have noticed that it is dead.
            let server = self.node(&primary).filter(|server| server.is_running())?;
            Some((server, primary.id))
        })
    }

    fn wait_for<T>(&self, what: &str, answer: impl FnMut() -> Option<T>) -> T {
        wait_for(format_args!("{what}, of {}", names(&self.nodes)), answer)
    }

    fn running(&self) -> impl Iterator<Item = &Server> {
        self.nodes.iter().filter(|node| node.is_running())
    }

    fn node(&self, seen: &NodeLine) -> Option<&Server> {
        self.nodes.iter().find(|node| node.address().port() == seen.port)
    }

    /// The cluster as one node sees it.
    fn view(&self, node: &Server) -> RedisResult<Vec<NodeLine>> {
        let text: String = node.try_command(["CLUSTER", "NODES"])?;
        Ok(text.lines().map(NodeLine::parse).collect())
    }
}

/// Starts a cluster of one server, which serves every slot and has no replica: for figures of what slots cost.
///
/// # Panics
///
/// If it does not come about.
#[must_use]
pub fn cluster_of_one(software: Software) -> Server {
    let server = Settings::new(software).role(Role::ClusterNode).start();
    server.command::<()>(["CLUSTER", "ADDSLOTSRANGE", "0", &(SLOTS - 1).to_string()]);
    wait_for(format_args!("{server} serves every slot"), || {
        let info: String = server.command(["CLUSTER", "INFO"]);
        (text_field(&info, "cluster_state") == Some("ok")).then_some(())
    });
    server
}

/// Starts servers at the same time.
pub(super) fn start_all(settings: Vec<Settings>) -> Vec<Server> {
    thread::scope(|scope| {
        let starts: Vec<_> = settings.into_iter().map(|settings| scope.spawn(|| settings.start())).collect();
        starts.into_iter().map(|start| start.join().expect("a server that starts")).collect()
    })
}

/// Returns whether a replica has received what its primary had.
pub(super) fn is_linked(replica: &Server) -> bool {
    let info = replica.try_command::<String>(["INFO", "replication"]);
    info.is_ok_and(|info| text_field(&info, "master_link_status") == Some("up"))
}

fn id(node: &Server) -> String {
    node.command(["CLUSTER", "MYID"])
}
