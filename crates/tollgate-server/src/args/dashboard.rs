//! Flags about the live page.

use clap::ValueEnum;

use super::DASHBOARD;

/// Settings of the live page.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = DASHBOARD)]
pub struct DashboardArgs {
    /// Whether the admin listener serves a live page at /, and the operations that only this page needs
    #[arg(long, value_name = "ON_OR_OFF", env = "TOLLGATE_DASHBOARD", default_value = "on")]
    pub dashboard: DashboardChoice,
}

/// Whether there is a live page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DashboardChoice {
    /// There is.
    On,
    /// There is not.
    Off,
}
