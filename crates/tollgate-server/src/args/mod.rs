//! Command-line flags, and the environment variables that act like them.
//!
//! Flags about a shared store are in `store`, about the live page in `dashboard`, about gRPC in `grpc`, about TLS in `tls`, about tokens in `tokens`, about
//! overrides in `override_command`, those of commands that read policy files in `policies`, and those of commands that read logs
//! in `simulate`. `value` and `log_value` parse single values, and `environment` handles variables.

mod command_line;
mod dashboard;
mod environment;
pub mod exit_status;
mod grpc;
pub(crate) mod layout;
#[cfg(feature = "simulate")]
mod log_value;
#[cfg(feature = "simulate")]
mod moment;
mod override_command;
mod overrides;
mod policies;
mod secret;
#[cfg(feature = "simulate")]
mod simulate;
mod store;
mod tls;
mod tokens;
mod value;

use std::ffi::OsString;
use std::fmt;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{Arg, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use tollgate::HoldLength;
use tollgate_policy::Generation;

pub(crate) use self::command_line::IMPORT_FOLDER;
pub use self::command_line::{CommandLine, OriginalEnvironment};
pub use self::dashboard::{DashboardArgs, DashboardChoice, PublicUrl, TalkersChoice};
pub use self::environment::warn_of_unknown_variables;
pub(crate) use self::environment::{Flag, FlagWith, overriding_variable};
pub use self::grpc::GrpcArgs;
#[cfg(feature = "simulate")]
pub use self::log_value::Companion;
#[cfg(feature = "simulate")]
pub use self::moment::Moment;
pub use self::override_command::{
    DeleteOverrideArgs, GetOverrideArgs, KeyPart, ListOverridesArgs, NamedOverrideArgs, OverrideCommand,
    OverrideServiceArgs, SetOverrideArgs, TargetArgs,
};
pub use self::overrides::OverrideArgs;
pub use self::policies::{CheckConfigArgs, ExplainArgs};
pub use self::secret::Secret;
#[cfg(feature = "simulate")]
pub use self::simulate::{LogArgs, SimulateArgs, SuggestArgs};
pub use self::store::{
    AcrossSlotsChoice, ClusterArgs, FailureArgs, IdentityForm, OnStoreFailure, StoreArgs, StoreKeyArgs,
};
pub use self::tls::{ClientTlsArgs, TlsArgs, TlsListener};
pub use self::tokens::{NewTokenArgs, TokenCommand};
pub(crate) use self::value::server as parse_server;
pub use self::value::{Limits, OptionalAddress, ServerUrl, ServiceAddress, TrustedProxy};
pub use crate::access::address::{AddressError, ListenAddress, SocketMode, SocketPath};
pub use crate::observe::logs::{LogFormat, LogLevel};

/// The heading of its flags in the help.
const SHARED_STORE: &str = "Shared store";

/// The heading of its flags in the help.
const FLEET: &str = "Fleet";

/// The heading of its flags in the help.
const GRPC: &str = "gRPC";

/// The heading of its flags in the help.
const DASHBOARD: &str = "Live page";

/// The heading of its flags in the help.
const OVERRIDES: &str = "Overrides";

/// The values that set a flag. A variable that is `false` needs no other flag.
const TRUE: [&str; 6] = ["true", "1", "yes", "on", "y", "t"];

/// Exact rate limiting: may this caller do this now?
#[derive(Debug, Parser)]
#[command(name = "tollgate", max_term_width = 100)]
#[command(arg_required_else_help = true, args_conflicts_with_subcommands = true)]
pub struct Args {
    /// The command. If there is none, `--version` is given.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Print the version
    #[arg(short = 'V', long)]
    pub version: bool,

    /// With --version: print the commit, the features and the target of this build as well
    #[arg(long, requires = "version")]
    pub verbose: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer checks over HTTP, with counters in memory or in a shared store
    Serve(Box<ServeArgs>),
    /// Ask a running service for a decision, or whether it is ready
    Check(CheckArgs),
    /// Set, show, list and delete overrides: other limits for single customers, changed while a service runs
    #[command(subcommand)]
    Override(Box<OverrideCommand>),
    /// Examine a shared store, or compare the replicas of a service, and report problems
    Doctor(Box<DoctorArgs>),
    /// Report the errors and warnings in policy files
    CheckConfig(CheckConfigArgs),
    /// Explain which policies match a request, why others do not, and what is charged
    Explain(Box<ExplainArgs>),
    /// Replay access logs through policies, and report which clients would have been denied
    #[cfg(feature = "simulate")]
    Simulate(Box<SimulateArgs>),
    /// Suggest a limit from access logs, so that few clients are ever denied
    #[cfg(feature = "simulate")]
    Suggest(Box<SuggestArgs>),
    /// Create tokens for the file of `serve --tokens`
    #[command(subcommand)]
    Token(TokenCommand),
    /// Print a script that completes commands and flags in a shell
    Completions(CompletionsArgs),
    /// Print a manual page for `man`
    Man(ManArgs),
}

/// Flags of `tollgate serve`. The help begins with the five that most services use.
#[derive(Debug, clap::Args)]
#[command(after_help = "An environment variable takes several values separated by commas, such as \
                        TOLLGATE_LIMIT=\"5/1m, 100/1h\". The variable of a flag without a value takes true or false. \
                                         An empty variable counts as unset; any other acts like its flag, including \
                                         in conflicts between flags.")]
