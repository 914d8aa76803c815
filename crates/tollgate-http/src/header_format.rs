//! The names of the formats of limit headers.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A format of the headers that inform clients about their limits. `tollgate-wire` writes them; policies choose among
/// them.
///
/// It is written as `draft-11`, `draft-06`, `x-ratelimit`, `github`, `kong`, `envoy` or `none`.
///
/// ```
/// use tollgate_http::HeaderFormat;
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
    /// The format of GitHub's API: like `x-ratelimit`, with `X-RateLimit-Used` and `-Resource`.
    GitHub,
    /// The format of Kong's rate limiting plugin: `X-RateLimit-Limit-Minute`, `X-RateLimit-Remaining-Minute` and so on
    /// for each unit of time, and `RateLimit-Limit`, `-Remaining` and `-Reset` in delta seconds.
    Kong,
    /// The format of Envoy's rate limit filter: `X-RateLimit-Limit` with all quotas, `-Remaining` and `-Reset` in delta
    /// seconds, and `X-Envoy-RateLimited` with a denial.
    Envoy,
    /// None.
    None,
}

/// No format has this name. The fault of its author.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("expected draft-11, draft-06, x-ratelimit, github, kong, envoy or none")]
pub struct UnknownFormat;

/// Formats of headers that are sent together, such as an old and a new one while clients migrate.
///
/// # Examples
///
/// ```
/// use tollgate_http::{HeaderFormat, HeaderFormats};
///
/// let both = HeaderFormats::new([HeaderFormat::Draft11, HeaderFormat::XRateLimit])?;
/// assert_eq!(both.to_string(), "[draft-11, x-ratelimit]");
///
/// let error = HeaderFormats::new([HeaderFormat::XRateLimit, HeaderFormat::Envoy]).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "x-ratelimit and envoy cannot be sent together: X-RateLimit-Limit is a number in one, \
///      and a number and a list of quotas in the other"
/// );
/// # Ok::<(), tollgate_http::HeaderFormatsError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct HeaderFormats {
    /// A bit for each format, in the order of [`HeaderFormat::ALL`].
    bits: u8,
}

/// Formats that cannot be sent together. The fault of their author.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HeaderFormatsError {
    /// There is no format. `none` is said explicitly.
    #[error("expected at least one header format, or none")]
    Empty,
    /// A format is listed twice.
    #[error("`{0}` is listed twice")]
    Twice(HeaderFormat),
    /// `none` is combined with another format.
    #[error("`none` cannot be combined with `{0}`")]
    NoneBeside(HeaderFormat),
    /// Two formats have a header of the same name with different meanings.
    #[error(
        "{first} and {second} cannot be sent together: {header} is {} in one, and {} in the other",
        .meanings[0], .meanings[1]
    )]
    SameHeader {
        /// The first format.
        first: HeaderFormat,
        /// The second.
        second: HeaderFormat,
        /// The name of the header.
        header: &'static str,
        /// Its meaning in each.
        meanings: [&'static str; 2],
    },
}

const NUMBER: &str = "a number";
const DELTA: &str = "in seconds from now";
const INSTANT: &str = "in seconds of the Unix epoch";

impl HeaderFormat {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Draft11, Self::Draft06, Self::XRateLimit, Self::GitHub, Self::Kong, Self::Envoy, Self::None];

    /// Returns its name in configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Draft11 => "draft-11",
            Self::Draft06 => "draft-06",
            Self::XRateLimit => "x-ratelimit",
            Self::GitHub => "github",
            Self::Kong => "kong",
            Self::Envoy => "envoy",
            Self::None => "none",
        }
    }

    /// Returns the names of the headers that it may have in addition to `Retry-After`, each with its meaning.
    #[must_use]
    pub const fn headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Draft11 => {
                &[("RateLimit-Policy", "a list of named quotas"), ("RateLimit", "a list of named quotas")]
            }
            Self::Draft06 => &[
                ("RateLimit-Limit", NUMBER),
                ("RateLimit-Remaining", NUMBER),
                ("RateLimit-Reset", DELTA),
                ("RateLimit-Policy", "a list of limits without names"),
            ],
            Self::XRateLimit => &[
                ("X-RateLimit-Limit", NUMBER),
                ("X-RateLimit-Remaining", NUMBER),
                ("X-RateLimit-Reset", INSTANT),
            ],
            Self::GitHub => &[
                ("X-RateLimit-Limit", NUMBER),
                ("X-RateLimit-Remaining", NUMBER),
                ("X-RateLimit-Reset", INSTANT),
                ("X-RateLimit-Used", NUMBER),
                ("X-RateLimit-Resource", "a name"),
            ],
            Self::Kong => &[
                ("RateLimit-Limit", NUMBER),
                ("RateLimit-Remaining", NUMBER),
                ("RateLimit-Reset", DELTA),
                ("X-RateLimit-Limit-Second", NUMBER),
                ("X-RateLimit-Remaining-Second", NUMBER),
                ("X-RateLimit-Limit-Minute", NUMBER),
                ("X-RateLimit-Remaining-Minute", NUMBER),
                ("X-RateLimit-Limit-Hour", NUMBER),
                ("X-RateLimit-Remaining-Hour", NUMBER),
                ("X-RateLimit-Limit-Day", NUMBER),
                ("X-RateLimit-Remaining-Day", NUMBER),
                ("X-RateLimit-Limit-Month", NUMBER),
                ("X-RateLimit-Remaining-Month", NUMBER),
                ("X-RateLimit-Limit-Year", NUMBER),
                ("X-RateLimit-Remaining-Year", NUMBER),
            ],
            Self::Envoy => &[
                ("X-RateLimit-Limit", "a number and a list of quotas"),
                ("X-RateLimit-Remaining", NUMBER),
                ("X-RateLimit-Reset", DELTA),
                ("X-Envoy-RateLimited", "true"),
            ],
            Self::None => &[],
        }
    }

    const fn bit(self) -> u8 {
        match self {
            Self::None => 0,
            format => 1 << format as u8,
        }
    }
}

