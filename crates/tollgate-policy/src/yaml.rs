//! The reader of YAML, for crates of this workspace that read other files than those of policies. It may change with
//! every version.

pub use crate::file::{At, Entry, Node, NodeValue, Read};
pub use crate::problem::Problems;
pub use crate::section;
