//! Lints of clippy.
//!
//! What is built for tests is compiled by clippy in place of the compiler, which lints it on the way. Everything else is
//! only checked, always with the features that the dependencies have in the whole workspace: so they are checked once.

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::command::{CommandLine, command};

/// The middleware, whose features are checked one by one: another feature could supply what one lacks.
const MIDDLEWARE: &str = "tollgate-tower";

/// `tokio` comes with `axum` and with `tonic`, and `schema` needs nothing but a derive.
const SINGLE_FEATURES: [&str; 4] = ["axum", "jwt", "policy", "tonic"];

/// The service, which the image has without the commands that replay logs.
const SERVICE: &str = "tollgate-server";

/// The crates of the workspace.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Member>,
}

#[derive(Debug, Deserialize)]
struct Member {
    name: String,
    features: serde_json::Map<String, serde_json::Value>,
}

/// Returns this command of cargo, with crates of the workspace compiled by clippy, whose warnings are errors.
pub(crate) fn with_lints(cargo: CommandLine) -> CommandLine {
    // As `cargo clippy` does it; the words are divided as its arguments are.
    cargo
        .environment("RUSTC_WORKSPACE_WRAPPER", "clippy-driver")
        .environment("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__")
}

/// Lints what the build of the tests leaves out.
pub(crate) fn examples_and_benches() -> CommandLine {
    with_lints(command(
        "cargo check --locked --workspace --all-features --examples --bench lines --bench replay",
    ))
}

/// Lints the library and the middleware without features, each feature of the middleware alone, and the service
/// without the commands that replay logs.
pub(crate) fn features() -> Result<()> {
    let workspace = Metadata::read()?;
    run(command("cargo check --locked --package tollgate --no-default-features"))?;
    run(workspace.check(MIDDLEWARE, None))?;
    for feature in SINGLE_FEATURES {
        run(workspace.check(MIDDLEWARE, Some(feature)))?;
    }
    run(workspace.check(SERVICE, None).argument("--bins"))
}

fn run(cargo: CommandLine) -> Result<()> {
    let lints = with_lints(cargo);
    eprintln!("$ {lints}");
    lints.run()
}

impl Metadata {
    fn read() -> Result<Self> {
        let metadata = command("cargo metadata --locked --no-deps --format-version 1").read()?;
        serde_json::from_str(&metadata).context("cannot read what `cargo metadata` printed")
    }

    /// Returns the command that checks all libraries of the workspace: this package with at most one of its features, the
    /// others with all of theirs. Only what differs from earlier checks is checked again.
    fn check(&self, package: &str, feature: Option<&str>) -> CommandLine {
        let own = feature.map(|feature| format!("{package}/{feature}"));
        let others = self.packages.iter().filter(|member| member.name != package && member.name != SERVICE);
        let others = others.flat_map(|member| {
            member
                .features
                .keys()
                .filter(|name| *name != "default")
                .map(|name| format!("{}/{name}", member.name))
        });
        let features: Vec<String> = others.chain(own).collect();
        let check = command("cargo check --locked --workspace --no-default-features --lib");
        // The service enables features of the middleware.
        let check = if package == SERVICE { check } else { check.arguments(["--exclude", SERVICE]) };
        // An example has dependencies of its own, whose features are those of the tests.
        check.arguments(["--example", "in_process", "--features", &features.join(",")])
    }
}
