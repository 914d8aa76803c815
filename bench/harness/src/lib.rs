//! The tools of the benches.
//!
//! [`keys`] are the input of limiters. [`service`] and [`wrk`] are HTTP servers and the load on them. [`samples`],
//! [`resident`] and [`cpu_time`] hold the results. The benches decide what to measure, and how long.

pub mod affinity;
pub mod cpu_time;
pub mod keys;
pub mod resident;
pub mod samples;
pub mod service;
pub mod stopwatch;
pub mod wrk;
