//! Who charges in these tests, and what became of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tollgate::{Anchor, Charge, Key, PolicyQuota, Quota, Store, StoreError};
use tollgate_redis::{RedisStore, RedisStoreBuilder, StoreUrl};

/// What a store may take to serve again once its server is back.
pub(crate) const RECOVERY: Duration = Duration::from_secs(2);

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
    tasks: Vec<JoinHandle<Tally>>,
}

pub(crate) fn builder(url: &str) -> RedisStoreBuilder {
    RedisStore::builder(url.parse::<StoreUrl>().unwrap())
}

/// One that waits: for tests of which calls get through, not of how soon.
pub(crate) fn patient(url: &str) -> Caller {
    Caller::new(builder(url).deadline(Duration::from_secs(10)).connect_timeout(Duration::from_secs(10)))
}

impl Caller {
    pub(crate) fn new(builder: RedisStoreBuilder) -> Self {
        let quota = Quota::per_day(1_000_000_000).with_anchor(Anchor::FirstHit).unwrap();
        Self { store: builder.build().unwrap(), quota: Arc::new(PolicyQuota::new("test", quota)) }
    }

    /// Units used, with the one just charged.
    pub(crate) async fn charge(&self, key: &str) -> Result<u64, StoreError> {
        let key = Key::from(key);
        let counted = self.store.charge(&[Charge::new(&self.quota, &key, 1)]).await?;
        Ok(counted[0].used())
    }

    /// Why a charge fails. A machine that stalls can let the deadline pass before anything is sent, which says
    /// nothing about the server.
    pub(crate) async fn refusal(&self, key: &str) -> StoreError {
        loop {
            match self.charge(key).await {
                Err(StoreError::Overloaded) => {}
                charged => return charged.unwrap_err(),
            }
        }
    }

    /// Units used. A look that failed charged nothing, so it may be repeated.
    pub(crate) async fn used(&self, key: &str) -> u64 {
        let (key, start) = (Key::from(key), Instant::now());
        loop {
            match self.store.peek(&[Charge::new(&self.quota, &key, 0)]).await {
                Ok(counted) => return counted[0].used(),
                Err(error) => assert!(start.elapsed() < RECOVERY, "{error}"),
            }
        }
    }

    /// Charges until it succeeds, and says how long that took and what was in the way.
    pub(crate) async fn until_served(&self, key: &str) -> (Duration, Tally) {
        let start = Instant::now();
        let mut tally = Tally::default();
        while tally.acknowledged == 0 && start.elapsed() < Duration::from_secs(20) {
            tally.add(self.charge(key).await);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        (start.elapsed(), tally)
    }

    pub(crate) async fn expect_recovery(&self, key: &str) {
        let (took, tally) = self.until_served(key).await;
        assert!(tally.acknowledged == 1 && took <= RECOVERY, "served after {took:?}: {tally:?}");
    }

    /// Charges a key from so many tasks until told to stop.
    pub(crate) fn load(&self, key: &str, tasks: usize) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let task = || {
            let (caller, key, stop) = (self.clone(), key.to_owned(), stop.clone());
            tokio::spawn(async move {
                let mut tally = Tally::default();
                while !stop.load(Relaxed) {
                    tally.add(caller.charge(&key).await);
                    // A store that is away answers at once, and would be asked a million times.
                    tokio::time::sleep(Duration::from_micros(200)).await;
                }
                tally
            })
        };
        Load { tasks: (0..tasks).map(|_| task()).collect(), stop }
    }
}

impl Load {
    pub(crate) async fn stop(self) -> Tally {
        self.stop.store(true, Relaxed);
        let mut all = Tally::default();
        for task in self.tasks {
            let tally = task.await.unwrap();
            all.acknowledged += tally.acknowledged;
            all.unknown += tally.unknown;
            for (why, count) in tally.refused {
                *all.refused.entry(why).or_default() += count;
            }
        }
        all
    }
}

impl Tally {
    fn add(&mut self, charged: Result<u64, StoreError>) {
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
