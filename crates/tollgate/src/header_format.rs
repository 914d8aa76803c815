//! Names of the ways to tell a client its limits.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Which headers tell a client its limits. `tollgate-tower` writes them; policies choose among them.
///
/// It is written as `draft-11`, `draft-06`, `x-ratelimit` or `none`.
///
/// ```
/// use tollgate::HeaderFormat;
///
/// assert_eq!("x-ratelimit".parse(), Ok(HeaderFormat::XRateLimit));
/// assert_eq!(HeaderFormat::default().to_string(), "draft-11");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum HeaderFormat {
    /// `RateLimit-Policy` and `RateLimit`, as draft-ietf-httpapi-ratelimit-headers-11 has them.
    #[default]
    Draft11,
    /// `RateLimit-Limit`, `-Remaining`, `-Reset` and `-Policy`, as version 06 has them: delta seconds.
    Draft06,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`, with the reset in seconds of the Unix epoch.
    XRateLimit,
    /// None.
    None,
}

/// No format has this name. The fault of whoever wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("expected draft-11, draft-06, x-ratelimit or none")]
pub struct UnknownFormat;

impl HeaderFormat {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Draft11, Self::Draft06, Self::XRateLimit, Self::None];

    /// As it is written in configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Draft11 => "draft-11",
            Self::Draft06 => "draft-06",
            Self::XRateLimit => "x-ratelimit",
            Self::None => "none",
        }
    }
}

impl FromStr for HeaderFormat {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        Self::ALL.into_iter().find(|format| format.name() == text).ok_or(UnknownFormat)
    }
}

impl fmt::Display for HeaderFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
