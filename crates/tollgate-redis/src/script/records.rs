//! The script of shared records. It has nothing in common with those that count.

/// The text of the script.
pub(crate) const TEXT: &str = include_str!("lua/records.lua");

/// The SHA-1 of [`TEXT`], with which calls name it.
pub(crate) const SHA1: &str = "d5ec4b4805545c31f8cad01bd5346f8d2cab2f96";
