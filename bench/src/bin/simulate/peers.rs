//! The other programs, and what each says that the policies deny.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::log::Form;

/// What `tollgate simulate --json` says.
pub(crate) struct Report {
    pub(crate) clients: u64,
    pub(crate) denied: u64,
}

/// GoAccess, with no other panel than the one that counts requests by client.
pub(crate) fn goaccess(log: &Path) -> Command {
    const PANELS: [&str; 18] = [
        "VISITORS",
        "REQUESTS",
        "REQUESTS_STATIC",
        "NOT_FOUND",
        "OS",
        "BROWSERS",
        "VISIT_TIMES",
        "VIRTUAL_HOSTS",
        "REFERRERS",
        "REFERRING_SITES",
        "KEYPHRASES",
        "STATUS_CODES",
        "REMOTE_USER",
        "CACHE_STATUS",
        "GEO_LOCATION",
        "ASN",
        "MIME_TYPE",
        "TLS_TYPE",
    ];
    let mut command = Command::new("goaccess");
    command.arg(log).args(["--log-format=COMBINED", "--no-global-config", "--no-progress", "--output=json"]);
    command.args(PANELS.iter().map(|panel| format!("--ignore-panel={panel}")));
    command
}

/// DuckDB with two threads: requests of each client in each minute, and how many of them exceed the limits.
pub(crate) fn duckdb(python: &Path, form: Form, log: &Path) -> Command {
    let script = match form {
        Form::Combined => {
            "SELECT ip, time[2:18] AS minute, split_part(split_part(request, ' ', 2), '?', 1) = '/login' AS is_login \
             FROM read_csv(?, delim = ' ', quote = '\"', escape = '\\', header = false, auto_detect = false, columns = {\
             'ip': 'VARCHAR', 'a': 'VARCHAR', 'b': 'VARCHAR', 'time': 'VARCHAR', 'zone': 'VARCHAR', 'request': 'VARCHAR', \
             'status': 'VARCHAR', 'sent': 'VARCHAR', 'referer': 'VARCHAR', 'agent': 'VARCHAR'})"
        }
        Form::Json => {
            "SELECT remote_addr AS ip, time_iso8601[1:16] AS minute, split_part(request_uri, '?', 1) = '/login' AS is_login \
             FROM read_json(?, format = 'newline_delimited', columns = {'remote_addr': 'VARCHAR', \
             'time_iso8601': 'VARCHAR', 'request_uri': 'VARCHAR'})"
        }
    };
    let query = format!(
        "WITH windows AS (SELECT ip, minute, is_login, count(*) AS n FROM ({script}) GROUP BY ALL) \
         SELECT sum(greatest(n - CASE WHEN is_login THEN 5 ELSE 60 END, 0)), count(DISTINCT ip), max(n) FROM windows"
    );
    let program = "import duckdb, sys\n\
        made = duckdb.connect()\n\
        made.execute('SET threads = 2')\n\
        print('denied', made.execute(sys.argv[1], [sys.argv[2]]).fetchone()[0])";
    let mut command = Command::new(python);
    command.args(["-c", program, &query]).arg(log);
    command
}

/// How many requests the policies deny, as a program says; GoAccess does not.
pub(crate) fn denied(program: &str, output: &str) -> Result<Option<u64>> {
    match program {
        "tollgate" => Ok(Some(report(output)?.denied)),
        "duckdb" => {
            let count =
                output.trim().strip_prefix("denied ").with_context(|| format!("it said {output:?}"))?;
            Ok(Some(count.parse()?))
        }
        _ if output.contains("\"hosts\"") => Ok(None),
        _ => bail!("{program} counted no clients"),
    }
}

/// The figures of the whole report.
pub(crate) fn report(output: &str) -> Result<Report> {
    let report: serde_json::Value = serde_json::from_str(output)?;
    let number = |name: &str| {
        report
            .get(name)
            .and_then(serde_json::Value::as_u64)
            .with_context(|| format!("the report has no {name}"))
    };
    Ok(Report { clients: number("clients")?, denied: number("denied")? })
}
