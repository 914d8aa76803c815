//! Flags of the commands that read logs.

use std::ffi::OsString;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use jiff::tz::TimeZone;
use tollgate::Quota;
use tollgate_logs::{Attribute, Format, TimeField};
use tollgate_simulate::Gate;
use tollgate_simulate::suggest::Per;

use super::{Companion, Limits, Moment, log_value, moment, value};

/// The heading of these flags in the help.
const LOGS: &str = "Logs";

/// Flags of `tollgate simulate`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A path is the policy file if it comes first and ends in .yaml or .yml, or begins like a policy file, or is a \
                        folder with files that end so. Without policies and --limit, the report shows the routes, the \
                        busiest clients and peaks, and limits that `suggest` would give for each of the ten busiest \
                        routes. It shows routes with --limit as well. Identifiers in paths are replaced by {id}, but \
                        a secret that looks like a word is not found: read a report before you publish it.\n\n\
                        Gates are conditions under which the command fails. Each is [POLICY.]MEASURE[{CLASS}], a comparison, \
                        and a number or a percentage. Measures are denied, denied_clients, newly_denied, \
                        newly_denied_clients, newly_allowed, undecided, unparsed and late. POLICY:candidate means the \
                        candidates of a policy. Classes are those given with --class, `known` for --known, and `others`.\n\n\
                        Names of clients are printed on a terminal. Everywhere else they are replaced by digests, unless \
                        --show-keys is given."
)]
pub struct SimulateArgs {
    /// Logs: files, folders, patterns such as 'access.log*', or - for standard input; also compressed by gzip or zstd.
    /// Before them, the policy file may stand, or a folder of policy files
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<OsString>,

    /// Policy file, or a folder of policy files, as for `serve`. Then all arguments are logs
    #[arg(long, value_name = "PATH", conflicts_with = "limits")]
    pub config: Option<PathBuf>,

    /// Limit in place of a policy file, such as 30/1m, as for `serve`. For several limits, repeat the flag or separate
    /// them with commas. Then all arguments are logs
    #[arg(long = "limit", value_name = "QUOTA", allow_hyphen_values = true)]
    pub limits: Vec<Limits>,

    /// Attribute of the key that --limit counts by, as for `serve`. For several, repeat the flag or separate them with
    /// commas [default: ip]
    #[arg(long = "key", value_name = "NAME", value_delimiter = ',', requires = "limits")]
    #[arg(value_parser = value::name)]
    pub key: Vec<String>,

    /// File or folder of other policies to compare with, in the same pass
    #[arg(long, value_name = "PATH")]
    pub baseline: Option<PathBuf>,

    /// Exit with status 1 if this condition holds, such as 'denied > 0.1%', 'login.denied_clients > 0' or
    /// 'denied{bot} > 5%'. If there is nothing to measure, the status is 3
    #[arg(long = "fail-if", value_name = "GATE")]
    pub fail_if: Vec<Gate>,

    /// Requests that a gate needs for an answer, of those that policies decide on [default: 1000, and 1 for gates of
    /// one policy or class]
    #[arg(long, value_name = "COUNT")]
    #[arg(value_parser = value::positive::<NonZeroU64>, allow_negative_numbers = true)]
    pub min_requests: Option<NonZeroU64>,

    /// Class of clients: a name, and conditions as in the `match` of a policy, such as bot='user_agent: "*bot*"'. There
    /// are at most 250 classes, and policies times classes are at most 100,000
    #[arg(long = "class", value_name = "NAME=CONDITIONS")]
    pub classes: Vec<String>,

    /// File of known clients, such as customers and offices: one value of --client per line, or a network in place of
    /// addresses; at most 16 MiB. Their requests form the class `known`, whatever other class they would be in
    #[arg(long, value_name = "FILE")]
    pub known: Option<PathBuf>,

    /// Attribute that identifies clients in figures over all policies; `ip` is an address (for IPv6, its /64)
    #[arg(long, value_name = "NAME", default_value = "ip", value_parser = value::name)]
    pub client: String,

    /// Maximum number of clients to follow, for each kind of key. If there are more, a sample stands for all, and
    /// figures about clients are estimates. The engine has room for eight live counters per client: 16 million by
    /// default, and at least 1 and at most 67 million. If the log needs more, the command fails
    #[arg(long, value_name = "COUNT", default_value = "2000000")]
    #[arg(value_parser = value::positive::<NonZeroUsize>, allow_negative_numbers = true)]
    pub max_clients: NonZeroUsize,

    /// Maximum length of an attribute's value, as for `serve`. Requests with longer ones count as errors
    #[arg(long, value_name = "BYTES", default_value = "1024")]
    #[arg(value_parser = value::positive::<NonZeroUsize>, allow_negative_numbers = true)]
    pub max_attribute_bytes: NonZeroUsize,

    /// How many other limits are tried for each quota that does not decide alone, from 0 to 12, and at most 32 for all
    /// quotas together. With 0, no other kinds are tried either. The counters of limits share 160 bytes for each client
    /// of --max-clients, and so do those of kinds; where that is not enough, they are left out
    #[arg(long, value_name = "COUNT", default_value = "4", value_parser = log_value::rungs)]
    pub try_limits: usize,

    /// Print one JSON object
    #[arg(long, conflicts_with = "md")]
    pub json: bool,

