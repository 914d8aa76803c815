//! Counters in Redis or Valkey, shared by any number of processes.
//!
//! [`RedisStore`] is a [`Store`](tollgate::Store): every decision is one atomic step of a script on the server, at
//! the server's time. Redis 7.0 or Valkey 7.2, or newer.
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
//! The manual in `docs/` of the repository goes on: `redis.md` for servers, rights and passwords, `outages.md` for
//! decisions while the server is away. The crate has no optional features.
//!
//! # What is stored
//!
//! One plain integer for each counter, to be read with `GET`. Its key is
//! `{prefix}:1:{policy}:{windows}:{{identity}}`, for example `shop:1:default:1m:{xXvTx0caa3RWc8NUkisk5w}`, with the
//! [identity](Identity) as a digest unless it is asked for in plain. It expires a second after its window has ended,
//! and that is where its window is kept.
//!
//! Where another system counts on the same server, a [`KeyLayout`] writes keys as that one does, and both share one
//! count.
//!
//! # The way of a request
//!
//! ```text
//! charges ─▶ named charges ─▶ denials ─▶ topology ─▶ lane ─────▶ batch ─▶ script ─▶ node ─▶ server
//!            with their       denied     who has     waits for   group    written   a few
//!            counters         already?   the slot    its server  commit   and read  connections
//! ```
//!
//! Requests that come while a batch is under way to their server go together in the next. A request that finds the
//! server idle is sent at once. On a Cluster, a batch is a call for each slot, and all of them are sent together. Equal requests of a call are one step of the script, whose result is handed out as if each had
//! been taken by itself, one after another.
//!
//! # Consistency
//!
//! Exact under any number of processes, as long as the server keeps its data. A failover that loses writes hands out
//! what they had taken once more, at most one limit for each.
//!
//! The server's clock may step back. By up to a second, it reopens nothing: a counter whose window has not begun yet
//! stays in it, and a window that has closed is known for a second. Then `now` lies before the window that was counted,
//! and a client that is denied waits from there to the end of the window. A longer step back takes counters, with what
//! they have used, into the window that holds now. So nobody waits longer than one window and a second, and a window
//! that the clock passes twice can be counted twice.
//!
//! A charge whose outcome is unknown, because no reply came in time, is never sent again
//! ([`StoreError::may_have_charged`](tollgate::StoreError::may_have_charged)): it may have been counted, and then is
//! counted once.
//!
//! A denied key is denied again without asking the server until the window ends, for a second at most. Such
//! answers have the source [`Local`](tollgate::Source::Local). They are judged by this request's own limit and cost,
//! forgotten when this process refunds, resets or sets the counter, and not given where denials are counted. What
//! another process gives back is seen within a second, and so are a step of the server's clock and a refund whose
//! outcome this process does not know.
//!
//! On a Cluster, all quotas of a request have to count the same key, so that they lie in one slot. Else it fails
//! with [`StoreError::Uncountable`](tollgate::StoreError::Uncountable), unless the store is told to
//! [reserve](AcrossSlots::Reserve) and give back, which is all or nothing in the end but not at every instant. On one
//! server and with Sentinel they may count what they like.
//!
//! A slot of a Cluster may move while its counters are charged. Only a request with several quotas can meet its
//! counters at two servers then. It waits for them to come together until its deadline, and fails with
//! [`RedisError::NotReady`] if they do not; nothing is charged.
//!
//! # Cancel safety
//!
//! A future that is dropped before it is polled has asked nothing. Later, its charge may or may not be counted, all
//! of it or nothing. No other caller is affected.
//!
//! # Runtime
//!
//! A store is built and used inside one Tokio runtime, whose I/O and time are enabled.

mod across_slots;
mod backoff;
mod batch;
mod builder;
mod calls;
mod credentials;
mod denials;
mod doctor;
mod error;
mod identity;
mod key_values;
mod keys;
mod lane;
mod layout;
mod named_charges;
mod node;
mod password;
mod rights;
mod script;
mod settings;
mod store;
mod time;
mod tls;
mod topology;
mod trouble;
mod url;

pub use self::across_slots::AcrossSlots;
pub use self::builder::RedisStoreBuilder;
pub use self::doctor::{Advice, Diagnosis, Finding, Level, Setting};
pub use self::error::RedisError;
pub use self::identity::{Identity, IdentitySecret, IdentitySecretError};
pub use self::layout::{KeyLayout, LayoutError, Separators};
pub use self::password::{Password, PasswordError};
pub use self::settings::SettingsError;
pub use self::store::RedisStore;
pub use self::tls::{Tls, TlsError};
pub use self::topology::{ServerStatus, StoreStatus};
pub use self::url::{StoreUrl, UrlError};
