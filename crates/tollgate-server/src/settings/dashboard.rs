//! The live page.

use crate::args::{DashboardArgs, DashboardChoice};

/// The settings of the live page, if there is one.
#[derive(Debug)]
pub(crate) struct DashboardSettings {}

impl DashboardSettings {
    pub(super) fn new(args: &DashboardArgs) -> Option<Self> {
        let DashboardArgs { dashboard } = args;
        (*dashboard == DashboardChoice::On).then_some(Self {})
    }
}
