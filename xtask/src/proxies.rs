//! Real proxies and web servers for the tests in `crates/tollgate-server/tests/gateway` and `truth`.

use std::path::PathBuf;

use anyhow::Result;

use crate::command::{CommandLine, command, target_directory};
use crate::steps::CheckOutcome;
use crate::system;
use crate::tools;
use crate::unpacked::{APACHE, CADDY, FAKETIME, HAPROXY, NGINX};

/// The tests that need a control plane. It takes longer to build than they take.
pub(crate) const OVER_XDS: &str = "xds::";

/// Makes sure that all of them are there.
pub(crate) fn install() -> Result<CheckOutcome> {
    environment().map(|_| CheckOutcome::Passed)
}

/// Returns these tests with the places of the proxies.
pub(crate) fn with_proxies(tests: CommandLine) -> Result<CommandLine> {
    let tests = environment()?.into_iter().fold(tests, |tests, (name, path)| tests.environment(name, path));
    Ok(tests.arguments(["--ignored", "--nocapture"]))
}

/// Returns these tests with the places of Envoy and of go-control-plane's server, which sends limits over xDS.
pub(crate) fn with_control_plane(tests: CommandLine) -> Result<CommandLine> {
    let tests = tests.environment("TOLLGATE_ENVOY", tools::envoy()?.display().to_string());
    Ok(tests.environment("TOLLGATE_CONTROL_PLANE", control_plane()?.display().to_string()))
}

/// Builds the control plane and returns its path. Its module's sums say which content every dependency has.
fn control_plane() -> Result<PathBuf> {
    system::GO.require()?;
    let path = target_directory()?.join("control_plane");
    command("go build -mod=readonly -o")
        .argument(&path)
        .argument(".")
        .directory("crates/tollgate-server/tests/control_plane".into())
        .run()?;
    Ok(path)
}

/// Returns these tests with the places of the servers whose logs they read, and of the library that moves their clocks.
pub(crate) fn with_web_servers(tests: CommandLine) -> Result<CommandLine> {
    let faketime = FAKETIME.library("faketime/libfaketimeMT.so.1")?;
    let more = [
        ("TOLLGATE_APACHE", APACHE.program()?.display().to_string()),
        ("TOLLGATE_APACHE_LIBRARIES", APACHE.libraries()?),
        ("TOLLGATE_FAKETIME", faketime.display().to_string()),
    ];
    let all = of_debian()?.into_iter().chain(more);
    Ok(all.fold(tests, |tests, (name, path)| tests.environment(name, path)))
}

fn environment() -> Result<Vec<(&'static str, String)>> {
    let mut all = vec![
        ("TOLLGATE_ENVOY", tools::envoy()?.display().to_string()),
        ("TOLLGATE_TRAEFIK", tools::traefik()?.display().to_string()),
    ];
    all.extend(of_debian()?);
    Ok(all)
}

fn of_debian() -> Result<[(&'static str, String); 4]> {
    Ok([
        ("TOLLGATE_NGINX", NGINX.program()?.display().to_string()),
        ("TOLLGATE_CADDY", CADDY.program()?.display().to_string()),
        ("TOLLGATE_HAPROXY", HAPROXY.program()?.display().to_string()),
        ("TOLLGATE_HAPROXY_LIBRARIES", HAPROXY.libraries()?),
    ])
}
