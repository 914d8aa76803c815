//! The rate-limit service behind the `tollgate` binary: exact limits over HTTP and gRPC.
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
//! net ──▶ tls ───────▶ http, grpc ──▶ access ──▶ decide ────▶ PolicyLimiter ──▶ store ──▶ http, grpc ──▶ reply
//! cap,    handshake    operations,    who may    metrics,     which limits      one       headers,
//! drain                query, body    do what    log lines    apply to whom     step      body
//! ```
//!
//! [`args`] reads flags and variables, [`Settings`] resolves them to ready objects, and [`serve`] puts everything
//! together. Policies come from flags (`settings::flags`), from another system's settings (`settings::import`), or from
//! files, which `live` watches and reloads. Envoy's limits can come from a management server, which `xds` follows. `decide` is independent of wire formats, `http` and `grpc` are independent
//! of counters and of each other: `answer` has the rejections that both word. Everything works over any
//! [`Store`](tollgate::Store); `store` has those that the service can be started with. `overrides` keeps the limits that
//! are changed while the service runs. `dashboard` has the live page and its data; `talkers`
//! counts for it which keys ask most, and `sample` keeps requests of some keys. The other commands are in [`cli`].

#![cfg_attr(docsrs, feature(doc_cfg))]

mod access;
mod answer;
pub mod args;
pub mod cli;
mod dashboard;
mod decide;
mod explain;
mod grpc;
mod http;
mod live;
mod locked_file;
mod metrics;
mod net;
mod observe;
mod overrides;
mod request;
mod sample;
mod serve;
mod settings;
mod store;
mod talkers;
mod tls;
mod xds;

pub use self::access::scope::Scope;
pub use self::decide::hold_seal::HoldSecretError;
pub use self::observe::logs;
pub use self::overrides::{JournalDamage, JournalError, StateFolderError};
pub use self::serve::{ServiceEnd, serve};
pub use self::settings::flags::FlagsError;
pub use self::settings::import::ImportError;
pub use self::settings::{Settings, SettingsError};
pub use self::store::StoreSetupError;
pub use self::store::fit::Misfit;
pub use self::talkers::TalkersSecretError;
pub use self::tls::TlsFileError;
