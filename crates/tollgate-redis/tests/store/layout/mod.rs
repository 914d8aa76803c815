//! Stores whose keys are those of other systems.

mod clock;
mod kept;
mod published;
mod rlaas;
mod rules;

use std::time::Duration;

use tollgate::{Anchor, Timestamp};
use tollgate_redis::{KeyLayout, RedisStore};
use tollgate_testkit::servers::{ServerStore, Software, SteeredServer};
use tollgate_testkit::{SettableClock, StoreUnderTest};

use crate::servers::{Clustered, clustered_with, served_with, steered_with};

/// Distinguishes everything that the conformance suite counts separately.
const LAYOUT: &str = "{prefix}:{policy}:{windows}:{key}:{window}";

/// On a Cluster, all counters of a key in one slot.
const TAGGED: &str = "{prefix}:{{{key}}}:{policy}:{windows}:{window_start_ms}";

fn layout(template: &str) -> KeyLayout {
    template.parse().unwrap()
}

/// A subject that counts windows that are aligned to the epoch, and no others.
struct Aligned<S>(S);

fn served(software: Software) -> Aligned<ServerStore<RedisStore>> {
    Aligned(served_with(software, |builder| builder.layout(layout(LAYOUT))))
}

fn steered(software: Software) -> Aligned<SteeredServer<RedisStore>> {
    Aligned(steered_with(software, |builder| builder.layout(layout(LAYOUT))))
}

fn clustered(software: Software, template: &str) -> Aligned<Clustered> {
    Aligned(clustered_with(software, |builder| builder.layout(layout(template))))
}

impl<S: StoreUnderTest> StoreUnderTest for Aligned<S> {
    type Store = S::Store;

    fn store(&self) -> &Self::Store {
        self.0.store()
    }

    fn reach(&self, time: Timestamp) -> impl Future<Output = ()> + Send {
        self.0.reach(time)
    }

    fn short_window(&self) -> Duration {
        self.0.short_window()
    }

    fn anchors(&self) -> &'static [Anchor] {
        &[Anchor::Epoch]
    }

    fn now(&self) -> impl Future<Output = Timestamp> + Send {
        self.0.now()
    }
}

impl<S: SettableClock> SettableClock for Aligned<S> {
    fn set_time(&self, time: Timestamp) {
        self.0.set_time(time);
    }
}
