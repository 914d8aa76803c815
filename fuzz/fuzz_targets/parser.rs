//! Any text as a file of policies: what has to hold of it is in the tests of the crate, which try it on fewer texts.

#![no_main]

#[path = "../../crates/tollgate-policy/tests/robust/holds.rs"]
mod holds;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| holds::holds(text));
