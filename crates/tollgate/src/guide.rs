//! A tour: from the first limiter to tests with a clock of one's own.
//!
//! # The first limiter
//!
//! A [`Quota`](crate::Quota) says how much in which windows, a [`Limiter`](crate::Limiter) applies it to keys.
//! The fifth of five is allowed, the sixth is denied and told how long to wait.
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
//! # Ok::<(), tollgate::StoreError>(())
//! ```
//!
//! A limiter is shared by reference or by clone; any number of threads may ask at once. A denial is a value,
//! not an error: an error ([`StoreError`](crate::StoreError)) means that the store could not answer, and
//! whether the request may go on then is for the caller to say.
//!
//! # Keys
//!
//! A [`Key`](crate::Key) says who is counted. Texts, numbers, addresses and bytes are keys, and so are pairs
//! and triples of them; nothing has to be joined by hand, and `("a:b", "c")` is not `("a", "b:c")`.
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
//! # Cost
//!
//! A request may take more than one unit. It is admitted if all of them fit, and a denied request takes
//! nothing, so a smaller one may still pass. A cost above the limit can never pass and is told so: there is
//! no time to wait for.
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
//! # Ok::<(), tollgate::StoreError>(())
//! ```
//!
//! Where the cost is known only afterwards, take the most it can be and [refund](crate::Limiter::refund) the
//! rest; the refund goes to the window that was charged, or nowhere if that has closed.
//!
//! # Several quotas
//!
//! A short quota beside a long one keeps a day's allowance from being spent in a second. Both are charged or
//! neither is, whoever else asks at the same time. The decision's single figures are those of the quota that
//! decided; [`quotas`](crate::Decision::quotas) has them all.
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
//! assert_eq!(used_up.deciding(), 1);
//! assert_eq!(used_up.retry_after(), Some(Duration::from_secs(59)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Quotas with keys of their own (each user, and everybody together) go through
//! [`check_all`](crate::Limiter::check_all).
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
//! fn greet<C: Clock>(limiter: &Limiter<MemoryStore<C>>, name: &str) -> String {
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
//! The count starts anew with each window. So a client that uses up one window at its very end and the next
//! at its very start gets twice the limit in a short time:
//!
//! ```text
//!  limit 5      window 1                window 2
//!          ├───────────────────────┼───────────────────────┤
//!  allowed                     ▮▮▮▮▮▮▮▮▮▮
//!                              └───┬────┘
//!                      10 = 2 x limit around the boundary
//! ```
//!
//! It is never more: any interval no longer than a window sees at most twice the limit. The example reaches
//! it.
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
//! Where that matters, add a short quota beside the long one, or let windows not start for everybody at once:
//! `5/1m@first_hit` starts a window with a key's first unit, `5/1m@staggered` gives every key a start of its
//! own.
