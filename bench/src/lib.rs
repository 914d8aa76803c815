//! Tollgate beside its peers: the limiters that are compared in one process.

pub mod contestants;
