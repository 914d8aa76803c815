//! One server.

use std::sync::Arc;

use crate::address::Address;
use crate::node::Node;
use crate::settings::CheckedSettings;

/// A single server for all slots.
pub(crate) struct Single {
    node: Arc<Node>,
}

impl Single {
    pub(super) fn start(address: Address, checked: Arc<CheckedSettings>) -> Self {
        Self { node: Arc::new(Node::start(address, checked)) }
    }

    pub(super) const fn node(&self) -> &Arc<Node> {
        &self.node
    }
}
