//! Following the changes of others in a real store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate_policy::{InertReason, OverrideQuotas};
use tollgate_testkit::servers::{ByteDirection, FaultProxy};

use super::*;
use crate::observe::stopwatch::Stopwatch;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_follows_others_and_says_when_it_cannot() {
    let server = Server::start(Software::Redis);
    let (one, other) = (Kept::in_store(&server, 100), Kept::in_store(&server, 100));
    one.overrides.first_read().await;
    other.overrides.first_read().await;
    assert!(!other.overrides.status().is_stale);
    for number in 0..30 {
        let id = format!("search:tenant=t{number}");
        one.overrides
            .set(set_of(&id, OverrideLimits::Unlimited, RecordEnd::Never), RecordMatch::Absent)
            .await
            .unwrap();
    }
    other.until("it follows", |other| other.version() == one.version()).await;
    assert_eq!(one.records(), other.records());

    server.pause();
    other.until("it is stale", |other| other.overrides.status().is_stale).await;
    let status = other.overrides.status();
    assert!(
        status.age.is_some_and(|age| age.as_secs() >= 1) && status.version == one.version(),
        "{status:?}"
    );
    server.resume();
    other.until("it is read again", |other| !other.overrides.status().is_stale).await;

    let loads = other.overrides.figures().unwrap().loads;
    let _: () = server.command(["FLUSHALL"]);
    other.until("it has no overrides", |other| other.version().is_none() && other.records().is_empty()).await;
    assert!(other.overrides.figures().unwrap().loads > loads);
    one.until("nor has the other", |one| one.version().is_none()).await;
    let set = set_of("search:tenant=new", OverrideLimits::Unlimited, RecordEnd::Never);
    let made = one.overrides.set(set, RecordMatch::Absent).await.unwrap();
    assert_eq!(made.version.number, 1);
    other.until("it follows again", |other| other.version() == Some(made.version)).await;

    // A text of a later version is inert, and one that nobody could have written is left out.
    let key = server.command::<Vec<String>>(["KEYS", "*records*"]);
    let text = r#"1 - {"key":"user","limits":"doubled","at":5}"#;
    let _: () = server.command(["HSET", &key[0], "search:tenant=new", text]);
    let late = Kept::in_store(&server, 100);
    late.overrides.first_read().await;
    let live = late.limiter.live();
    let state = live.overrides().after(None, None).next().map(|entry| entry.state());
    assert!(matches!(state, Some(OverrideState::Inert(InertReason::Unreadable(_)))), "{state:?}");
}

/// All overrides were loaded for longer than a second, and were stale at once: their age ran from before the load.
#[tokio::test]
async fn the_age_after_a_load_runs_from_the_last_call() {
    const DELAY: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_secs(60);
    let server = Server::start(Software::Redis);
    let proxy = FaultProxy::before(server.address());
    let OverridesPlace::Shared(records) = stored_at(proxy.address()) else { panic!("another place") };
    // The connection is there, so what follows is the delayed calls alone.
    drop(records.load(LONGEST).await.unwrap());
    proxy.delay(ByteDirection::Reply, DELAY);
    let begin = Stopwatch::start();
    let kept = Kept::start(OverridesPlace::Shared(records), 100, None);
    kept.until("it has read them", |kept| kept.overrides.status().age.is_some()).await;
    let age = kept.overrides.status().age.unwrap();
    // One reply says that all are to be loaded, and at least one more has them.
    assert!(age + 2 * DELAY <= begin.elapsed(), "{age:?} of {:?}", begin.elapsed());
    assert_eq!(kept.overrides.figures().unwrap().loads, Some(1));
}

/// A fit that panics while it is broken.
struct BreakableFit {
    is_broken: AtomicBool,
}

impl OverrideFit for BreakableFit {
    fn misfit(&self, _: &Policies, _: &Policy, _: &OverrideQuotas) -> Option<Box<str>> {
        // Without the message of a panic.
        self.is_broken.load(Ordering::SeqCst).then(|| std::panic::resume_unwind(Box::new("broken")))
    }
}

/// A load that came to nothing counted as one, so the process called its overrides fresh and never tried again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_that_cannot_be_compiled_has_failed_and_is_tried_again() {
    let server = Server::start(Software::Redis);
    let one = Kept::in_store(&server, 100);
    let set = set_of("search:tenant=acme", OverrideLimits::of(["7/1m"]), RecordEnd::Never);
    let made = one.overrides.set(set, RecordMatch::Absent).await.unwrap();

    let fit = Arc::new(BreakableFit { is_broken: AtomicBool::new(true) });
    let other = Kept::fitting(Arc::<BreakableFit>::clone(&fit), stored_at(server.address()), 100, None);
    other.overrides.first_read().await;
    let status = other.overrides.status();
    assert!(status.is_stale && status.age.is_none() && status.trouble.is_some(), "{status:?}");
    assert_eq!((other.overrides.figures().unwrap().loads, other.version()), (Some(0), None));

    fit.is_broken.store(false, Ordering::SeqCst);
    other.until("it has loaded them", |other| other.version() == Some(made.version)).await;
    assert_eq!(other.records(), one.records());
    other.until("they are fresh", |other| !other.overrides.status().is_stale).await;
}
