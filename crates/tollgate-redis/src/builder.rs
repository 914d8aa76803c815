//! What a store can be told before it starts.

use std::time::Duration;

use crate::denials::Denials;
use crate::keys::Names;
use crate::topology::{Settings, Topology};
use crate::{Identity, RedisStore};

/// Settings of a [`RedisStore`].
#[derive(Debug)]
#[must_use]
pub struct RedisStoreBuilder {
    prefix: Box<str>,
    identity: Identity,
    local_denials: usize,
    settings: Settings,
}

impl RedisStore {
    /// Settings to change before building.
    pub fn builder(url: &str) -> RedisStoreBuilder {
        RedisStoreBuilder {
            prefix: "tollgate".into(),
            identity: Identity::default(),
            local_denials: 65_536,
            settings: Settings::new(url.to_owned()),
        }
    }
}

impl RedisStoreBuilder {
    /// What all keys begin with, `tollgate` unless said otherwise. Whoever shares a server but not counters needs
    /// prefixes of their own.
    pub fn prefix(self, prefix: &str) -> Self {
        Self { prefix: prefix.into(), ..self }
    }

    /// How keys show who is counted, as a digest unless said otherwise. Another choice means other counters.
    pub fn identity(self, identity: Identity) -> Self {
        Self { identity, ..self }
    }

    /// Remembers the counts of about so many counters that denied, to deny again without asking the store. 65,536
    /// unless said otherwise, at 100 bytes each; 0 asks the store every time.
    pub fn local_denials(self, counters: usize) -> Self {
        Self { local_denials: counters, ..self }
    }

    /// How long a decision may take, 20 ms unless said otherwise.
    pub fn deadline(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout;
        self
    }

    /// The store. It connects in the background.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime.
    #[must_use]
    pub fn build(self) -> RedisStore {
        let timeout = self.settings.timeout;
        let names = Names::new(&self.prefix, self.identity);
        RedisStore::new(Topology::start(self.settings), timeout, names, Denials::new(self.local_denials))
    }
}
