//! HTTP as rate limits see it: clients' addresses, canonical paths and the names of formats of limit headers.
//!
//! Policies, logs, the middleware and the service share these values. `tollgate-wire` writes the limit headers.

mod forwarded;
mod grouping;
mod header_format;
mod network;
mod path;

pub use self::forwarded::{ClientHop, ForwardedHeader, Hop, InvalidHop, TrustedProxies};
pub use self::grouping::{Grouping, GroupingError};
pub use self::header_format::{HeaderFormat, HeaderFormats, HeaderFormatsError, UnknownFormat};
pub use self::network::{Network, NetworkError};
pub use self::path::canonical_path;
