//! Who charges in these tests, and what became of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tollgate::{Anchor, Charge, Key, PolicyQuota, Quota};
use tollgate_redis::RedisError;
use tollgate_redis::{RedisStore, RedisStoreBuilder, StoreUrl};
use tollgate_testkit::StoreSteps;

/// For how long a test waits for what has to come about, on a machine that is busy and now and then stands still. How
/// soon it comes about is measured by `cargo xtask prove redis`, where nothing else runs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Charges one unit at a time, of a quota that never runs out.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) store: RedisStore,
    quota: Arc<PolicyQuota>,
}

/// What became of the charges of one key.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Charged.
    pub(crate) acknowledged: u64,
    /// Perhaps charged.
    pub(crate) unknown: u64,
    /// Certainly not charged, and why.
    pub(crate) refused: BTreeMap<String, u64>,
}

/// Charges that go on in the background.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    tally: Arc<Mutex<Tally>>,
    tasks: Vec<JoinHandle<()>>,
}

/// A hasty one: for tests of haste itself.
pub(crate) fn builder(url: &str) -> RedisStoreBuilder {
    RedisStore::builder(url.parse::<StoreUrl>().unwrap()).deadline(Duration::from_millis(20))
}

/// One that waits: for tests of which calls get through, not of how soon.
pub(crate) fn patient_builder(url: &str) -> RedisStoreBuilder {
    builder(url).deadline(PATIENCE / 2).connect_timeout(PATIENCE / 2)
}

pub(crate) fn patient(url: &str) -> Caller {
    Caller::new(patient_builder(url))
}

/// Asks until there is an answer.
pub(crate) async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// What a server is in trouble with.
#[expect(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
pub(crate) fn trouble(error: tollgate::StoreError) -> RedisError {
    *RedisError::of(&error).unwrap_or_else(|| panic!("no trouble of a server: {error}"))
}

impl Caller {
    pub(crate) fn new(builder: RedisStoreBuilder) -> Self {
        let quota = Quota::per_day(1_000_000_000).with_anchor(Anchor::FirstHit).unwrap();
        Self { store: builder.build().unwrap(), quota: Arc::new(PolicyQuota::new("test", quota)) }
    }

    /// Units used, with the one just charged.
    pub(crate) async fn charge(&self, key: &str) -> Result<u64, RedisError> {
        let key = Key::from(key);
        let counted = self.store.charge(&[Charge::new(&self.quota, &key, 1)]).await.map_err(trouble)?;
        Ok(counted[0].used())
    }

    /// Why a charge fails. A machine that stalls can let the deadline pass before anything is sent, which says
    /// nothing about the server.
    pub(crate) async fn refusal(&self, key: &str) -> RedisError {
        loop {
            match self.charge(key).await {
                Err(RedisError::Overloaded) => {}
                charged => return charged.unwrap_err(),
            }
        }
    }

    /// Units used. A look that failed charged nothing, so it may be repeated.
    pub(crate) async fn used(&self, key: &str) -> u64 {
        let key = Key::from(key);
        let charges = [Charge::new(&self.quota, &key, 0)];
        let counted = until("a look", async || self.store.peek(&charges).await.ok()).await;
        counted[0].used()
    }

    /// Charges until it succeeds, and says what was in the way.
    pub(crate) async fn until_served(&self, key: &str) -> Tally {
        let mut tally = Tally::default();
        let served = async || {
            tally.add(self.charge(key).await);
            (tally.acknowledged > 0).then_some(())
        };
        until("a charge that succeeds", served).await;
        tally
    }

    /// Charges a key from so many tasks until told to stop.
    pub(crate) fn load(&self, key: &str, tasks: usize) -> Load {
        let (stop, tally) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let task = || {
            let (caller, key) = (self.clone(), key.to_owned());
            let (stop, tally): (_, Arc<Mutex<Tally>>) = (Arc::clone(&stop), Arc::clone(&tally));
            tokio::spawn(async move {
                while !stop.load(Relaxed) {
                    let charged = caller.charge(&key).await;
                    tally.lock().unwrap().add(charged);
                    // A store that is down answers at once, and would be asked a million times.
                    tokio::time::sleep(Duration::from_micros(200)).await;
                }
            })
        };
        Load { tasks: (0..tasks).map(|_| task()).collect(), stop, tally }
    }
}

impl Load {
    /// What has become of the charges until now.
    pub(crate) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap()
    }

    /// Comes back when so many more charges were acknowledged.
    pub(crate) async fn goes_on(&self, more: u64) {
        let enough = self.tally().acknowledged + more;
        until("charges that succeed", async || (self.tally().acknowledged >= enough).then_some(())).await;
    }

    pub(crate) async fn stop(self) -> Tally {
        self.stop.store(true, Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
        std::mem::take(&mut *self.tally.lock().unwrap())
    }
}

impl Tally {
    fn add(&mut self, charged: Result<u64, RedisError>) {
        match charged {
            Ok(_) => self.acknowledged += 1,
            Err(error) if error.may_have_charged() => self.unknown += 1,
            Err(error) => *self.refused.entry(error.to_string()).or_default() += 1,
        }
    }

    /// Every acknowledged charge is counted once, every unknown one at most once, and no other.
    pub(crate) fn expect_counted(&self, used: u64) {
        let most = self.acknowledged + self.unknown;
        assert!((self.acknowledged..=most).contains(&used), "{used} used: {self:?}");
    }
}
