//! Tollgate beside its peers: what the bench binaries share.
//!
//! [`contestants`] are the limiters compared in one process, [`keys`] what they are asked for; [`service`] and
//! [`wrk`] are servers over HTTP and the load on them; [`samples`], [`resident`] and [`cpu_time`] what came of it.
//! The binaries decide what is measured and how long.

pub mod affinity;
pub mod contestants;
pub mod cpu_time;
pub mod keys;
pub mod resident;
pub mod samples;
pub mod service;
pub mod stopwatch;
pub mod wrk;
