//! A slot that moves from one primary to another, step by step.

use super::{Cluster, id};
use crate::servers::Server;
use crate::servers::config::ADMIN;

/// A slot that moves from one primary to another.
///
/// As long as it moves, its owner answers for the keys that it still has and sends askers for others to the
/// importing node with `ASK`.
#[derive(Debug)]
#[must_use = "a slot stays half moved until it is finished"]
pub struct Migration<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) slot: u16,
    pub(super) from: &'a Server,
    pub(super) to: &'a Server,
}

impl Migration<'_> {
    /// The node that the slot leaves.
    #[must_use]
    pub const fn from(&self) -> &Server {
        self.from
    }

    /// The node that gets the slot.
    #[must_use]
    pub const fn to(&self) -> &Server {
        self.to
    }

    /// Moves up to so many keys, and says how many it moved; 0 when none is left.
    ///
    /// # Panics
    ///
    /// If a node refuses.
    pub fn move_keys(&self, most: usize) -> usize {
        let (slot, most) = (self.slot.to_string(), most.to_string());
        let keys: Vec<Vec<u8>> = self.from.command(["CLUSTER", "GETKEYSINSLOT", &slot, &most]);
        if !keys.is_empty() {
            let port = self.to.address().port().to_string();
            let words = ["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "AUTH2", ADMIN, ADMIN, "KEYS"];
            // One that has expired meanwhile is no key any more: then the answer is NOKEY, which is no error.
            self.from.command::<()>(
                words.iter().map(|word| word.as_bytes()).chain(keys.iter().map(Vec::as_slice)),
            );
        }
        keys.len()
    }

    /// Moves the keys that are left and gives the slot to its new owner. Comes back when all nodes know.
    ///
    /// # Panics
    ///
    /// If a node refuses, or they do not agree within a minute.
    pub fn finish(self) {
        while self.move_keys(1000) > 0 {}
        let (slot, new_owner) = (self.slot.to_string(), id(self.to));
        // The new owner first: if the old one gave the slot up before, no node would have it for a moment.
        for node in [self.to, self.from] {
            node.command::<()>(["CLUSTER", "SETSLOT", &slot, "NODE", &new_owner]);
        }
        self.cluster.wait_for("nodes that know the slot's new owner", || {
            (self.cluster.primary_of(self.slot).address() == self.to.address()).then_some(())
        });
    }
}
