//! The client of a request behind proxies, from the header in which they list addresses.
//!
//! ```text
//! lines ──▶ ForwardedHeader ──▶ hops, the nearest first ──▶ TrustedProxies ──▶ the client's address
//! ```

mod header;
mod node;
mod proxies;

pub use self::header::{ForwardedHeader, Hop};
pub use self::proxies::{ClientHop, InvalidHop, TrustedProxies};
