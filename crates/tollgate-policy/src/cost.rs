//! The cost of a request, in units.

use thiserror::Error;

use crate::{Texts, UnknownValue, View};

/// The cost of a request: the units that it uses of a policy's quotas.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Cost {
    /// The units that the caller requests.
    #[default]
    Asked,
    /// Always this many.
    Fixed(u32),
    /// The attribute's value.
    Attribute(CostAttribute),
}

/// A cost from an attribute, with its bounds.
///
/// A client that can choose the attribute chooses its cost: at least the [minimum](Self::with_min), which is 1 by
/// default. That still bounds its requests, so unlike a [limit](crate::LimitAttribute), a cost need not be verified.
///
/// # Examples
///
/// ```
/// use tollgate_policy::{Attributes, Cost, CostAttribute, OnMissingCost};
///
/// let tokens = CostAttribute::new("tokens", 32_000).with_on_missing(OnMissingCost::Fixed(1_000));
/// let cost = Cost::from(tokens);
/// let of = |pairs: &[(&str, &str)]| cost.of(&pairs.iter().copied().collect::<Attributes<'_>>(), 1);
/// assert_eq!(of(&[("tokens", "250")]), Ok(250));
/// assert_eq!(of(&[("tokens", "0")]), Ok(1));
/// assert_eq!(of(&[]), Ok(1_000));
/// assert!(of(&[("tokens", "32001")]).is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostAttribute {
    pub(crate) name: Box<str>,
    pub(crate) min: u32,
    pub(crate) max: u32,
    pub(crate) on_missing: OnMissingCost,
}

/// The cost if the attribute is missing or not a whole number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnMissingCost {
    /// It is the caller's error.
    #[default]
    Error,
    /// The units that the caller requests.
    Asked,
    /// This many.
    Fixed(u32),
}

/// An invalid cost. The caller's fault.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CostError {
    /// The attribute is missing.
    #[error("the attribute `{0}`, which sets the cost, is missing")]
    Missing(Box<str>),
    /// The attribute is not a whole number.
    #[error("the attribute `{0}` sets the cost and must be a whole number")]
    NoNumber(Box<str>),
    /// The attribute is above the policy's maximum. It is an error and not cut down, because then less would be counted
    /// than was used.
    #[error("the attribute `{name}` sets the cost and may be at most {max}")]
    AboveMaximum {
        /// The attribute's name.
        name: Box<str>,
        /// The policy's maximum.
        max: u32,
    },
    /// The value of the attribute is not known.
    #[error("the attribute `{name}` sets the cost, but {unknown}")]
    Unknown {
        /// The attribute's name.
        name: Box<str>,
        /// Why it is not known.
        unknown: UnknownValue,
    },
}

impl CostError {
    /// Returns the attribute that is wrong.
    #[must_use]
    pub fn attribute(&self) -> &str {
        match self {
            Self::Missing(name)
            | Self::NoNumber(name)
            | Self::AboveMaximum { name, .. }
            | Self::Unknown { name, .. } => name,
        }
    }
}

impl Cost {
    /// Returns whether a request costs the units that its caller gives.
    pub(crate) fn is_asked<V: View>(&self, view: &V) -> bool {
        match self {
            Self::Asked => true,
            Self::Fixed(_) => false,
            Self::Attribute(attribute) => {
                let is_missing = |value| number(value).is_none();
                attribute.on_missing == OnMissingCost::Asked
                    && view.value(&attribute.name).is_ok_and(is_missing)
            }
        }
    }

    /// Returns the cost of a request whose caller gives `asked`. Cost 0 only peeks, so the cost is 0 then, whatever the
    /// policy.
    ///
    /// # Errors
    ///
    /// If the attribute that sets it cannot be a cost, or its value is not known.
    pub fn of<V: View>(&self, view: &V, asked: u32) -> Result<u32, CostError> {
        match self {
            _ if asked == 0 => Ok(0),
            Self::Asked => Ok(asked),
            Self::Fixed(cost) => Ok(*cost),
            Self::Attribute(attribute) => attribute.cost(view, asked),
        }
    }
}

impl CostAttribute {
    /// Creates a cost from the attribute of this name, which may be at most `max`; more is a caller error. Less than 1
    /// counts as 1.
    #[must_use]
    pub fn new(name: &str, max: u32) -> Self {
        Self { name: name.into(), min: 1, max, on_missing: OnMissingCost::Error }
    }

    /// Sets the minimum cost; if the attribute is less, the request costs this much. With 0, a request whose attribute
    /// is 0 costs nothing and is answered like a peek.
    #[must_use]
    pub fn with_min(self, min: u32) -> Self {
        Self { min, ..self }
    }

    /// Sets the cost of a request whose attribute is missing or not a whole number.
    #[must_use]
    pub fn with_on_missing(self, on_missing: OnMissingCost) -> Self {
        Self { on_missing, ..self }
    }

    /// Returns the attribute's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the minimum cost.
    #[must_use]
    pub const fn min(&self) -> u32 {
        self.min
    }

    /// Returns the maximum value of the attribute.
    #[must_use]
    pub const fn max(&self) -> u32 {
        self.max
    }

    /// Returns the cost of a request without the attribute.
    #[must_use]
    pub const fn on_missing(&self) -> OnMissingCost {
        self.on_missing
    }

    fn cost<V: View>(&self, view: &V, asked: u32) -> Result<u32, CostError> {
        let name = || self.name.clone();
        let value = view.value(&self.name).map_err(|unknown| CostError::Unknown { name: name(), unknown })?;
        match (number(value), self.on_missing) {
            // It is an error and not cut down, because then less would be counted than was used.
            (Some(cost), _) if cost > u64::from(self.max) => {
                Err(CostError::AboveMaximum { name: name(), max: self.max })
            }
            (Some(cost), _) => Ok((cost as u32).max(self.min)),
            (None, OnMissingCost::Asked) => Ok(asked),
            (None, OnMissingCost::Fixed(cost)) => Ok(cost),
            (None, OnMissingCost::Error) if value.is_none() => Err(CostError::Missing(name())),
            (None, OnMissingCost::Error) => Err(CostError::NoNumber(name())),
        }
    }
}

impl From<CostAttribute> for Cost {
    fn from(attribute: CostAttribute) -> Self {
        Self::Attribute(attribute)
    }
}

/// Returns the attribute's value as a whole number. No list is one.
pub(crate) fn number(value: Option<Texts<'_>>) -> Option<u64> {
    value.and_then(Texts::text).and_then(whole_number)
}

/// Parses digits only; a number that does not fit becomes the largest one, which is above every maximum.
pub(crate) fn whole_number(text: &str) -> Option<u64> {
    let is_whole = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_whole.then(|| text.parse().unwrap_or(u64::MAX))
}
