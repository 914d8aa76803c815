//! Flags about the live page.

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
}

/// Whether there is a live page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DashboardChoice {
    /// There is.
    On,
    /// There is not.
    Off,
}
