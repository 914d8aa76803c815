//! What a store can be told before it starts.

use std::time::Duration;

use crate::denials::Denials;
use crate::keys::Names;
use crate::rights::Rights;
use crate::settings::Settings;
use crate::topology::Topology;
use crate::{AcrossSlots, Identity, KeyLayout, Password, RedisStore, SettingsError, StoreUrl, Tls, script};

/// Settings of a [`RedisStore`].
#[derive(Debug)]
#[must_use]
pub struct RedisStoreBuilder {
    prefix: Box<str>,
    identity: Identity,
    layout: Option<KeyLayout>,
    local_denials: usize,
    across_slots: AcrossSlots,
    settings: Settings,
}

/// No instant is so late that a wait cannot be added to it.
const LONGEST: Duration = Duration::from_secs(86_400);

impl RedisStore {
    /// Settings to change before building.
    pub fn builder(url: StoreUrl) -> RedisStoreBuilder {
        RedisStoreBuilder {
            prefix: "tollgate".into(),
            identity: Identity::default(),
            layout: None,
            local_denials: 65_536,
            across_slots: AcrossSlots::default(),
            settings: Settings::new(url),
        }
    }
}

impl RedisStoreBuilder {
    /// What all keys begin with, `tollgate` unless said otherwise. Whoever shares a server but not counters needs
    /// prefixes of their own: a counter depends on its policy's name, its windows and its key, so that policies of the
    /// same name with other limits would count together.
    pub fn prefix(self, prefix: &str) -> Self {
        Self { prefix: prefix.into(), ..self }
    }

    /// How keys show who is counted, as a digest unless said otherwise. Another choice means other counters.
    pub fn identity(self, identity: Identity) -> Self {
        Self { identity, ..self }
    }

    /// Writes keys as another system does that counts on the same server. What is said of the identity does not matter
    /// then, and a secret for it is refused.
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
    /// // That system counts denials as well.
    /// let limiter = Limiter::builder("users").quota(quota).count_denied(CountDenied::Yes).build_shared(store)?;
    /// // Counts under `rlaas:rate_limit:alice:28333335`, or whichever minute it is.
    /// let decision = limiter.check("alice").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn layout(self, layout: KeyLayout) -> Self {
        Self { layout: Some(layout), ..self }
    }

    /// Remembers the counts of about so many counters that denied, to deny again without asking the store. 65,536
    /// unless said otherwise, at some 100 bytes each whether they are used or not; 0 asks the store every time.
    pub fn local_denials(self, counters: usize) -> Self {
        Self { local_denials: counters, ..self }
    }

    /// What becomes of requests whose counters lie in several slots of a Cluster; they are refused unless said
    /// otherwise.
    pub fn across_slots(self, across_slots: AcrossSlots) -> Self {
        Self { across_slots, ..self }
    }

    /// How long a decision may take, 100 ms unless said otherwise, and at most a day. If this process itself does not run
    /// when that time is up, a reply has as much longer as it was late, at most as long again.
    pub fn deadline(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout.min(LONGEST);
        self
    }

    /// How long setting up a connection may take, with TLS and login; 250 ms unless said otherwise, and at most a
    /// day.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout.min(LONGEST);
        self
    }

    /// Connections to each server, 2 unless said otherwise, and at least 1. All calls go over one, which carries any
    /// number of them; a second one goes on while the first is set up anew.
    pub fn connections(mut self, connections: usize) -> Self {
        self.settings.connections = connections.max(1);
        self
    }

    /// How many counters may be under way to each server, 16,384 unless said otherwise, and at least 1. A request has
    /// one for each of its quotas, and goes alone if it has more than that. What comes on top waits, no longer than a
    /// decision may take. What is answered by a server that is near takes a few hundred.
    pub fn counters_in_flight(mut self, counters: usize) -> Self {
        self.settings.counters_in_flight = counters.max(1);
        self
    }

    /// The user to log in as, in place of the URL's.
    pub fn user(mut self, user: &str) -> Self {
        self.settings.url.user = Some(user.into());
        self
    }

    /// The password to log in with, in place of the URL's.
    pub fn password(mut self, password: Password) -> Self {
        self.settings.url.password = Some(password);
        self
    }

    /// The user to log in as with the sentinels, where they want one other than their default.
    pub fn sentinel_user(mut self, user: &str) -> Self {
        self.settings.sentinel_user = Some(user.into());
        self
    }

    /// The password of the sentinels, where they want one. That of the servers is not sent to them.
    pub fn sentinel_password(mut self, password: Password) -> Self {
        self.settings.sentinel_password = Some(password);
        self
    }

    /// Whom to trust and who we are, where the URL asks for TLS.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.settings.tls = tls;
        self
    }

    /// How long a decision may take.
    pub(crate) const fn timeout(&self) -> Duration {
        self.settings.timeout
    }

    /// What counters are called.
    pub(crate) fn names(&self) -> Names {
        match &self.layout {
            None => Names::new(&self.prefix, self.identity.clone()),
            Some(layout) if self.settings.url.is_cluster() => {
                Names::with_layout(&self.prefix, layout.clone()).on_cluster()
            }
            Some(layout) => Names::with_layout(&self.prefix, layout.clone()),
        }
    }

    /// What [`build`](Self::build) would find wrong, without beginning anything.
    ///
    /// # Errors
    ///
    /// If the settings contradict each other, or certificates are unfit.
    pub fn validate(&self) -> Result<(), SettingsError> {
        self.check_identity()?;
        self.settings.clone().check(script::TEXT).map(drop)
    }

    /// That a secret, if there is one, hides who is counted.
    fn check_identity(&self) -> Result<(), SettingsError> {
        match (&self.identity, &self.layout) {
            (Identity::Keyed(_), Some(_)) => Err(SettingsError::NeedlessIdentitySecret),
            _ => Ok(()),
        }
    }

    /// The store. It connects in the background: a server that is away is no error.
    ///
    /// # Errors
    ///
    /// If the settings contradict each other, or certificates are unfit.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime.
    pub fn build(mut self) -> Result<RedisStore, SettingsError> {
        let (key, is_cluster) = (self.names().unused(), self.settings.url.is_cluster());
        self.settings.rights = Some(Rights::of_counting(&key, is_cluster));
        self.start()
    }

    /// As [`build`](Self::build), and connects users who lack rights as well.
    pub(crate) fn start(self) -> Result<RedisStore, SettingsError> {
        self.check_identity()?;
        let timeout = self.settings.timeout;
        let names = self.names();
        let topology = Topology::start(self.settings, script::TEXT)?;
        let denials = Denials::new(self.local_denials);
        Ok(RedisStore::new(topology, timeout, names, denials, self.across_slots))
    }
}
