//! A sample of requests, for what other limits would have done to them.
//!
//! Each policy keeps the requests of some of its keys: all requests of one key in a power of two, so that the windows of
//! these keys are complete. Keys are chosen by a keyed hash, so no client can choose to be among them. A check never
//! waits for it ([`PolicySample::note`]), and one of a key that is not sampled costs a comparison. All samples together
//! have room for [`SampleMemory::MAX_REQUESTS`]; once a second, `bounds` makes room before it is needed.

mod bounds;
mod kept_requests;
mod memory;
mod policy_sample;
mod request;

pub(crate) use self::bounds::keep_bounds;
pub(crate) use self::memory::SampleMemory;
pub(crate) use self::policy_sample::{PolicySample, SampledRequests};
pub(crate) use self::request::{SampledRequest, is_sampled};

#[cfg(test)]
mod tests;
