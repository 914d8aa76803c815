//! Counters in Redis or Valkey, shared by any number of processes.

mod batch;
mod builder;
mod denials;
mod keys;
mod node;
mod pace;
mod password;
mod question;
mod script;
mod settings;
mod store;
mod time;
mod tls;
mod topology;
mod trouble;
mod url;

pub use self::builder::RedisStoreBuilder;
pub use self::keys::Identity;
pub use self::password::{Password, PasswordError};
pub use self::settings::SettingsError;
pub use self::store::RedisStore;
pub use self::tls::{Tls, TlsError};
pub use self::topology::{ServerStatus, StoreStatus};
pub use self::url::{StoreUrl, UrlError};
