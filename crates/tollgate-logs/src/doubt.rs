//! Logs whose first lines do not say for certain who the client is.

use std::fmt;

use crate::summary::Example;

/// A line with several texts that may be the client, or with one in an unexpected place, and what it may mean.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Doubt {
    /// The line.
    pub line: Example,
    /// What it may mean. If there is none, no flag was found that reads the log.
    pub readings: Vec<Reading>,
}

/// One meaning of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reading {
    /// Where the client stands: `the 2nd address`, or the name of a field.
    pub place: String,
    /// The client of the line.
    pub client: Example,
    /// How many different clients there are,
    pub different: usize,
    /// in so many lines.
    pub lines: usize,
    /// The flags that choose this reading, as they are typed in a shell.
    pub flags: String,
}

impl Reading {
    /// What stands in [`Reading::flags`] for the networks of trusted proxies, which only the user knows.
    pub const NETWORKS: &str = "NETWORKS";
}

/// Without the clients themselves.
impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, readings } = self;
        match readings.as_slice() {
            [] => write!(
                f,
                "line {} has no single address in the place of the client; write the format out (nginx: --format \
                 'log_format ...', Apache: --format 'LogFormat ...')",
                line.line
            )?,
            [one] if one.flags.contains(Reading::NETWORKS) => write!(
                f,
                "line {} has a list of addresses in the place of the client; a flag must name the networks of the proxies",
                line.line
            )?,
            [_] => write!(
                f,
                "line {} has its client in an unexpected place; a flag must confirm that it is the client",
                line.line
            )?,
            _ => write!(
                f,
                "line {} does not show for certain who its client is; a flag must choose one of these",
                line.line
            )?,
        }
        for Reading { place, different, lines, flags, .. } in readings {
            write!(f, "\n  {place} ({different} different in {lines} lines):\n    {flags}")?;
        }
        if readings.iter().any(|reading| reading.flags.contains(Reading::NETWORKS)) {
            write!(
                f,
                "\n  {} are those of your own proxies, such as 10.0.0.0/8,192.0.2.1",
                Reading::NETWORKS
            )?;
        }
        write!(f, "\n  the shape of the line: {}", line.shape())
    }
}
