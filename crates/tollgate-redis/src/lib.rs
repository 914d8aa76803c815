//! Counters in Redis or Valkey, shared by any number of processes.

mod node;
mod pace;
mod password;
mod settings;
mod tls;
mod topology;
mod trouble;
mod url;

pub use self::password::{Password, PasswordError};
pub use self::settings::SettingsError;
pub use self::tls::{Tls, TlsError};
pub use self::topology::{ServerStatus, StoreStatus};
pub use self::url::{StoreUrl, UrlError};
