//! The script of shared records. It has nothing in common with those that count.

/// The text of the script.
pub(crate) const TEXT: &str = include_str!("lua/records.lua");

/// The SHA-1 of [`TEXT`], with which calls name it.
pub(crate) const SHA1: &str = "c7d2e99d3b4bf32dbf8ffd0869297b5800ddb969";
