//! What the user wrote: command-line flags and the environment variables beside them.

use std::net::SocketAddr;
use std::num::NonZeroUsize;

use clap::builder::BoolishValueParser;
use clap::{Parser, Subcommand, ValueEnum};
use http::Uri;
use tollgate::Quota;

/// Exact fixed-window rate limiting: may this caller do this now?
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, max_term_width = 100)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the binary does.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer checks over HTTP, with counters in memory
    Serve(ServeArgs),
    /// Ask a running service; exit status 0 allowed, 1 denied, 2 usage, 3 no answer
    Check(CheckArgs),
}

/// Flags of `tollgate serve`.
#[derive(Debug, clap::Args)]
pub struct ServeArgs {
    /// What is allowed, such as 5/1m, 100/day@Europe/Berlin or 10/1s@first_hit; with several, a request
    /// needs room in all of them
    #[arg(long = "limit", value_name = "QUOTA", env = "TOLLGATE_LIMIT", required = true)]
    #[arg(value_delimiter = ',')]
    pub limits: Vec<Quota>,

    /// Attributes that say who is counted, in this order [default: all that the caller sends]
    #[arg(long = "key", value_name = "NAME", env = "TOLLGATE_KEY", value_delimiter = ',')]
    pub key: Vec<String>,

    /// Where checks are answered; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", env = "TOLLGATE_LISTEN", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,

    /// Where counters are changed and metrics read
    #[arg(long, value_name = "ADDRESS", env = "TOLLGATE_ADMIN_LISTEN", default_value = "127.0.0.1:8090")]
    pub admin_listen: SocketAddr,

    /// Counters held at most: one for each key of each quota
    #[arg(long, value_name = "COUNT", env = "TOLLGATE_MAX_KEYS", default_value = "1000000")]
    pub max_keys: NonZeroUsize,

    /// What an unseen key is answered while every counter is taken: 503, or admission without a count
    #[arg(long, value_name = "ANSWER", env = "TOLLGATE_WHEN_FULL", default_value = "deny")]
    pub when_full: WhenFull,

    /// Let denied requests use up what they were denied
    #[arg(long, env = "TOLLGATE_COUNT_DENIED", value_parser = BoolishValueParser::new())]
    pub count_denied: bool,

    /// Connections open at once on each listener; further ones wait
    #[arg(long, value_name = "COUNT", env = "TOLLGATE_MAX_CONNECTIONS", default_value = "10000")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections: u32,

    /// How log lines are written, on standard error
    #[arg(long, value_name = "FORMAT", env = "TOLLGATE_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

/// What an unseen key is answered while the store is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WhenFull {
    /// Refused with status 503.
    Deny,
    /// Admitted, and not counted.
    Allow,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Flags of `tollgate check`.
#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// Who asks: attributes of the request
    #[arg(value_name = "NAME=VALUE", required = true, value_parser = attribute)]
    pub attributes: Vec<(String, String)>,

    /// Units to take
    #[arg(long, value_name = "UNITS", default_value = "1")]
    pub cost: u32,

    /// Only look, and take nothing
    #[arg(long)]
    pub peek: bool,

    /// The service to ask
    #[arg(long, value_name = "URL", env = "TOLLGATE_SERVER", default_value = "http://127.0.0.1:8080")]
    #[arg(value_parser = server)]
    pub server: Uri,

    /// Print the service's answer as it came
    #[arg(long)]
    pub json: bool,
}

fn attribute(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE, such as user=alice"),
    }
}

fn server(text: &str) -> Result<Uri, &'static str> {
    const EXPECTED: &str = "expected http://HOST[:PORT]";
    let uri: Uri = text.parse().map_err(|_| EXPECTED)?;
    let plain = uri.scheme_str() == Some("http") && matches!(uri.path(), "" | "/") && uri.query().is_none();
    if plain { Ok(uri) } else { Err(EXPECTED) }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn flags_do_not_contradict_each_other() {
        Args::command().debug_assert();
    }

    #[test]
    fn limits_may_be_repeated_and_separated_by_commas() {
        let args = Args::parse_from(["tollgate", "serve", "--limit", "5/1m,7/1h", "--limit", "9/1d"]);
        let Command::Serve(serve) = args.command else { panic!("not `serve`") };
        assert_eq!(serve.limits.iter().map(Quota::to_string).collect::<Vec<_>>(), ["5/1m", "7/1h", "9/1d"]);
    }
}
