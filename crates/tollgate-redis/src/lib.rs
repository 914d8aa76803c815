//! Counters in Redis or Valkey, shared by any number of processes.

mod batch;
mod builder;
mod denials;
mod keys;
mod question;
mod script;
mod store;
mod time;
mod topology;

pub use self::builder::RedisStoreBuilder;
pub use self::keys::Identity;
pub use self::store::RedisStore;