#[command(group = clap::ArgGroup::new("policies").args(["limits", "config", "import"]).required(true))]
#[command(group = clap::ArgGroup::new("shared").args(["store", "config", "import"]).multiple(true))]
pub struct ServeArgs {
    /// Policy file, or a folder of files that end in .yaml or .yml; for several, repeat the flag. The service reloads
    /// them when they change. Each policy has its own settings for `--key`, `--count-denied`, `--on-store-failure` and
    /// `--local-share`
    #[arg(long, value_name = "PATH", env = "TOLLGATE_CONFIG")]
    #[arg(conflicts_with_all = ["key", "count_denied", "on_store_failure", "local_share"])]
    pub config: Vec<PathBuf>,

    /// Limit, such as 5/1m, 100/day@Europe/Berlin, 10/1s@first_hit, 10/1s~burst:20 (a bucket), 100/1m~sliding (a sliding
    /// window) or 100/1m~log (a log). For several limits, repeat the flag or separate them with commas: a request needs
    /// room in all of them. Notations of other limiters also work, such as "10/minute;100/hour" and 5-S
    #[arg(long = "limit", value_name = "QUOTA", env = "TOLLGATE_LIMIT", allow_hyphen_values = true)]
    pub limits: Vec<Limits>,

    /// Attribute of the key, as in the `key` of a file: `ip` is an address (for IPv6, its /64), and `global` counts all
    /// requests together. For several, repeat the flag or separate them with commas [default: all attributes that the
    /// caller sends; if a proxy asks, the address of its client]
    #[arg(long = "key", value_name = "NAME", env = "TOLLGATE_KEY", value_delimiter = ',')]
    #[arg(value_parser = value::name)]
    pub key: Vec<String>,

    /// Address of the listener for checks: IP:PORT, where port 0 chooses a free one, or a Unix socket as unix:/PATH. With
    /// `none`, checks come over gRPC alone
    #[arg(long, value_name = "ADDRESS", env = "TOLLGATE_LISTEN", default_value = "127.0.0.1:8080")]
    #[arg(value_parser = value::address_or_none)]
    pub listen: OptionalAddress,

    /// Counters in Redis or Valkey, shared with all processes on the same store, such as redis://HOST,
    /// rediss://USER@HOST:PORT/DATABASE (TLS), redis+sentinel://, redis+cluster:// or unix:///PATH [default: that
    /// of the file, else in memory]
    #[arg(long, value_name = "URL", env = "TOLLGATE_STORE", hide_env_values = true)]
    #[arg(value_parser = value::secret)]
    pub store: Option<Secret>,

