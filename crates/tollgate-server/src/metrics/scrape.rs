//! Renders the answer of `/metrics`.

use std::sync::Arc;

use super::snapshot::MetricSources;
use super::table;
use super::text::TextFormat;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Scrape {
    figures: Arc<MetricSources>,
}

impl Scrape {
    pub(crate) const fn new(figures: Arc<MetricSources>) -> Self {
        Self { figures }
    }

    /// Returns the metrics as they are now.
    pub(crate) fn text(&self, format: TextFormat) -> String {
        format.write(table::families(&self.figures.snapshot()))
    }
}
