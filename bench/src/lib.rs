//! The limiters that are compared in one process: Tollgate and its peers.

pub mod contestants;