    /// Use the settings of another system: `rlaas FILE`, the application.yaml of the RLaaS Users Service (and
    /// REDIS_URL), `valkey-env`, the variables of user-rate-limit, or `envoy-ratelimit FOLDER`, the variables and files
    /// of envoyproxy/ratelimit, without FOLDER if its limits come over xDS. The service then uses that system's keys
    /// in the store, serves its paths and counts denied requests. With Envoy's limits, keys are Tollgate's own unless
    /// `--store-layout envoy-ratelimit` is given, and a denial consumes nothing unless `--count-denied` is given or
    /// limits come over xDS
    #[arg(long, value_names = ["SYSTEM", "FILE"], num_args = 1..=2, env = "TOLLGATE_IMPORT")]
    #[arg(conflicts_with = "key")]
    pub import: Vec<OsString>,

    /// Server that sends the limits of `--import envoy-ratelimit` over xDS, as http://HOST:PORT or https://HOST:PORT
    /// (TLS). The variables CONFIG_GRPC_XDS_* of envoyproxy/ratelimit have the other settings [default: that of these
    /// variables]
    #[arg(long, value_name = "URL", env = "TOLLGATE_XDS", value_parser = value::server)]
    pub xds: Option<ServerUrl>,

    /// Address of the listener for changes to counters and for metrics
    #[arg(long, value_name = "ADDRESS", env = "TOLLGATE_ADMIN_LISTEN", default_value = "127.0.0.1:8090")]
    #[arg(value_parser = value::address)]
    pub admin_listen: ListenAddress,

    /// Host name that the admin listener accepts, in addition to IP addresses and localhost; for several, repeat the
    /// flag or separate them with commas
    #[arg(long = "allowed-host", value_name = "NAME", env = "TOLLGATE_ALLOWED_HOST", value_delimiter = ',')]
    #[arg(value_parser = value::host)]
    pub allowed_hosts: Vec<String>,

    /// Address of a listener that only serves metrics, without a token or client certificate and under any name
    #[arg(long, value_name = "ADDRESS", env = "TOLLGATE_METRICS_LISTEN", default_value = "none")]
    #[arg(value_parser = value::address_or_none)]
    pub metrics_listen: OptionalAddress,

    /// Address of a listener that only serves health and readiness, and never speaks TLS, for probes that cannot use
    /// TLS or show a client certificate [default: none]
    #[arg(long, value_name = "ADDRESS", env = "TOLLGATE_PLAIN_PROBES", value_parser = value::address)]
    pub plain_probes: Option<ListenAddress>,

    /// Address of a listener for gRPC, which answers as the rate-limit services of Envoy and Kuadrant [default: none]
    #[arg(long, value_name = "ADDRESS", env = "TOLLGATE_GRPC", value_parser = value::address)]
    pub grpc: Option<ListenAddress>,

    /// Permissions of the Unix sockets among these addresses. If others than the owner may connect to the admin listener,
    /// it needs --tokens or --insecure-admin [default: 0600]
    #[arg(long, value_name = "MODE", env = "TOLLGATE_UNIX_MODE", value_parser = value::socket_mode)]
    pub unix_mode: Option<SocketMode>,

    /// Settings of the gRPC listener.
    #[command(flatten)]
    pub grpc_args: GrpcArgs,

    /// File of principals, as written by `tollgate token new`. Everything but /healthz, /readyz, health over gRPC and
    /// --metrics-listen then needs a token (`Authorization: Bearer`) or, with --tls-client-ca, a certificate that the
    /// file names. The service reloads it when it changes
    #[arg(long, value_name = "FILE", env = "TOLLGATE_TOKENS")]
    pub tokens: Option<PathBuf>,

