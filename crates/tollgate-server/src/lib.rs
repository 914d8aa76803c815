//! The rate-limit service behind the `tollgate` binary: exact fixed windows over HTTP.
//!
//! Most users need only the binary. This crate is for a program that starts the service itself:
//!
//! ```no_run
//! use tollgate_server::args::{Args, Command};
//! use tollgate_server::{Settings, serve};
//!
//! // The program is started as `tollgate` is, such as with `serve --limit 5/1m`.
//! let Some(Command::Serve(args)) = Args::from_process()?.command else {
//!     return Err("this program has the command `serve` alone".into());
//! };
//! let runtime = tokio::runtime::Runtime::new()?;
//! // Until SIGTERM or Ctrl-C, and then until open connections have finished.
//! runtime.block_on(serve(Settings::new(*args)?))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The manual in `docs/` of the repository continues: `service.md` begins with the first answers, `cli.md` lists every
//! flag, and `http.md` every operation.
//!
//! # Features
//!
//! | Feature | Adds |
//! |---|---|
//! | `simulate` (default) | the commands `simulate` and `suggest`, a tenth of the binary |
//!
//! # How a request flows
//!
//! A request passes through the modules in this order:
//!
//! ```text
//! accept ──▶ tls ───────▶ protocol ──▶ http ──────▶ attributes ──▶ engine ──▶ PolicyLimiter ──▶ Store ──▶ http ──▶ reply
//! cap on     handshake    HTTP or      operations,  names and     metrics,   which limits      one       headers,
//! them                    gRPC         query, body  values        log lines  apply to whom     step      body
//! ```
//!
//! [`args`] reads flags and variables, [`Settings`] resolves them to ready objects, and [`serve`] puts everything
//! together. Policies come from flags (`flags`), from another system's settings (`import`), or from files
//! (`policy_files`), which are watched and reloaded (`watch`, `follow`, `reload`, `live_policies`). The principals come
//! from another file (`principals`), which is reloaded in the same way; a `caller` is an authorized one. The engine is
//! independent of HTTP, the `http` modules are independent of counters, and everything works over any
//! [`Store`](tollgate::Store); `store` has those that the service can be started with.

#![cfg_attr(docsrs, feature(doc_cfg))]

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
mod joined_values;
mod layout;
mod linger;
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
pub mod runtime;
mod scope;
mod secret_file;
mod serve;
mod settings;
mod shutdown;
#[cfg(feature = "simulate")]
pub mod simulate;
mod socket;
mod stopwatch;
mod store;
mod tls;
mod trials_header;
mod units_left_log;
pub mod version;
mod warning_log;
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
