//! The tests that proofs and planted bugs run, as commands of cargo.

use anyhow::Result;

use crate::command::{CommandLine, command};
use crate::proxies;

/// The models of the memory store's slots, in the orders that a test run has time for.
pub(crate) fn models() -> CommandLine {
    // Not `cfg(loom)`: tokio, which the testkit needs, cannot be built with that.
    command("cargo test --locked --profile models --package tollgate --lib")
        .environment("RUSTFLAGS", "--cfg tollgate_loom")
        .argument("models")
}

/// The tests that read files of policies a second time, optimized.
pub(crate) fn reading_tests() -> CommandLine {
    policy_tests("reading")
}

/// These tests of policies, optimized, and so are the regular expressions in files.
pub(crate) fn policy_tests(name: &str) -> CommandLine {
    command("cargo test --locked --profile models --package tollgate-policy --test")
        .argument(name)
        .arguments(["--config", "profile.models.package.regex-automata.opt-level=3"])
}

/// The tests that read files of envoyproxy/ratelimit a second time, optimized.
pub(crate) fn envoy_tests() -> CommandLine {
    command("cargo test --locked --profile models --package tollgate-envoy --test reading")
}

/// The unit tests of the library, optimized and with all anchors.
pub(crate) fn library_tests() -> CommandLine {
    command("cargo test --locked --profile models --package tollgate --features calendar --lib")
}

/// The same, where shuttle chooses at each atomic operation which thread goes on.
pub(crate) fn shuttle_tests() -> CommandLine {
    library_tests().environment("RUSTFLAGS", "--cfg tollgate_shuttle")
}

/// Some of the simulation, on one build: as many worlds as find the planted bugs, but for one that a test of its own
/// finds.
pub(crate) fn some_simulation() -> CommandLine {
    shuttle_tests().environment("TOLLGATE_SCHEDULES", "20000").arguments([
        "break_no_promise",
        "--",
        "--nocapture",
    ])
}

/// The tests with shared stores in trouble, optimized.
pub(crate) fn fault_tests() -> CommandLine {
    command("cargo test --locked --profile models --package tollgate-redis --test faults")
}

/// The tests with a network that lies, optimized.
pub(crate) fn network_tests() -> CommandLine {
    command("cargo test --locked --profile models --package tollgate-redis --test network")
}

/// The tests with shared stores in trouble without optimization: a bug is built once, and found within seconds.
pub(crate) fn planted_fault_tests() -> CommandLine {
    command("cargo test --locked --package tollgate-redis --test faults")
}

/// The tests of two services that share overrides. Without optimization: what they wait for is a clock.
pub(crate) fn override_tests() -> CommandLine {
    command("cargo test --locked --package tollgate-server --test overrides")
}

/// The tests with the logs of web servers.
pub(crate) fn truth_tests() -> Result<CommandLine> {
    proxies::with_web_servers(command("cargo test --locked --package tollgate-server --test truth"))
}