    /// Allow an admin listener without tokens on an address that other hosts can reach; every client there may change
    /// counters
    #[arg(long, env = "TOLLGATE_INSECURE_ADMIN", value_parser = BoolishValueParser::new())]
    pub insecure_admin: bool,

    /// Maximum number of counters in memory: one for each key of each quota; a log counts as five, and one more for
    /// every three entries. With a shared store, this bounds local counts during an outage
    #[arg(long, value_name = "COUNT", env = "TOLLGATE_MAX_COUNTERS", default_value = "1000000")]
    #[arg(value_parser = value::max_counters, allow_negative_numbers = true)]
    pub max_counters: NonZeroUsize,

    /// Answer for a key without a counter while memory is full
    #[arg(long, value_name = "ANSWER", env = "TOLLGATE_WHEN_FULL", default_value = "deny")]
    pub when_full: WhenFull,

    /// Count denied requests as well [default: false; with limits over xDS, true]
    #[arg(long, env = "TOLLGATE_COUNT_DENIED", value_name = "BOOL", value_parser = value::boolean)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub count_denied: Option<bool>,

    /// Accept limits in a request (`policy` and `quotas`; `limit` of Envoy's descriptors), counted separately from all
    /// policies [default: false; with limits over xDS and --tls-client-ca, true]
    #[arg(long, env = "TOLLGATE_CALLER_QUOTAS", value_name = "BOOL", value_parser = value::boolean)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub caller_quotas: Option<bool>,

    /// File with the secret of holds, at least 32 bytes, the same for all processes that accept each other's holds
    /// [default: a random one of this process]
    #[arg(long, value_name = "FILE", env = "TOLLGATE_HOLD_SECRET_FILE")]
    pub hold_secret_file: Option<PathBuf>,

