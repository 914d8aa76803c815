//! The rules of a layer, and those that apply to a request.

use std::sync::Arc;

use crate::gate::{Gate, Settings};
use crate::head::Head;
use crate::route::RouteTable;
use crate::warning::SetupWarning;

/// All rules of a layer; `None` where nothing is counted.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(crate) routes: RouteTable<Arc<Gate>>,
    pub(crate) others: Option<Arc<Gate>>,
    /// Whether paths are not enough in place of matched routes.
    pub(crate) needs_route: Option<Arc<Settings>>,
}

impl Limits {
    /// Returns the rule for this request, and another one if its path has two readings with different rules. `None` if
    /// nothing counts it.
    pub(crate) fn gates(&self, head: Head<'_>) -> Option<(&Arc<Gate>, Option<&Arc<Gate>>)> {
        if let Some(settings) = &self.needs_route
            && head.route().is_none()
        {
            settings.warnings.give(SetupWarning::NoMatchedRoute);
        }
        let gate_of = |found: Option<_>| found.unwrap_or(&self.others).as_ref();
        let [normalized, sent] = self.routes.find(head);
        match (gate_of(normalized), gate_of(sent)) {
            (Some(one), Some(other)) if !Arc::ptr_eq(one, other) && !one.charges_like(other) => {
                Some((one, Some(other)))
            }
            (normalized, sent) => Some((normalized.or(sent)?, None)),
        }
    }
}
