//! The layout of another system's keys, by name or as a template.

use thiserror::Error;
use tollgate_redis::{KeyLayout, LayoutError};

/// A text that is neither the name of a layout nor a template. The operator's fault.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum UnknownLayout {
    #[error(
        "unknown key layout: expected {}, or a template such as limit:{{user}}:{{window}}",
        KeyLayout::NAMED.map(|(name, _)| name).join(", ")
    )]
    Name,
    #[error(transparent)]
    Template(#[from] LayoutError),
}

/// Returns the layout of this name, or parses the template.
///
/// # Errors
///
/// If the text is neither.
pub(crate) fn read(text: &str) -> Result<KeyLayout, UnknownLayout> {
    if let Some((_, layout)) = KeyLayout::NAMED.into_iter().find(|(name, _)| *name == text) {
        return Ok(layout);
    }
    if !text.contains('{') {
        return Err(UnknownLayout::Name);
    }
    Ok(text.parse()?)
}