    /// Print Markdown, for a pull request
    #[arg(long)]
    pub md: bool,

    /// Also write the report to this file, as one page of HTML
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,

    /// How logs are read.
    #[command(flatten)]
    pub log: LogArgs,
}

/// Flags of `tollgate suggest`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The limit is computed from about the first 70 % of the period and tried on the rest. If there are too \
                        few clients for the budget, it is computed for the least budget that they can prove, and the text \
                        says so. With fewer than five clients there is no limit, and the status is 3.\n\n\
                        Names of clients are printed on a terminal. Everywhere else they are replaced by digests, unless \
                        --show-keys is given."
)]
pub struct SuggestArgs {
    /// Logs: files, folders, patterns such as 'access.log*', or - for standard input; also compressed by gzip or zstd
    #[arg(value_name = "LOG", required = true)]
    pub logs: Vec<OsString>,

    /// Attribute of the key, as in the `key` of a file: `ip` is an address (for IPv6, its /64). For several, repeat the
    /// flag or separate them with commas
    #[arg(long = "key", value_name = "NAME", value_delimiter = ',', default_value = "ip")]
    #[arg(value_parser = value::name)]
    pub key: Vec<String>,

    /// Window of the limit, such as 1m, 10s or 1h
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = log_value::window)]
    pub window: Quota,

    /// Window of a second, short limit against bursts, or `none`
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = log_value::companion)]
    pub companion: Companion,

    /// Share of clients that may ever be denied
    #[arg(long, value_name = "SHARE", default_value = "0.1%", value_parser = log_value::budget)]
    pub budget: f64,

    /// What the budget is a share of: `client`, or `client-day`, a client on one day
    #[arg(long, value_name = "UNIT", default_value = "client")]
    pub budget_per: Per,

    /// File of known clients, such as customers and offices: one value of the first --key per line, or a network in
    /// place of addresses; at most 16 MiB. They are counted, and shown separately
    #[arg(long, value_name = "FILE")]
    pub known: Option<PathBuf>,

    /// Count only requests that meet these conditions, as in the `match` of a policy, such as 'path: /login'
    #[arg(long = "match", value_name = "CONDITIONS")]
    pub matching: Option<String>,

    /// Maximum number of clients to follow. If there are more, the limit is computed from a sample of them
    #[arg(long, value_name = "COUNT", default_value = "2000000")]
    #[arg(value_parser = value::positive::<NonZeroUsize>, allow_negative_numbers = true)]
    pub max_clients: NonZeroUsize,

    /// Print only the policy, for `serve --config`
    #[arg(long, conflicts_with = "json")]
    pub yaml: bool,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,

    /// How logs are read.
    #[command(flatten)]
    pub log: LogArgs,
}

/// How logs are read.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = LOGS)]
pub struct LogArgs {
    /// Format of the logs: a name such as nginx-combined, or the directive of the server's configuration, such as
    /// 'log_format main ...' or 'LogFormat "..."' [default: detected from the first lines of each file]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,

    /// Time zone of times that are logged without one, and of hours and days in the report, such as Europe/Berlin
    /// [default: none, and UTC in the report]
    #[arg(long, value_name = "ZONE", value_parser = log_value::zone)]
    pub tz: Option<TimeZone>,

    /// Where to find the time in JSON lines and tables that use unusual names, such as ts:unix or 'at:%Y-%m-%d
    /// %H:%M:%S'
    #[arg(long, value_name = "FIELD:FORM")]
    pub time: Option<TimeField>,

    /// Attribute that policies use, and where to find it in the log: user=json:/user/id, api_key=query:key,
    /// tenant=header:X-Tenant, plan=field:NAME, or ip=xff:10.0.0.0/8 for the client behind these proxies. The
    /// attributes ip, method, path, query, host, user, user_agent, referer, status and bytes need no flag
    #[arg(long = "attr", value_name = "NAME=SOURCE")]
    pub attributes: Vec<Attribute>,

    /// First time to replay: 2026-11-21T16:00Z, with another offset, or as the log has it. With --tz also '2026-11-21
    /// 16:00' or 2026-11-21, by the clock of that zone
    #[arg(long, value_name = "TIME", value_parser = moment::parse, allow_negative_numbers = true)]
    pub from: Option<Moment>,

    /// End of the replay; a request at exactly this time is not included
    #[arg(long, value_name = "TIME", value_parser = moment::parse, allow_negative_numbers = true)]
    pub to: Option<Moment>,

    /// Sort all requests by time first. Without it, requests more than a minute out of order are skipped, and at most
    /// 512 files may overlap in time
    #[arg(long)]
    pub sort: bool,

    /// Maximum share of unreadable lines; lines longer than 64 KiB always count as unreadable
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = log_value::percentage)]
    pub max_unparsed: f64,

    /// Share of all requests that the logs hold, such as 10%, if the server logs a sample. With 100%, logs that may be
    /// samples, such as those of Cloudflare and Google Cloud, are taken as complete
    #[arg(long, value_name = "SHARE", value_parser = log_value::sample_rate)]
    pub sample_rate: Option<f64>,

    /// Accept logs that hold only a sample of all requests, or may do so. Each client then seems to send fewer requests
    /// than it did
    #[arg(long)]
    pub estimate: bool,

    /// Show the keys of clients and unreadable lines in all output, not only on a terminal
    #[arg(long)]
    pub show_keys: bool,
}
