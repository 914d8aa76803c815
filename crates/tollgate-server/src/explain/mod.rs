//! What policies make of one request, with reasons: for `tollgate explain` and for the inspector of the live page.
//!
//! The policies themselves decide, in the code that every request runs through; this module only puts the outcome into
//! words. It asks no store for counters, so it does not know the usage.

mod report;
mod request;

pub(crate) use self::report::{
    ChargeReport, ExplainReport, InFlightReport, OverrideReport, OverridesReport, PathReport, PolicyReport,
    QuotasFrom, TrialReport, WindowReport,
};
pub(crate) use self::request::ExplainedRequest;
