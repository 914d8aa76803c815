//! Real servers for tests: Redis and Valkey, started on free ports in temporary folders and stopped again.
//!
//! A server ends when its handle is dropped, also when the test panics, and when the test's process is killed. If
//! a program is missing, the test fails and says what to install; nothing is skipped. And nothing is waited for without
//! end: after a minute the test fails and names the server and what it did not do.
//!
//! | to have | use |
//! |---|---|
//! | one server, with TLS, users, settings, data that survive or not | [`Server`], [`Settings`] |
//! | a cluster, its failovers, a slot that moves | [`Cluster`], [`Migration`] |
//! | a primary that sentinels replace | [`Sentinels`] |
//! | connections that are cut, late, slow or refused | [`FaultProxy`] |
//! | a server's time moved both ways | [`ServerClock`] |
//! | what other systems do on a server, for tests next to them | [`published`] |
//! | a store on a server in the conformance suite | [`ServerStore`], [`SteeredServer`] |

mod clock;
mod cluster;
mod config;
mod connection;
mod patience;
mod port;
mod process;
mod proxy;
pub mod published;
mod sentinels;
mod server;
mod server_store;
mod settings;
mod software;
mod tls;

pub use self::clock::ServerClock;
pub use self::cluster::{Cluster, Migration, SLOTS, cluster_of_one};
pub use self::connection::ServerConnection;
pub use self::proxy::{ByteDirection, ConnectionEnd, FaultProxy};
pub use self::sentinels::Sentinels;
pub use self::server::{Data, Server};
pub use self::server_store::{ServerStore, SteeredServer};
pub use self::settings::{ClientCertificates, Persistence, Settings};
pub use self::software::Software;
pub use self::tls::{CertificateFiles, Certificates};
