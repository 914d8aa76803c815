//! The script of shared records. It has nothing in common with those that count.

/// The text of the script.
pub(crate) const TEXT: &str = include_str!("lua/records.lua");

/// The SHA-1 of [`TEXT`], with which calls name it.
pub(crate) const SHA1: &str = "cbead881499605a63a9d96fa72f8e05e70775721";