    /// Network of proxies in front of the proxy that asks at /forward-auth, such as 10.0.0.0/8; their entries in
    /// `X-Forwarded-For` are trusted. `unix` lets proxies ask there over the Unix socket of --listen. For several, repeat
    /// the flag or separate them with commas [default: none, so the last entry is the client]
    #[arg(
        long = "trusted-proxy",
        value_name = "NETWORK",
        env = "TOLLGATE_TRUSTED_PROXY",
        value_delimiter = ','
    )]
    #[arg(value_parser = value::trusted_proxy)]
    pub trusted_proxies: Vec<TrustedProxy>,

    /// Name the policies on trial that would have denied an admitted request, in the response header Tollgate-Trials,
    /// so that a proxy can log it next to the client. Envoy passes it on to the client
    #[arg(long, env = "TOLLGATE_TRIALS_HEADER", value_parser = BoolishValueParser::new())]
    pub trials_header: bool,

    /// Stop the clock of the counters, and let `POST /v1/clock` on the admin listener move it: for tests of
    /// applications. Only with counters in memory, and if no other host can reach the service
    #[arg(long, env = "TOLLGATE_TEST_CLOCK", value_parser = BoolishValueParser::new())]
    #[arg(conflicts_with = "store")]
    pub test_clock: bool,

    /// Also serve the paths of this published system, so that its callers work unchanged
    #[arg(long, value_name = "SYSTEM", env = "TOLLGATE_ANSWERS")]
    pub answers: Option<AnswerSystem>,

    /// Also export metrics under the names of this published system, so that its dashboards work unchanged
    #[arg(long, value_name = "SYSTEM", env = "TOLLGATE_METRIC_ALIASES")]
    pub metric_aliases: Option<MetricAliases>,

    /// Maximum number of open connections on each listener, or fewer if the limit of open files is low; further ones
    /// wait, and idle ones are closed to make room
    #[arg(long, value_name = "COUNT", env = "TOLLGATE_MAX_CONNECTIONS", default_value = "10000")]
    #[arg(value_parser = value::positive::<NonZeroU32>, allow_negative_numbers = true)]
    pub max_connections: NonZeroU32,

    /// Maximum number of open connections of one client address (for IPv6, its /64) on each listener; further ones are
    /// closed. Behind a proxy, all clients have the proxy's address [default: no limit]
    #[arg(long, value_name = "COUNT", env = "TOLLGATE_MAX_CONNECTIONS_PER_PEER")]
    #[arg(value_parser = value::positive::<NonZeroU32>, allow_negative_numbers = true)]
    pub max_connections_per_peer: Option<NonZeroU32>,

    /// Memory for requests and answers in flight on all connections: incomplete bodies, concurrent requests over
    /// HTTP/2, and long answers that clients have not read. Further requests are answered 503
    #[arg(long, value_name = "SIZE", env = "TOLLGATE_BODY_MEMORY", default_value = "64MiB")]
    #[arg(value_parser = value::size, allow_negative_numbers = true)]
    pub body_memory: NonZeroUsize,

    /// Maximum length of an attribute's value; requests with longer ones are answered 400. Longer values in Envoy's
    /// descriptors are counted by a digest
    #[arg(long, value_name = "BYTES", env = "TOLLGATE_MAX_ATTRIBUTE_BYTES", default_value = "1024")]
    #[arg(value_parser = value::positive::<NonZeroUsize>, allow_negative_numbers = true)]
    pub max_attribute_bytes: NonZeroUsize,

    /// How long the service keeps serving after SIGTERM or SIGINT while `/readyz` answers 503, so that load balancers
    /// can remove it [default: not at all]
    #[arg(long, value_name = "TIME", env = "TOLLGATE_DRAIN_DELAY", value_parser = value::time)]
    #[arg(allow_hyphen_values = true)]
    pub drain_delay: Option<Duration>,

    /// Format of log lines, on standard error
    #[arg(long, value_name = "FORMAT", env = "TOLLGATE_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,

    /// Lowest level of log lines; the variable RUST_LOG overrides it, also for single parts
    #[arg(long, value_name = "LEVEL", env = "TOLLGATE_LOG_LEVEL", default_value = "info")]
    pub log_level: LogLevel,

    /// TLS of the listeners.
    #[command(flatten)]
    pub tls: TlsArgs,

    /// The settings for its connections.
    #[command(flatten)]
    pub store_args: StoreArgs,

    /// Number of denied keys that the service remembers, to deny them again for at most a second without asking the
    /// store. With 0, it always asks, and most denials then cost the store two writes
    #[arg(long, value_name = "COUNT", env = "TOLLGATE_LOCAL_DENIALS", default_value = "65536")]
    #[arg(value_parser = value::local_denials, requires = "shared", allow_negative_numbers = true)]
    #[arg(help_heading = SHARED_STORE)]
    pub local_denials: usize,

    /// The settings for a Cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// The settings for an outage.
    #[command(flatten)]
    pub failure: FailureArgs,

    /// Overrides.
    #[command(flatten)]
    pub overrides: OverrideArgs,

    /// The live page.
    #[command(flatten)]
    pub dashboard: DashboardArgs,

    /// The environment of another program that the flags stand for.
    #[arg(skip)]
    pub original: Option<OriginalEnvironment>,
}

/// Flags of `tollgate doctor`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("shared").args(["store"]))]
#[command(mut_args(without_file))]
pub struct DoctorArgs {
    /// The store to examine, such as redis://HOST, rediss://USER@HOST:PORT/DATABASE (TLS), redis+sentinel://,
    /// redis+cluster:// or unix:///PATH
    #[arg(long, value_name = "URL", env = "TOLLGATE_STORE", hide_env_values = true)]
    #[arg(value_parser = value::secret, required_unless_present = "fleet")]
    pub store: Option<Secret>,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,

    /// The replicas.
    #[command(flatten)]
    pub fleet: FleetArgs,

    /// The settings for its connections.
    #[command(flatten)]
    pub store_args: StoreArgs,
}

