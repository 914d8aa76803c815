//! Lints of clippy.
//!
//! What is built for tests is compiled by clippy in place of the compiler, which lints it on the way. Everything else
//! is only checked, always with the features that the dependencies have in the whole workspace: so they are checked
//! once.

use anyhow::Result;

use crate::command::{CommandLine, command};
use crate::workspace::Workspace;

/// The middleware, whose features are checked one by one: another feature could supply what one lacks.
const MIDDLEWARE: &str = "tollgate-tower";

/// `tokio` comes with `axum` and with `tonic`, and `schema` needs nothing but a derive.
const SINGLE_FEATURES: [&str; 4] = ["axum", "jwt", "policy", "tonic"];

/// The service, which the image has without the commands that replay logs.
const SERVICE: &str = "tollgate-server";

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
    let workspace = Workspace::read()?;
    run(command("cargo check --locked --package tollgate --no-default-features"))?;
    run(check(&workspace, MIDDLEWARE, None))?;
    for feature in SINGLE_FEATURES {
        run(check(&workspace, MIDDLEWARE, Some(feature)))?;
    }
    run(check(&workspace, SERVICE, None).argument("--bins"))
}

fn run(cargo: CommandLine) -> Result<()> {
    let lints = with_lints(cargo);
    eprintln!("$ {lints}");
    lints.run()
}

/// Returns the command that checks the libraries of the workspace: this package with at most one of its features, the
/// others with all of theirs. Only what differs from earlier checks is checked again.
fn check(workspace: &Workspace, package: &str, feature: Option<&str>) -> CommandLine {
    // Those that depend on it could enable its features.
    let dependents = workspace.with_dependents(&[package].into());
    let others = workspace.features(|name| !dependents.contains(name));
    let features: Vec<String> =
        others.into_iter().chain(feature.map(|feature| format!("{package}/{feature}"))).collect();
    let excluded = dependents.iter().filter(|name| **name != package).flat_map(|name| ["--exclude", *name]);
    command("cargo check --locked --workspace --no-default-features --lib")
        .arguments(excluded)
        // An example has dependencies of its own, whose features are those of the tests.
        .arguments(["--example", "in_process", "--features", &features.join(",")])
}
