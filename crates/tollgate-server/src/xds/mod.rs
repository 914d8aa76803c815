//! Limits over xDS, as Envoy Gateway sends them to its rate-limit service.
//!
//! A management server sends the limits of all domains over one stream (state of the world, `RateLimitConfig`), and each
//! response replaces them as a whole. `client` keeps a stream open: `connect` opens a connection, whose certificates
//! `certificates` follows, `stream` answers each response with an ACK or a NACK, and `backoff` sets the waits between
//! two streams. `limits` makes the content of a response live, which `resources` turns into the contents of files: the
//! reader of files checks it. `messages` is generated.
//!
//! Whatever goes wrong, the last valid limits stay live.

mod backoff;
mod certificates;
mod client;
mod connect;
mod limits;
#[allow(missing_docs, unreachable_pub, clippy::all, reason = "it is generated")]
mod messages;
mod resources;
mod settings;
mod stream;

pub(crate) use self::backoff::XdsBackoff;
pub(crate) use self::certificates::XdsCertificates;
pub(crate) use self::client::XdsClient;
pub(crate) use self::limits::XdsLimits;
pub(crate) use self::settings::{LimitsAtStart, XdsNode, XdsServer, XdsSettings};