impl HeaderFormats {
    /// These formats; [`HeaderFormat::None`] alone is none.
    ///
    /// # Errors
    ///
    /// If there is no format, one is listed twice, `none` is combined with another, or two have a header of the same
    /// name with different meanings.
    pub fn new(formats: impl IntoIterator<Item = HeaderFormat>) -> Result<Self, HeaderFormatsError> {
        let mut formats = formats.into_iter();
        let mut chosen = vec![formats.next().ok_or(HeaderFormatsError::Empty)?];
        for format in formats {
            chosen.iter().try_for_each(|earlier| goes_with(*earlier, format))?;
            chosen.push(format);
        }
        Ok(Self { bits: chosen.into_iter().map(HeaderFormat::bit).sum() })
    }

    /// Returns whether there are no headers.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.bits == 0
    }

    /// Returns whether this format is among them. [`HeaderFormat::None`] never is.
    #[must_use]
    #[inline]
    pub const fn has(self, format: HeaderFormat) -> bool {
        self.bits & format.bit() != 0
    }

    /// Returns the formats, in the order of [`HeaderFormat::ALL`].
    pub fn iter(self) -> impl Iterator<Item = HeaderFormat> {
        HeaderFormat::ALL.into_iter().filter(move |format| self.has(*format))
    }

    /// Returns the names of all their headers except `Retry-After`, each once.
    pub fn headers(self) -> impl Iterator<Item = &'static str> {
        self.iter().enumerate().flat_map(move |(place, format)| {
            let is_new = move |header: &&str| {
                let mut earlier = self.iter().take(place).flat_map(|earlier| earlier.headers());
                !earlier.any(|(name, _)| name == header)
            };
            format.headers().iter().map(|(name, _)| *name).filter(is_new)
        })
    }
}

fn goes_with(first: HeaderFormat, second: HeaderFormat) -> Result<(), HeaderFormatsError> {
    if first == second {
        return Err(HeaderFormatsError::Twice(first));
    }
    match (first, second) {
        (HeaderFormat::None, other) | (other, HeaderFormat::None) => {
            return Err(HeaderFormatsError::NoneBeside(other));
        }
        _ => {}
    }
    for (header, meaning) in first.headers() {
        let same = second.headers().iter().find(|(name, _)| name == header);
        if let Some((_, other)) = same.filter(|(_, other)| other != meaning) {
            let meanings = [*meaning, *other];
            return Err(HeaderFormatsError::SameHeader { first, second, header, meanings });
        }
    }
    Ok(())
}

impl FromStr for HeaderFormat {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        Self::ALL.into_iter().find(|format| format.name() == text).ok_or(UnknownFormat)
    }
}

impl From<HeaderFormat> for HeaderFormats {
    fn from(format: HeaderFormat) -> Self {
        Self { bits: format.bit() }
    }
}

/// `draft-11`.
impl Default for HeaderFormats {
    fn default() -> Self {
        HeaderFormat::default().into()
    }
}

impl fmt::Display for HeaderFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Their form in a file: the name of the only one, else a list.
impl fmt::Display for HeaderFormats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(HeaderFormat::name).collect();
        match names.as_slice() {
            [] => HeaderFormat::None.fmt(f),
            [only] => f.write_str(only),
            several => write!(f, "[{}]", several.join(", ")),
        }
    }
}

impl fmt::Debug for HeaderFormats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new format needs its meanings in the table; otherwise it could be combined with any other.
    #[test]
    fn formats_go_together_unless_they_share_a_header_of_different_meaning() {
        use HeaderFormat::{Draft06, Draft11, Envoy, GitHub, Kong, XRateLimit};
        let apart = [(Draft11, Draft06), (XRateLimit, Envoy), (GitHub, Envoy)];
        for first in HeaderFormat::ALL {
            for second in HeaderFormat::ALL {
                let is_apart = apart.contains(&(first, second)) || apart.contains(&(second, first));
                let is_odd = first == second || [first, second].contains(&HeaderFormat::None);
                assert_eq!(
                    HeaderFormats::new([first, second]).is_err(),
                    is_apart || is_odd,
                    "{first} {second}"
                );
            }
        }
        let all = HeaderFormats::new([GitHub, Kong, Draft11, XRateLimit]).unwrap();
        assert_eq!(all.to_string(), "[draft-11, x-ratelimit, github, kong]");
        let names: Vec<&str> = all.headers().collect();
        let once: std::collections::BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!((names.len(), names[2], names[5]), (once.len(), "X-RateLimit-Limit", "X-RateLimit-Used"));
    }

    #[test]
    fn none_is_said_alone() {
        assert_eq!(HeaderFormats::new([]), Err(HeaderFormatsError::Empty));
        let none = HeaderFormats::new([HeaderFormat::None]).unwrap();
        assert!(none.is_none() && none == HeaderFormat::None.into() && !none.has(HeaderFormat::None));
        assert_eq!(none.to_string(), "none");
        let beside = HeaderFormats::new([HeaderFormat::Kong, HeaderFormat::None]).unwrap_err();
        assert_eq!(beside.to_string(), "`none` cannot be combined with `kong`");
        let twice = HeaderFormats::new([HeaderFormat::Kong, HeaderFormat::Draft11, HeaderFormat::Kong]);
        assert_eq!(twice.unwrap_err().to_string(), "`kong` is listed twice");
    }
}
