//! A tour: from the first limiter to tests with a manual clock.
//!
//! # The first limiter
//!
//! A [`Quota`](crate::Quota) is a limit and the time for which it holds. A [`Limiter`](crate::Limiter) applies it to keys. The fifth of
//! five is allowed; the sixth is denied, with the time to wait.
//!
//! ```
//! use tollgate::{Limiter, Quota};
//!
//! let limiter = Limiter::new(Quota::per_day(5));
//! for _ in 0..5 {
//!     assert!(limiter.check("alice")?.is_allowed());
//! }
//! let denied = limiter.check("alice")?;
//! if !denied.is_allowed() {
//!     let seconds = denied.retry_after().map(tollgate::whole_seconds);
//!     println!("come back in {seconds:?} seconds");
//! }
//! # assert!(!denied.is_allowed());
//! # Ok::<(), tollgate::Full>(())
//! ```
//!
//! Share a limiter by reference or by clone; any number of threads may use it at once. A denial is a value, not an
//! error. The only error is [`Full`](crate::Full): the memory is full, and the caller decides what that means.
//!
//! # Keys
//!
//! A [`Key`](crate::Key) identifies what is counted. Texts (`&str`, `String`, `Cow<str>`, `Box<str>`, `Arc<str>`),
//! numbers (`u32`, `u64`, `u128`, `usize`, `i64`), addresses (`IpAddr`, `Ipv4Addr`, `Ipv6Addr`) and bytes (`&[u8]`,
//! `Vec<u8>`) are keys, and so are pairs and triples of them. You never join parts by hand, and `("a:b", "c")` is not
//! `("a", "b:c")`.
//!
//! ```
//! use std::net::IpAddr;
//! use tollgate::{Limiter, Quota};
//!
//! let limiter = Limiter::new(Quota::per_day(100));
//! let address: IpAddr = "192.0.2.7".parse()?;
//! assert!(limiter.check(("alice", "/search"))?.is_allowed());
//! assert!(limiter.check((address, 42_u64))?.is_allowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Your own types become keys with a `From` implementation:
//!
//! ```
//! use tollgate::{Key, Limiter, Quota};
//!
//! struct User {
//!     tenant: u32,
//!     name: String,
//! }
//!
//! impl From<&User> for Key<'_> {
//!     fn from(user: &User) -> Self {
//!         (user.tenant, &user.name).into()
//!     }
//! }
//!
//! let limiter = Limiter::new(Quota::per_day(1));
//! let alice = User { tenant: 7, name: "alice".to_owned() };
//! let namesake = User { tenant: 8, name: "alice".to_owned() };
//! assert!(limiter.check(&alice)?.is_allowed());
//! assert!(limiter.check(&namesake)?.is_allowed());
//! assert!(!limiter.check(&alice)?.is_allowed());
//! # Ok::<(), tollgate::Full>(())
//! ```
//!
//! # Quotas in configuration
//!
//! A quota has a written form, which [`Quota`](crate::Quota) documents. The feature `serde` reads and writes it; the
//! feature `calendar` adds days, weeks, months and years in a time zone.
//!
//! ```
//! use tollgate::Quota;
//!
//! let quota: Quota = "5/1m".parse()?;
//! # #[cfg(feature = "serde")]
//! let quota: Quota = serde_json::from_str(r#""5 per minute""#)?;
//! # #[cfg(feature = "calendar")]
//! let quota: Quota = "100/day@Europe/Berlin".parse()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Kinds
//!
//! A quota counts in one of four [kinds](crate::QuotaKind), and all steps work the same for each. Without a kind, it
//! counts in fixed windows, which may let twice the limit through [around a boundary](#what-fixed-windows-do-at-a-boundary).
//! A bucket, `~burst`, admits a burst at once and keeps the rate even. A log, `~log`, never exceeds its limit in any
//! window's length. A sliding window, `~sliding`, estimates that from two counts.
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Limiter, ManualClock, MemoryStore, Quota};
//!
//! let clock = ManualClock::default();
//! let store = MemoryStore::builder().clock(clock.clone()).build();
//! // Six a minute, up to two at once: one comes back every ten seconds.
//! let limiter = Limiter::with_store(Quota::per_minute(6).with_burst(Some(2))?, store);
//! assert!(limiter.check("alice")?.is_allowed());
//! assert!(limiter.check("alice")?.is_allowed());
//! let denied = limiter.check("alice")?;
//! assert_eq!(denied.retry_after(), Some(Duration::from_secs(10)));
//!
//! clock.advance(Duration::from_secs(10));
//! assert!(limiter.check("alice")?.is_allowed());
//!
//! // The same in configuration, and a log of three a minute.
//! assert_eq!("6/1m~burst:2".parse(), Ok(Quota::per_minute(6).with_burst(Some(2))?));
//! assert_eq!("3/1m~log".parse(), Ok(Quota::per_minute(3).with_log(Duration::from_millis(1))?));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Cost
//!
//! A request may cost more than one unit. It is admitted if all of them fit. A denied request costs nothing, so a
//! smaller one may still be admitted. A cost above the limit can never be admitted, so its denial has no time to wait.
//!
//! ```
//! use tollgate::{Limiter, Quota, Reason};
//!
//! let limiter = Limiter::new(Quota::per_day(10));
//! assert!(limiter.check_cost("alice", 8)?.is_allowed());
//! assert!(!limiter.check_cost("alice", 3)?.is_allowed());
//! assert!(limiter.check_cost("alice", 2)?.is_allowed());
//!
//! let never = limiter.check_cost("bob", 11)?;
//! assert_eq!(never.reason(), Some(Reason::CostExceedsLimit));
//! assert_eq!(never.retry_after(), None);
//! # Ok::<(), tollgate::Full>(())
//! ```
//!
//! # Refund
//!
//! A check returns a [`Receipt`](crate::Receipt) for the units that it charged, and [`refund`](crate::Limiter::refund)
//! gives them back. The units return to the windows that were charged, unless those have closed. A denied request costs
//! nothing, so its receipt is empty. A refund removes the units from the receipt, so nothing is given back twice.
//!
//! If the cost is known only afterwards, charge the maximum and [settle](crate::Limiter::settle) the receipt. Or
//! [reserve](crate::Limiter::reserve) it: units that are not committed are given back, even if the work fails.
//!
//! ```
//! use tollgate::{Limiter, Quota};
//!
//! /// Answers in at most `most` words.
//! fn answer(most: u32) -> u32 {
//!     most.min(120)
//! }
//!
//! let words = Limiter::new(Quota::per_day(1_000));
//! let most = 800;
//! let decision = words.check_cost("alice", most)?;
//! if decision.is_allowed() {
//!     let reservation = words.reserve(decision.into_receipt());
//!     let cost = answer(most);
//!     reservation.commit(cost)?;
//! }
//! assert_eq!(words.peek("alice")?.remaining(), 880);
//! # Ok::<(), tollgate::Full>(())
//! ```
//!
//! # Several quotas
//!
//! A short quota next to a long one keeps a client from using up a day's limit in a second. Both are charged or neither
//! is, even with concurrent requests. The decision's single figures are those of the [quota](crate::Decision::quota)
//! that decided; [`quotas`](crate::Decision::quotas) has them all.
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Limiter, ManualClock, MemoryStore, Quota};
//!
//! let clock = ManualClock::default();
//! let limiter = Limiter::builder("search")
//!     .quota(Quota::per_second(2))
//!     .quota(Quota::per_minute(3))
//!     .build(MemoryStore::builder().clock(clock.clone()).build())?;
//!
//! assert!(limiter.check("alice")?.is_allowed());
//! assert!(limiter.check("alice")?.is_allowed());
//! let too_fast = limiter.check("alice")?;
//! assert_eq!(too_fast.retry_after(), Some(Duration::from_secs(1)));
//! assert_eq!(too_fast.quotas()[1].used(), 2);
//!
//! clock.advance(Duration::from_secs(1));
//! assert!(limiter.check("alice")?.is_allowed());
//! let used_up = limiter.check("alice")?;
//! assert_eq!(used_up.quota(), &Quota::per_minute(3));
//! assert_eq!(used_up.retry_after(), Some(Duration::from_secs(59)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Quotas with their own keys
//!
//! To limit each user and all users together, give each quota its own key: a [`Charge`](crate::Charge) is one quota for
//! one key, and [`check_all`](crate::Limiter::check_all) applies several of them, all or nothing. A
//! [`PolicyQuota`](crate::PolicyQuota) is a quota with a name, so that quotas of the same kind and window have separate
//! counters.
//!
//! ```
//! use tollgate::{Charge, Key, Limiter, PolicyQuota, Quota};
//!
//! // `check` charges the limiter's own quota; `check_all` charges others in the same store.
//! let limiter = Limiter::new(Quota::per_day(5));
//! let per_user = PolicyQuota::new("user", Quota::per_day(2));
//! let everybody = PolicyQuota::new("everybody", Quota::per_day(3));
//!
//! let all = Key::from("all");
//! let check = |user: &str| {
//!     let user = Key::from(user);
//!     let charges = [Charge::new(&per_user, &user, 1), Charge::new(&everybody, &all, 1)];
//!     // A decision borrows its quotas and keys; this one is kept longer.
//!     limiter.check_all(&charges).map(tollgate::Decision::into_owned)
//! };
//! assert!(check("alice")?.is_allowed() && check("alice")?.is_allowed());
//! assert_eq!(check("alice")?.policy(), "user");
//! assert!(check("bob")?.is_allowed());
//! let denied = check("bob")?;
//! assert_eq!((denied.is_allowed(), denied.policy()), (false, "everybody"));
//! # Ok::<(), tollgate::Full>(())
//! ```
//!
//! # Waiting
//!
//! Some callers prefer to wait: a client that must stay under another service's limit, or a background job.
//! [`Waiters`](crate::Waiters) waits for a limiter. A denied call sleeps for `retry_after`, with a timer that you pass,
//! and asks again.
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Limiter, Waiters};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Limiter::new("2/100ms".parse()?);
//! let waiters = Waiters::new(limiter, tokio::time::sleep).max_waiters(1_000);
//! for _ in 0..3 {
//!     // The third waits for the next window.
//!     assert!(waiters.until_allowed("api.example.com").await?.is_allowed());
//! }
//!
//! // The next day is too far away to wait for.
//! let waiters = Waiters::new(Limiter::new("1/1d@first_hit".parse()?), tokio::time::sleep);
//! assert!(waiters.until_allowed("api.example.com").await?.is_allowed());
//! let denied = waiters.until_allowed_within(Duration::from_secs(1), "api.example.com", 1).await?;
//! assert!(!denied.is_allowed());
//! # Ok(())
//! # }
//! ```
//!
//! Waiters of one key are served in the order in which they came, and other keys are not delayed. Only the first of
//! them asks, so a crowd that waits does not become a crowd of requests when the window ends. At most `max_waiters`
//! wait at a time; the next one gets an [error](crate::WaitError::TooManyWaiters). With a deadline, the denial is
//! returned as soon as it is known that there will be no room in time. A cost that can never be admitted is denied at
//! once.
//!
//! Dropping a future is safe: its waiter leaves the queue and the next one moves up. If it was calling a shared store
//! at that moment, something may have been charged.
//!
//! Threads wait with [`Waiters::blocking`](crate::Waiters::blocking):
//!
//! ```
//! use tollgate::{Limiter, Waiters};
//!
//! let waiters = Waiters::blocking(Limiter::new("2/100ms".parse()?), std::thread::sleep);
//! for _ in 0..3 {
//!     assert!(waiters.until_allowed("api.example.com")?.is_allowed());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # At most N at a time
//!
//! A quota limits how often something begins. An [`InFlightLimiter`](crate::InFlightLimiter) limits how much of a key
//! runs at once. Each request that is admitted gets a [`Hold`](crate::Hold), and its unit is free again when that is
//! dropped, whatever the reason. [`HoldWaiters`](crate::HoldWaiters) waits for a unit, in turn: the end of a hold wakes
//! the next waiter of its key.
//!
//! ```
//! use tollgate::{HoldWaiters, InFlightLimiter};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let downloads = InFlightLimiter::new("2~in_flight".parse()?);
//! let downloads = HoldWaiters::new(downloads, tokio::time::sleep);
//! let first = downloads.until_held("example.com").await?.into_hold();
//! let second = downloads.until_held("example.com").await?.into_hold();
//!
//! // The third waits until one of the two has ended.
//! let (third, ()) = tokio::join!(downloads.until_held("example.com"), async { drop(first) });
//! assert!(third?.is_allowed());
//! # drop(second);
//! # Ok(())
//! # }
//! ```
//!
//! Both count in this process. Over a store that other processes share, a [`HoldLimiter`](crate::HoldLimiter) has the same
//! steps as async functions. There, a hold has a length, and a [`HoldKeeper`](crate::HoldKeeper) renews it as long as
//! its guard lives, so a process that dies frees its units. Its holds can also charge an estimate to quotas, and
//! [settle](crate::SharedHold::settle) it at the actual cost.
//!
//! # Shared counters
//!
//! A [`Limiter`](crate::Limiter) never waits, so async code may call it directly. Over a shared store, such as
//! `RedisStore` of `tollgate-redis`, a [`SharedLimiter`](crate::SharedLimiter) has the same steps, and they are async.
//! They need no particular runtime. Their error, [`StoreError`](crate::StoreError), means that the store could not
//! answer.
//!
//! ```
//! use tollgate::{SharedLimiter, Store, StoreError};
//!
//! async fn greet<S: Store>(limiter: &SharedLimiter<S>, user: &str) -> Result<String, StoreError> {
//!     let decision = limiter.check(user).await?;
//!     Ok(if decision.is_allowed() { format!("hello {user}") } else { "later".to_owned() })
//! }
//! # let limiter = SharedLimiter::new(tollgate::Quota::per_day(1), tollgate::MemoryStore::new());
//! # assert_eq!(tollgate_testkit::block_on(greet(&limiter, "alice"))?, "hello alice");
//! # assert_eq!(tollgate_testkit::block_on(greet(&limiter, "alice"))?, "later");
//! # Ok::<(), StoreError>(())
//! ```
//!
//! # When the store is full
//!
//! A memory store holds up to a [configured number](crate::MemoryStoreBuilder::max_counters) of counters, and never
//! drops a live one to make room. When all are live, a key without a counter gets [`Full`](crate::Full), and so
//! does a log that needs another place; other keys with a counter are not affected. This is not a denial: the key may
//! be within its quota, but there is no room to count it. You choose whether to refuse such a request or to admit it
//! uncounted. If it happens without an attack, raise the cap (a counter takes about 33 bytes) or shorten the windows.
//! Counters that end make room: windows that close, and buckets and logs that are empty again.
//!
//! ```
//! use tollgate::{Full, Limiter, MemoryStore, Quota};
//!
//! let store = MemoryStore::builder().max_counters(1).build();
//! let limiter = Limiter::with_store(Quota::per_day(5), store);
//! let status = |user: &str| match limiter.check(user) {
//!     Ok(decision) if decision.is_allowed() => 200,
//!     Ok(_) => 429,
//!     // This service admits nobody uncounted. The lack of room is not the user's fault.
//!     Err(Full) => 503,
//! };
//! assert_eq!((status("alice"), status("bob"), status("alice")), (200, 503, 200));
//! ```
//!
//! # When a shared store fails
//!
//! A store over a network can be down, hang or answer nonsense. This is not a denial either, and you decide once what
//! it means: [`FallbackStore`](crate::FallbackStore) puts one of three policies above any store. `Open` admits,
//! `Closed` returns the error, and with `Local` each process counts against its share of the limit.
//! [`OnStoreFailure`](crate::OnStoreFailure) documents how much they admit at most. The
//! [source](crate::Decision::source) of such a decision is [`Fallback`](crate::Source::Fallback).
//!
//! # Time in your tests
//!
//! A store takes its time from a [`Clock`](crate::Clock). [`ManualClock`](crate::ManualClock) stands still
//! until it is moved, so a test of an hour takes no time and never falls into the wrong window.
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Clock, Limiter, ManualClock, MemoryStore, Quota};
//!
//! fn greet<C: Clock>(limiter: &Limiter<C>, name: &str) -> String {
//!     match limiter.check(name) {
//!         Ok(decision) if decision.is_allowed() => format!("hello {name}"),
//!         Ok(_) => "later".to_owned(),
//!         Err(error) => format!("cannot tell: {error}"),
//!     }
//! }
//!
//! let clock = ManualClock::default();
//! let store = MemoryStore::builder().clock(clock.clone()).build();
//! let limiter = Limiter::with_store(Quota::per_hour(1), store);
//!
//! assert_eq!(greet(&limiter, "alice"), "hello alice");
//! assert_eq!(greet(&limiter, "alice"), "later");
//! clock.advance(Duration::from_secs(60 * 60));
//! assert_eq!(greet(&limiter, "alice"), "hello alice");
//! ```
//!
//! # What fixed windows do at a boundary
//!
//! The count starts over with each window. So a client that uses up one window at its very end and the next at its very
//! start gets twice the limit in a short time:
//!
//! ```text
//!  limit 5      window 1                window 2
//!          ├───────────────────────┼───────────────────────┤
//!  allowed                     ▮▮▮▮▮▮▮▮▮▮
//!                              └───┬────┘
//!                      10 = 2 x limit around the boundary
//! ```
//!
//! It is never more: any interval no longer than a window sees at most twice the limit. An
//! [overdraft](crate::CountDenied::Overdraft) may pass the limit in each of the two windows by the last cost that it
//! admits. The example reaches twice the limit.
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Limiter, ManualClock, MemoryStore, Quota};
//!
//! let clock = ManualClock::default();
//! let store = MemoryStore::builder().clock(clock.clone()).build();
//! let limiter = Limiter::with_store(Quota::per_minute(5), store);
//! let admitted = || (0..100).filter(|_| limiter.check("alice").is_ok_and(|it| it.is_allowed())).count();
//!
//! clock.advance(Duration::from_millis(59_999));
//! let before = admitted();
//! clock.advance(Duration::from_millis(1));
//! assert_eq!(before + admitted(), 10);
//! ```
//!
//! If that matters, choose another [kind](#kinds), or add a short quota next to the long one. Or let keys' windows start at different times:
//! `5/1m@first_hit` starts a window with a key's first unit, and `5/1m@staggered` gives every key its own start.
