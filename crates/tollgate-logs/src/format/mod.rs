//! Formats of logs.

use std::str::FromStr;

use thiserror::Error;

/// A format of logs: one that is known by its name, or one that a user pastes from the server's configuration.
///
/// ```
/// use tollgate_logs::Format;
///
/// let named: Format = "nginx-combined".parse()?;
/// let pasted: Format = r#"log_format main '$remote_addr [$time_local] "$request" $status';"#.parse()?;
/// assert!("nginx-combinde".parse::<Format>().is_err());
/// # Ok::<(), tollgate_logs::FormatError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Format {
    name: String,
}

/// A format that is not known, or cannot be read. The user's fault.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FormatError {
    /// No format has this name.
    #[error("unknown format {0:?}")]
    Unknown(String),
}

impl Format {
    /// Its name: `nginx-combined`, or `log_format NAME` of one that was pasted.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        Err(FormatError::Unknown(text.to_owned()))
    }
}
