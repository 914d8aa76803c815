//! How many units a request takes.

use thiserror::Error;

use crate::{Unknown, View};

/// How many units a request takes of a policy's quotas.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Cost {
    /// As many as the caller says.
    #[default]
    Asked,
    /// Always as many.
    Fixed(u32),
    /// As many as an attribute says, at most this many. Without the attribute, as many as the caller says.
    Attribute {
        /// The attribute's name.
        name: Box<str>,
        /// The most that it may say; more is the caller's error.
        max: u32,
    },
}

/// A request whose cost cannot be. The caller's fault.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CostError {
    /// The attribute is no whole number.
    #[error("the attribute `{0}` says the cost and must be a whole number")]
    NoNumber(Box<str>),
    /// The attribute says more than the policy takes. It is an error and not cut down, because then less would be
    /// counted than was used.
    #[error("the attribute `{name}` says the cost and may be at most {max}")]
    AboveMaximum {
        /// The attribute's name.
        name: Box<str>,
        /// The policy's maximum.
        max: u32,
    },
    /// The value of the attribute is not known.
    #[error("the attribute `{name}` says the cost and {unknown}")]
    Unknown {
        /// The attribute's name.
        name: Box<str>,
        /// Why it is not known.
        unknown: Unknown,
    },
}

impl CostError {
    /// The attribute that is wrong.
    #[must_use]
    pub fn attribute(&self) -> &str {
        match self {
            Self::NoNumber(name) | Self::AboveMaximum { name, .. } | Self::Unknown { name, .. } => name,
        }
    }
}

impl Cost {
    /// Whether a request costs as many units as its caller says.
    pub(crate) fn is_asked<V: View>(&self, view: &V) -> bool {
        match self {
            Self::Asked => true,
            Self::Fixed(_) => false,
            Self::Attribute { name, .. } => view.value(name) == Ok(None),
        }
    }

    /// The cost of a request for which the caller says `asked`. Cost 0 only looks, so then it is 0 whatever a
    /// request would take.
    ///
    /// # Errors
    ///
    /// If the attribute that says it cannot be a cost, or its value is not known.
    pub fn of<V: View>(&self, view: &V, asked: u32) -> Result<u32, CostError> {
        match self {
            _ if asked == 0 => Ok(0),
            Self::Asked => Ok(asked),
            Self::Fixed(cost) => Ok(*cost),
            Self::Attribute { name, max } => match view.value(name) {
                Err(unknown) => Err(CostError::Unknown { name: name.clone(), unknown }),
                Ok(None) => Ok(asked),
                Ok(Some(text)) => {
                    match whole_number(text).ok_or_else(|| CostError::NoNumber(name.clone()))? {
                        cost if cost <= u64::from(*max) => Ok(cost as u32),
                        _ => Err(CostError::AboveMaximum { name: name.clone(), max: *max }),
                    }
                }
            },
        }
    }
}

/// Digits alone; what does not fit is as large as can be, and so above every maximum.
pub(crate) fn whole_number(text: &str) -> Option<u64> {
    let is_whole = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_whole.then(|| text.parse().unwrap_or(u64::MAX))
}
