//! What the benches measure with.
//!
//! [`keys`] are what limiters are asked for; [`service`] and [`wrk`] are servers over HTTP and the load on them;
//! [`samples`], [`resident`] and [`cpu_time`] hold the results. The benches decide what is measured and how long.

pub mod affinity;
pub mod cpu_time;
pub mod keys;
pub mod resident;
pub mod samples;
pub mod service;
pub mod stopwatch;
pub mod wrk;
