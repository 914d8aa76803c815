//! The builder of stores.

use std::time::Duration;

use crate::denials::Denials;
use crate::identity::KeyIdentity;
use crate::layout::KeyLayout;
use crate::names::CounterNames;
use crate::password::Password;
use crate::rights::Rights;
use crate::script;
use crate::settings::{LONGEST, Settings, SettingsError};
use crate::store::{AcrossSlots, RedisStore};
use crate::tls::Tls;
use crate::topology::Topology;
use crate::url::StoreUrl;

/// Settings of a [`RedisStore`].
#[derive(Debug)]
#[must_use]
pub struct RedisStoreBuilder {
    prefix: Box<str>,
    identity: KeyIdentity,
    layout: Option<KeyLayout>,
    local_denials: usize,
    across_slots: AcrossSlots,
    settings: Settings,
}

impl RedisStore {
    /// Returns the settings of a new store.
    pub fn builder(url: StoreUrl) -> RedisStoreBuilder {
        RedisStoreBuilder {
            prefix: "tollgate".into(),
            identity: KeyIdentity::default(),
            layout: None,
            local_denials: 65_536,
            across_slots: AcrossSlots::default(),
            settings: Settings::new(url),
        }
    }
}

impl RedisStoreBuilder {
    /// Sets the prefix of all keys; `tollgate` by default. To keep services on one server separate, give each its own
    /// prefix: a counter depends on its policy's name, its windows and its key, so policies of the same name share
    /// counters even if their limits differ.
    pub fn prefix(self, prefix: &str) -> Self {
        Self { prefix: prefix.into(), ..self }
    }

    /// Sets how keys show the identity; as a digest by default. Changing it starts new counters.
    pub fn identity(self, identity: KeyIdentity) -> Self {
        Self { identity, ..self }
    }

    /// Writes keys as another system does that counts on the same server. The identity setting then has no effect, and
    /// a secret for it is refused.
    ///
    /// ```no_run
    /// use tollgate::{CountDenied, Limiter, Quota};
    /// use tollgate_redis::{KeyLayout, RedisStore};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let quota = Quota::per_minute(5);
    /// KeyLayout::RLAAS.validate(&quota)?;
    ///
    /// let store = RedisStore::builder("redis://127.0.0.1".parse()?).layout(KeyLayout::RLAAS).build()?;
    /// // RLaaS counts denials as well.
    /// let limiter = Limiter::builder("users").quota(quota).count_denied(CountDenied::Yes).build_shared(store)?;
    /// // Counts under `rlaas:rate_limit:alice:28333335`, with the number of the current minute.
    /// let decision = limiter.check("alice").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn layout(self, layout: KeyLayout) -> Self {
        Self { layout: Some(layout), ..self }
    }

    /// Sets how many denied counters are remembered, to deny again without asking the store. The default is 65,536.
    /// Each takes some 100 bytes, used or not. With 0, the store is asked every time, and most denials then cost it and
    /// its replicas two writes: units that are charged and given back in one step.
    pub fn local_denials(self, counters: usize) -> Self {
        Self { local_denials: counters, ..self }
    }

    /// Sets how to treat requests whose counters are in several slots of a Cluster. By default they are refused.
    pub fn across_slots(self, across_slots: AcrossSlots) -> Self {
        Self { across_slots, ..self }
    }

    /// Sets the deadline of a decision; 100 ms by default, at most a day. If this process is not running when the
    /// deadline passes, a reply gets as much extra time as the process was late, at most the same time again.
    pub fn deadline(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout.min(LONGEST);
        self
    }

    /// Sets the time limit for a new connection, including TLS and login; 500 ms by default, at most a day.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout.min(LONGEST);
        self
    }

    /// Sets the number of connections to each server; 2 by default, at least 1. All calls use one connection, which
    /// carries any number of them. The second takes over while the first reconnects.
    pub fn connections(mut self, connections: usize) -> Self {
        self.settings.connections = connections.max(1);
        self
    }

    /// Sets how many counters may be in flight to each server; 16,384 by default, at least 1. A request has one for
    /// each quota; one with more quotas than this limit is sent alone. Further requests wait, up to the deadline of
    /// their decisions. A nearby server needs a few hundred.
    pub fn counters_in_flight(mut self, counters: usize) -> Self {
        self.settings.counters_in_flight = counters.max(1);
        self
    }

    /// Sets the user, instead of the URL's.
    pub fn user(mut self, user: &str) -> Self {
        self.settings.url.user = Some(user.into());
        self
    }

    /// Sets the password, instead of the URL's.
    pub fn password(mut self, password: Password) -> Self {
        self.settings.url.password = Some(password);
        self
    }

    /// Sets the user for the Sentinels, if it is not their default user.
    pub fn sentinel_user(mut self, user: &str) -> Self {
        self.settings.sentinel_user = Some(user.into());
        self
    }

    /// Sets the password for the Sentinels, if they need one. They never get the servers' password.
    pub fn sentinel_password(mut self, password: Password) -> Self {
        self.settings.sentinel_password = Some(password);
        self
    }

    /// Sets the certificates for TLS, if the URL uses TLS.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.settings.tls = tls;
        self
    }

    /// Returns the names of counters.
    fn names(&self) -> CounterNames {
        match &self.layout {
            None => CounterNames::new(&self.prefix, self.identity.clone()),
            Some(layout) if self.settings.url.is_cluster() => {
                CounterNames::with_layout(&self.prefix, layout.clone()).on_cluster()
            }
            Some(layout) => CounterNames::with_layout(&self.prefix, layout.clone()),
        }
    }

    /// Checks the settings as [`build`](Self::build) does, without connecting.
    ///
    /// # Errors
    ///
    /// If settings contradict each other, or certificates are invalid.
    pub fn validate(&self) -> Result<(), SettingsError> {
        self.check_identity()?;
        self.settings.clone().check(script::TEXTS).map(drop)
    }

    /// Refuses a secret for digests if a layout writes keys without digests.
    fn check_identity(&self) -> Result<(), SettingsError> {
        match (&self.identity, &self.layout) {
            (KeyIdentity::Keyed(_), Some(_)) => Err(SettingsError::NeedlessIdentitySecret),
            _ => Ok(()),
        }
    }

    /// Builds the store. It connects in the background, so a server that is down is not an error.
    ///
    /// # Errors
    ///
    /// If settings contradict each other, or certificates are invalid.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime.
    pub fn build(mut self) -> Result<RedisStore, SettingsError> {
        let (names, is_cluster) = (self.names(), self.settings.url.is_cluster());
        self.settings.rights =
            Some(Rights::of_counting(&names.unused(), is_cluster, names.of_holds().is_ok()));
        self.build_without_rights()
    }

    /// As [`build`](Self::build), but also connects if the user lacks rights that counting needs: for tools that find
    /// out what is wrong.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build).
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime.
    pub fn build_without_rights(self) -> Result<RedisStore, SettingsError> {
        self.check_identity()?;
        let timeout = self.settings.timeout;
        let names = self.names();
        let place = self.settings.url.place();
        let topology = Topology::start(self.settings, script::TEXTS)?;
        let denials = Denials::new(self.local_denials);
        Ok(RedisStore::new(topology, &place, timeout, names, denials, self.across_slots))
    }
}
