//! Why a request gets no answer.

use thiserror::Error;
use tollgate::StoreError;

use crate::Unit;

/// The reason why there is no [`Response`](crate::Response). It is never a denial.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum DecideError {
    /// The request is invalid: `INVALID_ARGUMENT`. The caller's fault; a retry does not help, and nothing was
    /// charged.
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    /// The store could not count: `UNAVAILABLE`. A retry may help.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An invalid request. Descriptors are counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidRequest {
    /// The domain is empty.
    #[error("the request has no domain")]
    NoDomain,
    /// There is nothing to decide.
    #[error("the request has no descriptors")]
    NoDescriptors,
    /// There are more descriptors than a request may have.
    #[error("the request has {0} descriptors, and {max} are allowed", max = InvalidRequest::MAX_DESCRIPTORS)]
    TooManyDescriptors(usize),
    /// A descriptor is empty, where attributes are counted. The files of envoyproxy/ratelimit have no limit for it.
    #[error("descriptor {0} has no entries")]
    NoEntries(usize),
    /// The limit of a descriptor has a unit that does not exist.
    #[error("the limit of descriptor {descriptor} has the unknown unit {unit}")]
    UnknownUnit {
        /// Which descriptor.
        descriptor: usize,
        /// The number that was sent.
        unit: i32,
    },
    /// A descriptor costs more units than any limit has.
    #[error("descriptor {0} has a hits_addend above {max}", max = u32::MAX)]
    TooManyHits(usize),
}

impl InvalidRequest {
    /// The maximum number of descriptors in a request.
    pub const MAX_DESCRIPTORS: usize = 256;

    /// Returns the field that is wrong, such as `descriptors[0].entries`.
    #[must_use]
    pub fn field(&self) -> String {
        let of = |number: usize, field| format!("descriptors[{}].{field}", number.saturating_sub(1));
        match *self {
            Self::NoDomain => "domain".to_owned(),
            Self::NoDescriptors | Self::TooManyDescriptors(_) => "descriptors".to_owned(),
            Self::NoEntries(number) => of(number, "entries"),
            Self::UnknownUnit { descriptor, .. } => of(descriptor, "limit"),
            Self::TooManyHits(number) => of(number, "hits_addend"),
        }
    }

    /// Checks the requirements for all requests to the service, whatever decides them.
    ///
    /// # Errors
    ///
    /// If there is no domain, or if there are no or too many descriptors.
    pub const fn check(domain: &str, descriptors: usize) -> Result<(), Self> {
        match descriptors {
            _ if domain.is_empty() => Err(Self::NoDomain),
            0 => Err(Self::NoDescriptors),
            1..=Self::MAX_DESCRIPTORS => Ok(()),
            more => Err(Self::TooManyDescriptors(more)),
        }
    }

    /// Returns the cost of the descriptor of this number: its own `hits_addend`, or that of the request, where 0 means
    /// 1.
    ///
    /// # Errors
    ///
    /// If it costs more than any limit has.
    pub fn units(number: usize, own: Option<u64>, request_hits: u32) -> Result<u32, Self> {
        own.map_or(Ok(request_hits.max(1)), |hits| u32::try_from(hits).map_err(|_| Self::TooManyHits(number)))
    }

    /// Returns the unit of the limit that the descriptor of this number brings.
    ///
    /// # Errors
    ///
    /// If there is no such unit.
    pub fn unit(number: usize, unit: i32) -> Result<Unit, Self> {
        Unit::from_number(unit).ok_or(Self::UnknownUnit { descriptor: number, unit })
    }
}
