//! Tollgate beside its peers: what the bench binaries share.
//!
//! [`contestants`] are the limiters compared, [`keys`] what they are asked for, [`samples`] and [`resident`] what
//! came of it. The binaries decide what is measured and how long.

pub mod affinity;
pub mod contestants;
pub mod keys;
pub mod resident;
pub mod samples;
pub mod stopwatch;
