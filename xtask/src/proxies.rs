//! Real proxies for the tests in `crates/tollgate-server/tests/gateway`.

use anyhow::Result;

use crate::command::CommandLine;
use crate::steps::Checked;
use crate::tools;
use crate::unpacked::{CADDY, HAPROXY, NGINX};

/// Makes sure that all of them are there.
pub(crate) fn install() -> Result<Checked> {
    environment().map(|_| Checked::Passed)
}

/// Returns these tests, told where the proxies are.
pub(crate) fn told(tests: CommandLine) -> Result<CommandLine> {
    let tests = environment()?.into_iter().fold(tests, |tests, (name, path)| tests.environment(name, path));
    Ok(tests.arguments(["--ignored", "--nocapture"]))
}

fn environment() -> Result<[(&'static str, String); 6]> {
    Ok([
        ("TOLLGATE_ENVOY", tools::envoy()?.display().to_string()),
        ("TOLLGATE_TRAEFIK", tools::traefik()?.display().to_string()),
        ("TOLLGATE_NGINX", NGINX.program()?.display().to_string()),
        ("TOLLGATE_CADDY", CADDY.program()?.display().to_string()),
        ("TOLLGATE_HAPROXY", HAPROXY.program()?.display().to_string()),
        ("TOLLGATE_HAPROXY_LIBRARIES", HAPROXY.libraries()?),
    ])
}
