//! Keepers, with a file and with a real store.

mod follower;

use std::net::SocketAddr;
use std::path::Path;

use futures_util::future::join_all;
use tempfile::TempDir;
use tollgate::{Clock as _, ManualClock, MemoryStore, Quota, SystemClock};
use tollgate_policy::{
    Identity, OverrideFit, OverrideLimits, OverrideRecord, OverrideState, OverridesVersion, Policies, Policy,
};
use tollgate_redis::{KeyIdentity, RecordEnd, RedisStore};
use tollgate_testkit::servers::{Server, Software};

use super::*;
use crate::store::fit::StoreFit;

/// As few as to exceed them often.
const MAX: u32 = 6;

/// Overrides, and the task that keeps them.
struct Kept {
    overrides: Arc<Overrides>,
    limiter: Arc<PolicyLimiter<ServedStore>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Kept {
    fn start(place: OverridesPlace, max: u32, test_clock: Option<ManualClock>) -> Self {
        Self::fitting(Arc::new(StoreFit::of_memory()), place, max, test_clock)
    }

    /// With what says which limits the store can count.
    fn fitting(
        fit: Arc<dyn OverrideFit>,
        place: OverridesPlace,
        max: u32,
        test_clock: Option<ManualClock>,
    ) -> Self {
        let policy = |name| {
            let policy = Policy::builder(name).key(Identity::Attribute("user".into()));
            policy.quota(Quota::per_minute(5)).build().unwrap()
        };
        let policies = Policies::of([policy("search"), policy("upload")]).unwrap();
        let setup = OverridesSetup::new(place, max, KeyIdentity::Digest, fit, test_clock);
        let limiter = PolicyLimiter::new(ServedStore::Memory(MemoryStore::new()), policies, "test");
        let limiter = Arc::new(limiter.with_overrides(setup.empty_set()));
        let overrides = Arc::new(Overrides::start(setup, Arc::clone(&limiter)).unwrap());
        let kept = Arc::clone(&overrides);
        let task = tokio::spawn(async move { kept.run().await });
        Self { overrides, limiter, task }
    }

    fn in_folder(folder: &Path, max: u32, test_clock: Option<ManualClock>) -> Self {
        let journal = OpenJournal::open(folder, OnDamage::Refuse).unwrap();
        Self::start(OverridesPlace::Journal(journal.into()), max, test_clock)
    }

    fn in_store(server: &Server, max: u32) -> Self {
        Self::start(stored_at(server.address()), max, None)
    }

    /// All live overrides, without the times of their changes, which two keepers never share.
    fn records(&self) -> Vec<OverrideRecord> {
        let live = self.limiter.live();
        live.overrides().after(None, None).map(|entry| without_time(entry.record())).collect()
    }

    fn version(&self) -> Option<OverridesVersion> {
        self.limiter.live().overrides().version()
    }

    async fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let waiting = crate::observe::stopwatch::Stopwatch::start();
        while !holds(self) {
            assert!(waiting.elapsed().as_secs() < 60, "{what}");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
}

fn stored_at(address: SocketAddr) -> OverridesPlace {
    let store = RedisStore::builder(format!("redis://{address}").parse().unwrap()).build().unwrap();
    OverridesPlace::Shared(store.records("overrides"))
}

fn without_time(record: OverrideRecord) -> OverrideRecord {
    OverrideRecord { at: Timestamp::EPOCH, ..record }
}

fn set_of(id: &str, limits: OverrideLimits, end: RecordEnd) -> SetOverride {
    let label = Some("plan".into());
    SetOverride { name: id.parse().unwrap(), key: "user".into(), limits, end, label, note: None, by: None }
}

/// What came of a change, without what two keepers never share: their epochs, the store's time.
fn outcome(made: Result<OverrideChange, OverridesError>) -> String {
    match made {
        Ok(OverrideChange { version, record, existed }) => {
            format!("made {} {:?} {existed}", version.number, record.map(without_time))
        }
        Err(OverridesError::Mismatch { current, version }) => {
            format!("mismatch {:?} {}", current.map(|record| without_time(*record)), version.number)
        }
        Err(OverridesError::EndPassed { .. }) => "end passed".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn random_matching(random: &mut fastrand::Rng, kept: &Kept, name: &OverrideName) -> RecordMatch {
    let live = kept.limiter.live();
    let (version, current) = (live.overrides().version(), live.overrides().get(name));
    let epoch = version.map_or(1, |version| version.epoch);
    match (random.u8(..10), current) {
        (0, _) => RecordMatch::Absent,
        (1, _) => RecordMatch::Version { epoch, number: random.u64(1..20) },
        (2, Some(current)) => RecordMatch::Version { epoch: epoch ^ 1, number: current.version() },
        (3..6, Some(current)) => RecordMatch::Version { epoch, number: current.version() },
        _ => RecordMatch::Any,
    }
}

/// A file and a store take the same changes, and refuse the same ones in the same words.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_keepers_answer_alike() {
    let (folder, server) = (TempDir::new().unwrap(), Server::start(Software::Redis));
    let kept = [Kept::in_folder(folder.path(), MAX, None), Kept::in_store(&server, MAX)];
    kept[1].overrides.first_read().await;
    let mut random = fastrand::Rng::with_seed(26);
    let far = SystemClock.now() + std::time::Duration::from_secs(1_000_000);
    let mut made = [0; 2];
    for round in 0..400 {
        let id = format!("search:tenant{}t{}", if random.bool() { "=" } else { "^" }, random.u8(..5));
        let (name, seed) = (id.parse().unwrap(), random.u64(..));
        let mut outcomes = Vec::new();
        for kept in &kept {
            // The same choices for both.
            let mut random = fastrand::Rng::with_seed(seed);
            let matching = random_matching(&mut random, kept, &name);
            let is_set = random.u8(..3) > 0;
            let limits = match random.u8(..4) {
                0 => OverrideLimits::Denied,
                1 => OverrideLimits::Unlimited,
                2 => OverrideLimits::of(["7/1m", "2~in_flight"]),
                _ => OverrideLimits::of(["7 per nothing"]),
            };
            let end = match random.u8(..4) {
                0 => RecordEnd::At(Timestamp::from_unix_millis(random.i64(-5..5))),
                1 => RecordEnd::At(far),
                _ => RecordEnd::Never,
            };
            let change = match is_set {
                true => kept.overrides.set(set_of(&id, limits, end), matching).await,
                false => kept.overrides.delete(&name, matching).await,
            };
            made[usize::from(change.is_ok())] += 1;
            outcomes.push(outcome(change));
        }
        assert_eq!(outcomes[0], outcomes[1], "{round}");
        assert_eq!(kept[0].records(), kept[1].records(), "{round}");
    }
    assert!(made.iter().all(|made| *made > 100), "{made:?}");
    let numbers = kept.each_ref().map(|kept| kept.version().unwrap().number);
    assert_eq!(numbers[0], numbers[1]);
    let changes = kept.each_ref().map(|kept| kept.overrides.figures().unwrap().changes);
    assert_eq!(changes[0], changes[1]);
    assert!(changes[0][..4].iter().all(|(_, count)| *count > 0), "{changes:?}");

    // What the file has is what was live.
    let (records, version) = (kept[0].records(), kept[0].version());
    let [of_file, _] = kept;
    drop(of_file);
    let mut again = None;
    while again.is_none() {
        // The thread that has the file ends a moment later.
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        again = OpenJournal::open(folder.path(), OnDamage::Refuse).ok();
    }
    let again = Kept::start(OverridesPlace::Journal(again.unwrap().into()), MAX, None);
    assert_eq!((again.records(), again.version()), (records, version));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_at_the_same_time_are_made_one_after_another() {
    let (folder, server) = (TempDir::new().unwrap(), Server::start(Software::Redis));
    for kept in [Kept::in_folder(folder.path(), 2_000, None), Kept::in_store(&server, 2_000)] {
        kept.overrides.first_read().await;
        let changes = (0..500).map(|number| {
            // Each name twice.
            let set =
                set_of(&format!("search:tenant=t{}", number / 2), OverrideLimits::Denied, RecordEnd::Never);
            let overrides = Arc::clone(&kept.overrides);
            let limiter = Arc::clone(&kept.limiter);
            tokio::spawn(async move {
                let name = set.name.clone();
                let made = overrides.set(set, RecordMatch::Any).await.unwrap();
                let live = limiter.live();
                let version = live.overrides().get(&name).map(|entry| entry.version());
                assert!(version >= Some(made.version.number), "live before it is answered");
                (made.version.number, made.existed)
            })
        });
        let mut made: Vec<(u64, bool)> =
            join_all(changes.collect::<Vec<_>>()).await.into_iter().map(Result::unwrap).collect();
        made.sort_unstable();
        assert!(made.iter().map(|(number, _)| *number).eq(1..=500), "{made:?}");
        assert_eq!(made.iter().filter(|(_, existed)| *existed).count(), 250);
    }
}

#[tokio::test]
async fn overrides_of_a_file_that_have_ended_are_deleted_after_a_while() {
    let folder = TempDir::new().unwrap();
    let clock = ManualClock::at(SystemClock.now());
    let kept = Kept::in_folder(folder.path(), MAX, Some(clock.clone()));
    let set = |id, end| kept.overrides.set(set_of(id, OverrideLimits::Denied, end), RecordMatch::Any);
    let second = std::time::Duration::from_secs(1);
    for (length, millis) in [(1_500, 2), (1_000_000, 1_000)] {
        let end = RecordEnd::After(std::time::Duration::from_micros(length));
        let made = set("search:tenant=short", end).await.unwrap();
        let until = clock.now() + std::time::Duration::from_millis(millis);
        assert_eq!(made.record.unwrap().until, Some(until), "rounded up, as in a store");
    }
    set("search:tenant=long", RecordEnd::After(second * 2)).await.unwrap();
    set("upload:tenant=never", RecordEnd::Never).await.unwrap();
    let states = || {
        let live = kept.limiter.live();
        let states: Vec<OverrideState> =
            live.overrides().after(None, None).map(|entry| entry.state()).collect();
        states
    };
    clock.advance(second);
    assert_eq!(states(), [OverrideState::Active, OverrideState::Ended, OverrideState::Active]);
    let Keeper::Journal(keeper) = &kept.overrides.keeper else { panic!("another keeper") };
    clock.advance(second * 9);
    keeper.sweep().await;
    // A change comes after the sweep.
    set("upload:tenant=other", RecordEnd::Never).await.unwrap();
    assert_eq!(states().len(), 4, "ten seconds are not over");
    clock.advance(second);
    keeper.sweep().await;
    let last = set("upload:tenant=other", RecordEnd::Never).await.unwrap();
    assert_eq!(
        (states(), last.version.number),
        (vec![OverrideState::Ended, OverrideState::Active, OverrideState::Active], 7)
    );
}
