//! The live page and its data.

mod page;
