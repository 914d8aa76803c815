//! Why a request gets no answer.

use thiserror::Error;
use tollgate::StoreError;

/// Why there is no [`Response`](crate::Response). It is never a denial.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum DecideError {
    /// The request makes no sense: `INVALID_ARGUMENT`. The caller's fault; a retry does not help, and nothing was
    /// charged.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// The store could not count: `UNAVAILABLE`. A retry may help.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What is wrong with a request. Descriptors are counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidRequest {
    /// The domain is empty.
    #[error("the request has no domain")]
    NoDomain,
    /// There is nothing to decide on.
    #[error("the request has no descriptors")]
    NoDescriptors,
    /// There are more descriptors than a request may have.
    #[error("the request has {0} descriptors, and {max} are allowed", max = InvalidRequest::MAX_DESCRIPTORS)]
    TooManyDescriptors(usize),
    /// A descriptor is empty.
    #[error("descriptor {0} has no entries")]
    NoEntries(usize),
    /// An entry has no key.
    #[error("descriptor {0} has an entry without a key")]
    NoKey(usize),
    /// The limit of a descriptor has a unit that does not exist.
    #[error("the limit of descriptor {descriptor} has the unknown unit {unit}")]
    UnknownUnit {
        /// Which descriptor.
        descriptor: usize,
        /// The number that was sent.
        unit: i32,
    },
    /// A descriptor takes more units than any limit has.
    #[error("descriptor {0} has a hits_addend above {max}", max = u32::MAX)]
    TooManyHits(usize),
}

impl InvalidRequest {
    /// The most descriptors that a request may have.
    pub const MAX_DESCRIPTORS: usize = 256;
}