/// Flags of `tollgate doctor` about the replicas of a service.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = FLEET)]
pub struct FleetArgs {
    /// Ask the replicas of a service, instead of a store, whether all of them have the same limits: policies with their
    /// tables and lists, or Envoy's domains with their settings. Stores, and flags that are no limits, are not compared.
    /// Each ADDRESS is a URL, HOST:PORT or unix:/PATH of a listener that serves /readyz. If HOST is a name, such as that of a headless
    /// service in Kubernetes, all its addresses are asked
    #[arg(long, value_name = "ADDRESS", num_args = 1.., value_parser = value::service)]
    pub fleet: Vec<ServiceAddress>,

    /// Ask again until all replicas have the same limits, for at most this time, from 1s to 1h. Before a replica has taken up
    /// a change, all have the same old limits: wait for the new ones with --generation [default: ask once]
    #[arg(long, value_name = "TIME", requires = "fleet", value_parser = value::wait)]
    #[arg(allow_hyphen_values = true)]
    pub wait: Option<Duration>,

    /// The generation that all replicas are to have, as `check-config` shows it [default: any, if it is the same]
    #[arg(long, value_name = "HEX", requires = "fleet", allow_hyphen_values = true)]
    pub generation: Option<Generation>,

    /// How many replicas there are at least, from 1 to 500. Each address counts once [default: those that are found]
    #[arg(long, value_name = "NUMBER", requires = "fleet", allow_hyphen_values = true)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=500))]
    pub replicas: Option<u16>,

    /// TLS of the connections.
    #[command(flatten)]
    pub tls: ClientTlsArgs,
}

/// The answer for an unseen key while memory is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WhenFull {
    /// Refuse with status 503.
    Deny,
    /// Admit without counting.
    Allow,
}

/// A published system under whose names metrics are exported as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MetricAliases {
    /// ratelimiter_requests_total, ratelimiter_errors_total and ratelimiter_evaluate_latency_seconds, of the Spring
    /// Boot Redis rate limiter starter.
    SpringStarter,
    /// ratelimit_service_rate_limit_total_hits and the like, of envoyproxy/ratelimit; only with `--import
    /// envoy-ratelimit`.
    EnvoyRatelimit,
}

/// A published system whose paths are served as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AnswerSystem {
    /// GET /check?userId=, of the RLaaS Users Service; the attribute is `userId`
    Rlaas,
    /// GET /api/v1/rate_limit?user_id=&ip_address=&endpoint=&tier=, of the LeetDezine case study; the attributes are
    /// `user`, `ip`, `endpoint` and `tier`. On the admin listener, POST /api/v1/rules sets an override
    Leetdezine,
    /// GET /evaluate?key=&name=&scope=, with the decisions and the problem body of the Spring Boot Redis rate limiter
    /// starter; the attributes are `key`, `name` and `scope`
    SpringStarter,
}

impl AnswerSystem {
    /// Returns its name, as for `--answers`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Rlaas => "rlaas",
            Self::Leetdezine => "leetdezine",
            Self::SpringStarter => "spring-starter",
        }
    }
}

