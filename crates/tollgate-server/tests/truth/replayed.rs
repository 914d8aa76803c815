//! What `tollgate simulate --json` says of a log.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::front::Log;
use crate::ledger::Figures;
use crate::support::tollgate;

/// Replays a log.
pub(crate) fn replay(policies: &str, log: &Log, more: &[&str]) -> Result<Value, String> {
    let mut simulate = tollgate();
    simulate.args(["simulate", policies, &log.file, "--json", "--show-keys"]).args(&log.arguments).args(more);
    let output = simulate.output().expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).map_err(|_| format!("{}: {error}", log.name))
}

/// The same figures as a ledger has. `name` makes of the name of a client the one in the ledger.
pub(crate) fn figures(report: &Value, name: impl Fn(&str) -> String) -> Figures {
    let number = |value: &Value| value.as_u64().expect("a number");
    let mut of = BTreeMap::new();
    for client in report["most_denied"].as_array().expect("a list") {
        let client_name = client["client"].as_str().expect("a name");
        *of.entry(name(client_name)).or_default() += number(&client["denied"]);
    }
    Figures {
        requests: number(&report["requests"]),
        denied: number(&report["denied"]),
        refused: number(&report["undecided"]),
        of,
    }
}
