//! Strict YAML for files of settings: every problem at once, each with its place.
//!
//! The crates of Tollgate read policies, the domains of Envoy's service and tokens with it. It may change with every
//! version.
//!
//! ```text
//! Sources ─▶ Node ─────────────────────▶ sections (`section!`)
//! texts of   texts, lists and mappings,  typed values that may all be missing;
//! files      all with places             each problem is noted in Problems
//! ```
//!
//! A reader does not stop at the first problem: it notes each in [`Problems`] and continues. Texts stay as they are
//! written, so `1.10` is not the number 1.1, and messages do not show the values of variables, which may be secret.
//!
//! # Features
//!
//! | Feature | Adds |
//! |---|---|
//! | `reader` | everything but [`Position`] and [`Printable`] |

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "reader")]
mod error;
#[cfg(feature = "reader")]
mod hint;
#[cfg(feature = "reader")]
mod named_file;
#[cfg(feature = "reader")]
mod node;
#[cfg(feature = "reader")]
mod parse;
mod position;
mod printable;
#[cfg(feature = "reader")]
mod problem;
#[cfg(feature = "reader")]
mod read;
#[cfg(feature = "reader")]
mod section;
#[cfg(feature = "reader")]
mod sources;
#[cfg(feature = "reader")]
mod syntax;
#[cfg(feature = "reader")]
mod variables;

pub use self::position::Position;
pub use self::printable::Printable;
#[cfg(feature = "reader")]
pub use self::{
    error::ConfigError,
    hint::{Hint, nearest},
    named_file::FILE_SUFFIX,
    node::{MappingEntry, Node, NodeValue},
    parse::Extras,
    problem::{Advice, FilePlace, Problem, ProblemKind, ProblemPlaces, Problems},
    read::{At, FromNode, OneOrMany, WrittenText},
    sources::Sources,
    variables::VariableLookup,
};
