//! The order of time.

mod buckets;
mod sorter;

pub(crate) use self::buckets::Buckets;
pub(crate) use self::sorter::{SortedRequests, Sorter};
