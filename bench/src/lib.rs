//! Tollgate and its peers: the limiters that are compared in one process.

pub mod contestants;
