//! The id of a hold.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The id of a hold: 128 bits that nobody else can guess. Its written form is 32 hexadecimal digits.
///
/// Its caller makes it before the first call, so that every call can be repeated. Whoever knows it can repeat the hold
/// without a charge: never take it from the request of an end user.
///
/// # Examples
///
/// ```
/// use tollgate::HoldId;
///
/// let id = HoldId::random();
/// assert_eq!(id.to_string().parse(), Ok(id));
/// assert_eq!(id.to_string().len(), 32);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HoldId([u8; 16]);

/// A text that is no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the id of a hold has 32 hexadecimal digits: 128 random bits")]
pub struct HoldIdError;

impl HoldId {
    /// Returns 128 bits of the operating system's random numbers.
    ///
    /// # Panics
    ///
    /// If the operating system has none, which no supported one does after its start.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a program without random numbers cannot go on")]
    pub fn random() -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the operating system has random numbers");
        Self(bytes)
    }

    /// Returns the id with these bits. They must be random.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the bits.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl FromStr for HoldId {
    type Err = HoldIdError;

    /// Reads 32 hexadecimal digits, in either case.
    fn from_str(text: &str) -> Result<Self, HoldIdError> {
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(HoldIdError);
        }
        let bits = u128::from_str_radix(text, 16).map_err(|_| HoldIdError)?;
        Ok(Self(bits.to_be_bytes()))
    }
}

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// Without the bits: whoever reads them in a log could repeat the hold.
impl fmt::Debug for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HoldId(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_reads_back_and_nothing_else_is_an_id() {
        let text = "00ff00000000000000000000000000a1";
        let id: HoldId = text.parse().unwrap();
        assert_eq!(id.to_string(), text);
        assert_eq!("00FF00000000000000000000000000A1".parse(), Ok(id));
        for wrong in ["", "1", "+0ff00000000000000000000000000a1", "00ff00000000000000000000000000a1 "] {
            assert_eq!(wrong.parse::<HoldId>(), Err(HoldIdError), "{wrong:?}");
        }
        assert_ne!(HoldId::random(), HoldId::random());
    }
}
