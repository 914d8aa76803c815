//! Limits in front of any [tower](https://docs.rs/tower) service: axum, hyper, tonic.
//!
//! Whom a request is counted for is said by a [key extractor](key).

mod head;
pub mod headers;
pub mod key;

pub use self::head::Head;
