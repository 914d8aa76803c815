//! Tests of the library in one binary, because linking takes longer than most of them. `waiters` is another one: it counts
//! allocations, and what counts them makes all of them slower.

mod boundary;
mod coarse_clock;
mod concurrency;
mod conformance;
mod fallback;
mod hammer;
mod keys;
mod limiter;
mod model;
mod quota_text;
mod room;
mod vectors;
mod watch;
mod worked_numbers;
