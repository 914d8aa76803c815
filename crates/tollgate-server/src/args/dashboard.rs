//! Flags about the live page.

use std::path::PathBuf;

use clap::ValueEnum;

use super::DASHBOARD;
pub use crate::observe::public_url::PublicUrl;

/// Settings of the live page.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = DASHBOARD)]
pub struct DashboardArgs {
    /// Whether the admin listener serves a live page at /, and the operations that only this page needs
    #[arg(long, value_name = "ON_OR_OFF", env = "TOLLGATE_DASHBOARD", default_value = "on")]
    pub dashboard: DashboardChoice,

    /// URL under which operators reach the admin listener, such as `https://ops.example/tollgate`. Log lines about denials
    /// and outages then have a link to the view of the live page that shows more [default: none, so they have no links]
    #[arg(long, value_name = "URL", env = "TOLLGATE_PUBLIC_URL")]
    pub public_url: Option<PublicUrl>,

    /// How the live page names the keys that ask most: by hashes, by the keys themselves for principals with the scope
    /// `keys`, or not at all, so that none are counted and no requests are sampled
    #[arg(long, value_name = "NAMES", env = "TOLLGATE_TALKERS", default_value = "hashed")]
    pub talkers: TalkersChoice,

    /// File with the secret of these hashes, 64 hexadecimal digits, so that services that share it show the same ones
    /// [default: a random secret, another one at each start]
    #[arg(long, value_name = "FILE", env = "TOLLGATE_TALKERS_SECRET")]
    pub talkers_secret: Option<PathBuf>,
}

/// How talkers are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TalkersChoice {
    /// By keyed hashes.
    Hashed,
    /// For principals with the scope `keys`, by their keys as well.
    Plain,
    /// There are none.
    Off,
}

/// Whether there is a live page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DashboardChoice {
    /// There is.
    On,
    /// There is not.
    Off,
}
