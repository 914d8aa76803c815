//! The rate-limit service behind the `tollgate` binary: exact fixed windows over HTTP.
//!
//! A request takes this way through the modules:
//!
//! ```text
//! accept ──▶ tls ───────▶ protocol ──▶ http ──────▶ attributes ──▶ engine ──▶ PolicyLimiter ──▶ Store ──▶ http ──▶ reply
//! cap on     handshake,   what is      operations,  what the      metrics,   which limits      one       headers,
//! them       if asked     spoken       query, body  caller says   log lines  apply to whom     step      body
//! ```
//!
//! [`args`] is what the user wrote, [`Settings`] the ready objects made of it, and [`serve`] puts everything
//! together. Policies come from flags (`flags`), from what another system is started with (`import`), or from a file
//! (`policy_files`), which is `watch`ed, `follow`ed and `reload`ed (`live_policies`). Who may do what is in another file
//! (`principals`), which is read again in the same way; a `caller` is who came through. The
//! engine knows no HTTP, the `http` modules know no counters, and all of it works over any
//! [`Store`](tollgate::Store); `store` has those that the service can be started with.

mod accept;
mod announced;
pub mod args;
mod attributes;
mod caller;
pub mod check_config;
pub mod client;
mod descriptors;
pub mod doctor;
mod engine;
mod envoy;
mod example;
pub mod exit_status;
pub mod explain;
mod fit;
mod flags;
mod follow;
mod followed_files;
mod grpc;
mod http;
mod import;
mod layout;
mod listener;
mod live_domains;
mod live_policies;
mod log_gap;
pub mod logs;
mod look;
pub mod man;
mod metrics;
pub mod new_token;
pub mod output;
mod peers;
mod phase;
mod policy_files;
mod principals;
mod protocol;
mod readiness;
mod receipts;
mod reload;
mod scope;
mod secret_file;
mod serve;
mod settings;
mod shutdown;
mod socket;
mod stopwatch;
mod store;
mod tls;
pub mod version;
mod watch;
mod watchdog;
mod with_sources;

pub use self::fit::Misfit;
pub use self::flags::FlagsError;
pub use self::http::Dialect;
pub use self::import::ImportError;
pub use self::receipts::ReceiptSecretError;
pub use self::scope::Scope;
pub use self::serve::{Ended, serve};
pub use self::settings::{Settings, SettingsError};
pub use self::tls::TlsFileError;
