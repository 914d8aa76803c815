//! Tests of the library in one binary, because linking takes longer than most of them. `waiters` is separate, because
//! its counting allocator would slow down all of them.

mod boundary;
mod coarse_clock;
mod concurrency;
mod conformance;
mod fallback;
mod fallback_ends;
mod fallback_holds;
mod hammer;
mod hammer_kinds;
mod holds;
mod in_flight;
mod keys;
mod kinds;
mod limiter;
mod manual;
mod model;
mod quota_text;
mod room;
mod vectors;
mod watch;
mod worked_numbers;
