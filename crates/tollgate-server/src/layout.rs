//! Keys as another system writes them: the layout that a name or a template means.

use thiserror::Error;
use tollgate_redis::{KeyLayout, LayoutError};

/// A text that means no layout of keys. The fault of whoever wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum UnknownLayout {
    #[error(
        "unknown layout of keys: expected {}, or a template such as limit:{{user}}:{{window}}",
        KeyLayout::NAMED.map(|(name, _)| name).join(", ")
    )]
    Name,
    #[error(transparent)]
    Template(#[from] LayoutError),
}

/// The layout of this name, or the template.
///
/// # Errors
///
/// If it is neither.
pub(crate) fn read(text: &str) -> Result<KeyLayout, UnknownLayout> {
    if let Some((_, layout)) = KeyLayout::NAMED.into_iter().find(|(name, _)| *name == text) {
        return Ok(layout);
    }
    if !text.contains('{') {
        return Err(UnknownLayout::Name);
    }
    Ok(text.parse()?)
}
