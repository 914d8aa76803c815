//! What the service and the middleware tell their clients, and their logs: limit headers, JSON bodies, outages.
//!
//! Both write the same formats, so a client cannot tell which one answers. For your own handlers, `tollgate-tower`
//! exports [`headers`] and [`body`] as well.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod body;
pub mod headers;
pub mod outage;
