//! Counters in Redis or Valkey, shared by any number of processes.
//!
//! Use this crate if several processes must share limits. [`RedisStore`] is a [`Store`](tollgate::Store): each decision
//! is one atomic step of a script on the server, by the server's clock. It needs Redis 7.0 or Valkey 7.2, or newer.
//!
//! ```no_run
//! use tollgate::{Quota, SharedLimiter};
//! use tollgate_redis::RedisStore;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let store = RedisStore::builder("redis://127.0.0.1".parse()?).prefix("shop").build()?;
//! let limiter = SharedLimiter::new(Quota::per_minute(5), store);
//!
//! let decision = limiter.check("alice").await?;
//! if !decision.is_allowed() {
//!     println!("come back in {:?}", decision.retry_after());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The manual in `docs/` of the repository continues: `redis.md` with URLs, rights and passwords, `outages.md` with
//! decisions during an outage, `sizing.md` with the load that a server carries. The crate has no optional features.
//!
//! # What is stored
//!
//! Each counter is an integer that you can read with `GET`: its last 13 digits are the used units. If the windows
//! last a second or more and begin at fixed times, the digits before them identify the window. Its key is
//! `{prefix}:1:{policy}:{windows}:{{identity}}`, for example `shop:1:default:1m:{xXvTx0caa3RWc8NUkisk5w}`, with the
//! [identity](KeyIdentity) as a digest, or plain on request. It expires a second after its window.
//!
//! A limit in flight is a sorted set, `{prefix}:1:{policy}:~in_flight:{{identity}}`, with a member for each unit of a
//! [hold](tollgate::HoldStep) and the time at which it ends. The record of a hold is a string,
//! `{prefix}:1::~hold:{{digest}}`, under a digest of its id; on a Cluster it is in the slot of the hold's first key:
//! `{prefix}:1::~hold.{digest}:{{identity}}`. Both expire a second after the last end.
//!
//! [Shared records](SharedRecords) have four keys, `{prefix}:1::~{name}.{part}:{{~{name}}}`, which never expire.
//!
//! To share counters with another system on the same server, use a [`KeyLayout`].
//!
//! # How a request flows
//!
//! ```text
//! charges ─▶ named charges ─▶ denials ─▶ topology ─▶ lane ─────▶ batch ─▶ script ─▶ node ─▶ server
//!            with their       denied     who has     waits for   group    written   a few
//!            counters         already?   the slot    its server  commit   and read  connections
//! ```
//!
//! Requests that arrive while a batch is in flight form the next batch. A request that finds the server idle is sent
//! immediately. On a Cluster, a batch is one call per slot, and all calls are sent together. Equal requests of a call
//! are one step of the script; each gets the answer it would have got by itself.
//!
//! # Consistency
//!
//! Counts are exact with any number of processes, as long as the server keeps its data. A failover that loses writes
//! grants the lost units again, at most one limit for each counter.
//!
//! The server's clock may step back. A step of up to a second reopens no window: a counter stays in its window even if
//! the window has not begun by the new time, and closed windows are kept for a second. Then `now` is before the window
//! that was counted, and a denied client waits from there to the window's end. A longer step back moves counters, with
//! their usage, into the window that is current then. So no client waits longer than one window and a second, and a
//! window that the clock passes twice can be counted twice.
//!
//! A charge with an unknown outcome, because no reply came in time, is never sent again
//! ([`StoreError::may_have_charged`](tollgate::StoreError::may_have_charged)): it was counted once or not at all.
//!
//! A step on a hold carries an id, so its caller may repeat it after an unknown outcome. The store itself repeats only
//! what undoes a part of a hold [across slots](AcrossSlots::Reserve).
//!
//! A denied key is denied again without asking the server until the window ends, for at most a second. Such answers
//! have the source [`Local`](tollgate::Source::Local). They use each request's own limit and cost. The process drops a
//! denial when it refunds, resets or sets the counter, and remembers no denial that charges something. Refunds by other
//! processes, refunds with an unknown outcome and steps of the server's clock take effect within a second.
//!
//! On a Cluster, all quotas of a request must have the same key, so that they are in one slot. Otherwise the request
//! fails with [`StoreError::Uncountable`](tollgate::StoreError::Uncountable), unless the store may
//! [reserve](AcrossSlots::Reserve), which is all or nothing in the end, but not at every instant. On one server and
//! with Sentinel, keys may differ.
//!
//! A slot of a Cluster may move while its counters are charged. Then a request with several quotas may find its
//! counters on two servers. It waits until they are together again, up to its deadline, or fails with
//! [`RedisError::NotReady`] and charges nothing.
//!
//! # Cancel safety
//!
//! A future that is dropped before its first poll does nothing. After that, its charge may or may not be counted, all
//! or nothing. No other caller is affected.
//!
//! # Callers that wait for less than the deadline
//!
//! A store keeps the deadline of a step ([`Store::step_until`](tollgate::Store::step_until)). A step that has no answer
//! at its deadline fails with [`RedisError::TimedOut`]; the server may or may not have taken it. A step that would
//! begin after its deadline fails as [`Late`](tollgate::AnswerError::Late), and charges nothing.
//!
//! ```no_run
//! use std::time::{Duration, Instant};
//!
//! use tollgate::{Charge, Key, PolicyQuota, Quota, Step, StepDeadline, Store};
//! use tollgate_redis::RedisStore;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let store = RedisStore::builder("redis://127.0.0.1".parse()?).build()?;
//! let (quota, key) = (PolicyQuota::new("login", Quota::per_minute(5)), Key::from("alice"));
//! let charges = [Charge::new(&quota, &key, 1)];
//! let deadline = StepDeadline::at(Instant::now() + Duration::from_millis(10));
//! let states = store.step_until(Step::Charge(&charges), Some(deadline)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Runtime
//!
//! Build and use a store inside one Tokio runtime with I/O and time enabled.

mod address;
mod advice;
mod backoff;
mod batch;
mod builder;
mod calls;
mod credentials;
mod denials;
mod dial;
mod error;
mod identity;
mod key_values;
mod lane;
mod layout;
mod named_charges;
mod names;
mod node;
mod password;
mod records;
mod resp;
mod rights;
mod script;
mod server_verifier;
mod servers;
mod settings;
mod slot;
mod small_file;
mod store;
mod time;
mod tls;
mod topology;
mod trouble;
mod url;
mod waiter;

pub use self::advice::{Advice, Setting};
pub use self::builder::RedisStoreBuilder;
pub use self::error::RedisError;
pub use self::identity::{IdentitySecret, IdentitySecretError, KeyIdentity};
pub use self::layout::{KeyLayout, LayoutError};
pub use self::password::{Password, PasswordError};
pub use self::records::{
    ChangeAnswer, DamagedRecord, DamagedRecords, LoadedRecords, LoggedChange, ReadState, Record,
    RecordChange, RecordEnd, RecordMatch, RecordsLoad, RecordsPage, RecordsUpdate, RecordsVersion,
    SharedRecords, SweptRecords, WholeRecords,
};
pub use self::resp::FromReply;
pub use self::servers::{CommandError, StoreServer};
pub use self::settings::SettingsError;
pub use self::small_file::SmallFile;
pub use self::store::{AcrossSlots, RedisStore};
pub use self::tls::{Tls, TlsError};
pub use self::topology::{ServerStatus, StoreStatus};
pub use self::url::{StoreUrl, UrlError};