impl fmt::Display for AnswerSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Flags of `tollgate check`.
#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// Attributes of the request, such as user=alice; a repeated name makes a list
    #[arg(value_name = "NAME=VALUE", required_unless_present = "health", value_parser = value::attribute)]
    pub attributes: Vec<(String, String)>,

    /// Only ask whether the service is ready (`/readyz`), for probes; needs no token and charges nothing
    #[arg(long, conflicts_with_all = ["attributes", "cost", "peek", "json"])]
    pub health: bool,

    /// Units to charge
    #[arg(long, value_name = "UNITS", default_value = "1")]
    #[arg(value_parser = value::cost, allow_negative_numbers = true)]
    pub cost: u32,

    /// Run COMMAND while it holds: its units in flight are free again when it has ended. The hold is renewed meanwhile,
    /// and COMMAND gets SIGTERM if the hold is lost
    #[arg(long, requires = "command", conflicts_with_all = ["health", "peek", "json"])]
    pub hold: bool,

    /// Units in flight to hold, of each limit in flight that applies [default: 1]. If none applies, COMMAND does not run
    #[arg(long, value_name = "UNITS", value_parser = value::units_in_flight)]
    #[arg(allow_negative_numbers = true, requires = "hold")]
    pub units: Option<u32>,

    /// How long the hold lives if this process dies, from 1s to 1h; a limit in flight can set a shorter time
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = value::hold_length)]
    #[arg(allow_hyphen_values = true, requires = "hold")]
    pub expires_after: HoldLength,

    /// Do not stop COMMAND if the hold is lost; only warn
    #[arg(long, requires = "hold")]
    pub keep_running: bool,

    /// The command to run, and its arguments
    #[arg(value_name = "COMMAND", last = true, requires = "hold")]
    pub command: Vec<OsString>,

    /// Only peek: report the verdict without charging anything. `tollgate explain` shows which policies match, and why
    #[arg(long)]
    pub peek: bool,

    /// The service to ask, as a URL, as HOST:PORT or as unix:/PATH
    #[arg(long, value_name = "URL", env = "TOLLGATE_SERVER", default_value = "http://127.0.0.1:8080")]
    #[arg(value_parser = value::service)]
    pub server: ServiceAddress,

    /// File with a token for the service, if it requires one
    #[arg(long, value_name = "FILE", env = "TOLLGATE_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,

    /// Print the service's answer as JSON in ASCII
    #[arg(long)]
    pub json: bool,

    /// TLS of the connection.
    #[command(flatten)]
    pub tls: ClientTlsArgs,
}

/// Flags of `tollgate completions`.
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Flags of `tollgate man`.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// The command that the page is about, such as `serve` or `token new` [default: tollgate itself]
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Returns the description of all commands, from which help, manual pages and completions are made.
#[must_use]
pub fn command() -> clap::Command {
    exit_status::listed(Args::command())
}

impl Command {
    fn store_args_mut(&mut self) -> Option<&mut StoreArgs> {
        match self {
            Self::Serve(args) => Some(&mut args.store_args),
            Self::Doctor(args) => Some(&mut args.store_args),
            Self::Explain(args) => Some(&mut args.store_args),
            _ => None,
        }
    }
}

/// Removes defaults that come from a file, for a command without one.
fn without_file(arg: Arg) -> Arg {
    let Some(help) = arg.get_help().map(ToString::to_string) else { return arg };
    arg.help(help.replace("that of the file, else ", ""))
}

impl From<WhenFull> for tollgate_policy::WhenFull {
    fn from(when_full: WhenFull) -> Self {
        match when_full {
            WhenFull::Deny => Self::Deny,
            WhenFull::Allow => Self::Allow,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_do_not_contradict_each_other() {
        command().debug_assert();
    }

    /// Its help named defaults of the file, but it reads no file.
    #[test]
    fn the_doctor_has_no_defaults_of_a_file() {
        let mut args = Args::command();
        let mut help = |command| {
            let command = args.find_subcommand_mut(command).unwrap();
            command.render_long_help().to_string().contains("that of the file")
        };
        assert_eq!((help("serve"), help("doctor")), (true, false));
    }

    #[test]
    fn limits_may_be_repeated_and_separated_by_commas() {
        let args =
            Args::parse_from(["tollgate", "serve", "--limit", "5/1m,7/1h;8 per 2 hours", "--limit", "9-D"]);
        let Some(Command::Serve(serve)) = args.command else { panic!("not `serve`") };
        let limits: Vec<String> =
            serve.limits.iter().flat_map(|limits| &limits.0).map(ToString::to_string).collect();
        assert_eq!(limits, ["5/1m", "7/1h", "8/2h", "9/1d"]);
    }
}
