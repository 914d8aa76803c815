//! The sections of a report, in the order of a terminal.

mod clients;
mod load;
mod policies;
mod routes;

use super::section::{Block, Section, Table};
use crate::report::Report;

/// The section with the changes against the baseline.
pub(super) const CHANGES: &str = "changes";

/// Returns all sections that have something to show.
pub(super) fn sections(report: &Report) -> Vec<Section> {
    let sections = [
        section("routes", routes::blocks(report)),
        section("policies", policies::blocks(report)),
        section("statuses", load::statuses(report).map(Block::Table).into_iter().collect()),
        section(CHANGES, policies::compared(report).map(Block::Table).into_iter().collect()),
        section("clients", clients::blocks(report)),
        section("peaks", load::peaks(report).map(Block::Table).into_iter().collect()),
    ];
    sections.into_iter().filter(|section| !section.blocks.is_empty()).collect()
}

/// A section without its empty tables.
fn section(id: &'static str, blocks: Vec<Block>) -> Section {
    let is_filled = |block: &Block| !matches!(block, Block::Table(Table { rows, .. }) if rows.is_empty());
    Section { id, blocks: blocks.into_iter().filter(is_filled).collect() }
}
