//! Flags about overrides that are changed while the service runs.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;

use super::{OVERRIDES, value};

/// Settings of overrides.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = OVERRIDES)]
pub struct OverrideArgs {
    /// Folder that keeps the overrides if counters are in memory; a shared store keeps them itself. It is created if its
    /// parent exists, and belongs to this process alone [default: none, so overrides cannot be changed]
    #[arg(long, value_name = "FOLDER", env = "TOLLGATE_STATE_DIR", conflicts_with = "store")]
    pub state_dir: Option<PathBuf>,

    /// Start although the overrides in --state-dir are damaged, with those that can be read. The log names what is lost,
    /// and the damaged file stays next to the new one
    #[arg(long, env = "TOLLGATE_RECOVER", value_parser = BoolishValueParser::new())]
    #[arg(requires_ifs = super::TRUE.map(|word| (word, "state_dir")))]
    pub recover: bool,

    /// Maximum number of overrides; a change that would exceed it is refused. With 0, there are none, and they are not
    /// read from the store [default: 1000000]
    #[arg(long, value_name = "COUNT", env = "TOLLGATE_MAX_OVERRIDES", value_parser = value::max_overrides)]
    #[arg(allow_negative_numbers = true)]
    pub max_overrides: Option<u32>,
}
