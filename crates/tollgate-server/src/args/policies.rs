//! Flags of the commands that read a policy file and need no service.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use tollgate::Timestamp;

use super::{ClusterArgs, SHARED_STORE, Secret, StoreArgs, StoreKeyArgs, value};

/// Flags of `tollgate check-config`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Warnings have stable codes, and change the exit status only with --deny-warnings. They are \
                  reported only if there are no errors. Whether a store can count the policies depends on its URL, \
                  which comes from the same place as for serve: --store, else TOLLGATE_STORE, else the file."
)]
#[command(group = clap::ArgGroup::new("shared").args(["store", "files"]).multiple(true))]
pub struct CheckConfigArgs {
    /// Policy files and folders of them, checked together, as `serve` reads them
    #[arg(value_name = "PATH", required = true)]
    pub files: Vec<PathBuf>,

    /// Exit with status 1 if there are warnings
    #[arg(long)]
    pub deny_warnings: bool,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,

    /// The store that has to count the policies, such as redis://HOST or redis+cluster://HOST; no connection is made
    /// [default: that of the file, else in memory]
    #[arg(long, value_name = "URL", env = "TOLLGATE_STORE", hide_env_values = true)]
    #[arg(help_heading = SHARED_STORE, value_parser = value::secret)]
    pub store: Option<Secret>,

    /// The layout of its keys.
    #[command(flatten)]
    pub keys: StoreKeyArgs,

    /// The settings for a Cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Flags of `tollgate explain`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The command contacts no service and counts nothing, so it does not know how much is used; \
                  `tollgate check --peek` asks a service. Overrides of a running service are known only with --store or \
                  --state-dir, which are read once."
)]
#[command(group = clap::ArgGroup::new("shared").args(["store", "file"]).multiple(true))]
pub struct ExplainArgs {
    /// The policy file, or a folder of policy files
    #[arg(value_name = "PATH")]
    pub file: PathBuf,

    /// Attributes of the request, such as user=alice path=/search; a repeated name makes a list
    #[arg(value_name = "NAME=VALUE", value_parser = value::attribute)]
    pub attributes: Vec<(String, String)>,

    /// Units that the caller requests
    #[arg(long, value_name = "UNITS", default_value = "1")]
    #[arg(value_parser = value::cost, allow_negative_numbers = true)]
    pub cost: u32,

    /// The time of the request, such as 2026-11-21T16:00:00Z or 2026-11-21T17:00:00+01:00 [default: now]
    #[arg(long, value_name = "TIME", value_parser = value::instant, allow_negative_numbers = true)]
    pub at: Option<Timestamp>,

    /// Maximum length of an attribute's value, as for `serve`. A request with a longer one is refused
    #[arg(long, value_name = "BYTES", default_value = "1024")]
    #[arg(value_parser = value::positive::<NonZeroUsize>, allow_negative_numbers = true)]
    pub max_attribute_bytes: NonZeroUsize,

    /// Explain the request under the overrides in this folder, which a service may be using [default: under none]
    #[arg(long, value_name = "FOLDER", conflicts_with = "store")]
    pub state_dir: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,

    /// Explain the request under the overrides in this store, such as redis://HOST or redis+cluster://HOST
    /// [default: under none]
    #[arg(long, value_name = "URL", value_parser = value::secret, help_heading = SHARED_STORE)]
    pub store: Option<Secret>,

    /// The settings for its connections.
    #[command(flatten)]
    pub store_args: StoreArgs,
}
