//! Tests of the live page in a browser, against the service itself.

use std::path::Path;

use anyhow::Result;

use crate::clients;
use crate::command::{CommandLine, command};
use crate::node;
use crate::servers;
use crate::steps::CheckOutcome;
use crate::unpacked::NGINX;

/// The page's scripts, with a description of its types.
const SOURCES: &str = "crates/tollgate-server/page";

const FOLDER: &str = "crates/tollgate-server/tests/live_page";

/// The tests that a change must pass.
const SUITE: &str = "run.mjs";

/// Looks at every view in every width, for minutes.
const LONG_SUITE: &str = "long.mjs";

/// Runs the suite against the service that was built with the tests.
pub(crate) fn check() -> Result<CheckOutcome> {
    check_types()?;
    suite(SUITE, &clients::built_service()?)?.run()?;
    Ok(CheckOutcome::Passed)
}

/// Builds the service, and runs the suite and, unless it has to be quick, the long one.
pub(crate) fn prove(is_quick: bool) -> Result<()> {
    servers::require()?;
    node::install()?;
    let service = clients::service()?;
    check_types()?;
    suite(SUITE, &service)?.run()?;
    if is_quick {
        return Ok(());
    }
    let nginx = NGINX.program()?;
    suite(LONG_SUITE, &service)?.environment("TOLLGATE_NGINX", nginx.display().to_string()).run()
}

/// Lets the compiler of TypeScript check the scripts, which browsers read as they are.
fn check_types() -> Result<()> {
    let compiler = node::page_packages()?.join("node_modules/typescript/bin/tsc");
    command("node").argument(compiler).arguments(["--noEmit", "--project", SOURCES]).run()
}

fn suite(script: &str, service: &Path) -> Result<CommandLine> {
    Ok(command("node --test-reporter spec")
        .argument(Path::new(FOLDER).join(script))
        .environment("TOLLGATE_BINARY", service.display().to_string())
        .environment("TOLLGATE_NODE_PACKAGES", node::page_packages()?.display().to_string()))
}
