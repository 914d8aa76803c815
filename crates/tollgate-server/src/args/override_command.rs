//! Flags of the commands about overrides.

use std::path::PathBuf;

use clap::{ArgGroup, Subcommand};
use http::HeaderValue;

use super::value::{self, ExpectedForm};
use super::{ClientTlsArgs, ServiceAddress};

/// The commands about overrides.
#[derive(Debug, Subcommand)]
pub enum OverrideCommand {
    /// Set an override: other limits for one key of a policy, or for some of its requests
    Set(SetOverrideArgs),
    /// Show the override of a target
    Get(GetOverrideArgs),
    /// List the overrides, those without an effect included
    List(ListOverridesArgs),
    /// Delete the override of a target, so that the policy's own limits apply again
    Delete(DeleteOverrideArgs),
}

/// Flags of `tollgate override set`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "An override that the target has is replaced as a whole. A quota with the same window and kind as one \
                        of the policy keeps its count. If no answer arrives, the change may have been made: `tollgate \
                        override get` shows it. With --if-match or --if-absent, the command can then be repeated, and \
                        the change is made at most once."
)]
#[command(group = ArgGroup::new("limits").args(["quota", "unlimited", "deny"]).required(true))]
pub struct SetOverrideArgs {
    /// Policy whose limits are replaced
    #[arg(long, value_name = "NAME", value_parser = value::name_of_file)]
    pub policy: String,

    /// The target.
    #[command(flatten)]
    pub target: TargetArgs,

    /// Quota such as 500/1m, or limit in flight such as 20~in_flight. For several, repeat the flag: they replace all of
    /// the policy's
    #[arg(long = "quota", id = "quota", value_name = "QUOTA", allow_hyphen_values = true)]
    pub quotas: Vec<String>,

    /// Count nothing and admit everything, as far as this policy is concerned
    #[arg(long)]
    pub unlimited: bool,

    /// Deny every request with status 403
    #[arg(long)]
    pub deny: bool,

    /// When the override ends, such as 2026-12-24T00:00:00Z; from that millisecond on, it does not apply [default: never]
    #[arg(long, value_name = "TIME", value_parser = value::expiry, conflicts_with = "lasting")]
    #[arg(allow_hyphen_values = true)]
    pub until: Option<jiff::Timestamp>,

    /// How long the override applies, by the store's clock, such as 30m, 2h or 7d [default: without an end]
    #[arg(long = "for", id = "lasting", value_name = "TIME", allow_hyphen_values = true)]
    pub lasting: Option<String>,

    /// Label to find it by, such as ticket-4711: 1 to 64 letters, digits, `-`, `_` and `.`
    #[arg(long, value_name = "LABEL", allow_hyphen_values = true)]
    pub label: Option<String>,

    /// Reason, for people: 1 to 200 characters. Every principal that may list overrides reads it, so name no key in it
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub note: Option<String>,

    /// Change the override only if it still has this version, as `get` and `set` print it
    #[arg(long, value_name = "VERSION", value_parser = version, conflicts_with = "if_absent")]
    pub if_match: Option<HeaderValue>,

    /// Set the override only if the target has none
    #[arg(long)]
    pub if_absent: bool,

    /// The service.
    #[command(flatten)]
    pub service: OverrideServiceArgs,
}

/// Flags of `tollgate override get`.
#[derive(Debug, clap::Args)]
pub struct GetOverrideArgs {
    /// The override.
    #[command(flatten)]
    pub named: NamedOverrideArgs,

    /// The service.
    #[command(flatten)]
    pub service: OverrideServiceArgs,
}

/// Flags of `tollgate override delete`.
#[derive(Debug, clap::Args)]
pub struct DeleteOverrideArgs {
    /// The override.
    #[command(flatten)]
    pub named: NamedOverrideArgs,

    /// Delete the override only if it still has this version, as `get` and `set` print it
    #[arg(long, value_name = "VERSION", value_parser = version)]
    pub if_match: Option<HeaderValue>,

    /// The service.
    #[command(flatten)]
    pub service: OverrideServiceArgs,
}

/// Flags of `tollgate override list`.
#[derive(Debug, clap::Args)]
pub struct ListOverridesArgs {
    /// Only the overrides of this policy
    #[arg(long, value_name = "NAME", value_parser = value::name_of_file)]
    pub policy: Option<String>,

    /// Only the overrides with this label
    #[arg(long, value_name = "LABEL", allow_hyphen_values = true)]
    pub label: Option<String>,

    /// Only the overrides whose id comes after this one: the next page of an earlier list
    #[arg(long, value_name = "ID", conflicts_with = "all")]
    pub after: Option<String>,

    /// List all of them, not only the first 100
    #[arg(long)]
    pub all: bool,

    /// The service.
    #[command(flatten)]
    pub service: OverrideServiceArgs,
}

/// What an override is for.
#[derive(Debug, clap::Args)]
#[group(id = "target", required = true, multiple = false)]
pub struct TargetArgs {
    /// One key of the policy: the value of each attribute of the key, such as user=alice. For several attributes, repeat
    /// the flag; `global` is the key of a policy with `key: global`
    #[arg(long, value_name = "NAME=VALUE", value_parser = key_part)]
    pub key: Vec<KeyPart>,

    /// All requests in which this attribute has this value, such as tenant=acme
    #[arg(long, value_name = "NAME=VALUE", value_parser = value::attribute)]
    pub is: Option<(String, String)>,

    /// All requests in which this attribute begins with this text, such as tenant=acme-
    #[arg(long, value_name = "NAME=TEXT", value_parser = value::attribute)]
    pub prefix: Option<(String, String)>,
}

/// An override that exists, by its target or by its id.
#[derive(Debug, clap::Args)]
pub struct NamedOverrideArgs {
    /// Its policy
    #[arg(long, value_name = "NAME", value_parser = value::name_of_file)]
    #[arg(required_unless_present = "id", conflicts_with = "id")]
    pub policy: Option<String>,

    /// Its id, as `list` prints it, instead of policy and target
    #[arg(long, value_name = "ID", group = "target")]
    pub id: Option<String>,

    /// Its target.
    #[command(flatten)]
    pub target: TargetArgs,
}

/// The service that has the overrides.
#[derive(Debug, clap::Args)]
pub struct OverrideServiceArgs {
    /// The admin listener of the service, as a URL, as HOST:PORT or as unix:/PATH
    #[arg(long, value_name = "URL", env = "TOLLGATE_ADMIN_SERVER", default_value = "http://127.0.0.1:8090")]
    #[arg(value_parser = value::service)]
    pub server: ServiceAddress,

    /// File with a token that has the scope `overrides`; a client certificate can replace it
    #[arg(long, value_name = "FILE", env = "TOLLGATE_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,

    /// Print the service's answer as JSON in ASCII
    #[arg(long)]
    pub json: bool,

    /// TLS of the connection.
    #[command(flatten)]
    pub tls: ClientTlsArgs,
}

/// A part of a key as a flag has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPart {
    /// The key of a policy that counts all requests together.
    Global,
    /// An attribute and its value.
    Attribute(String, String),
}

/// Parses a part of a key.
fn key_part(text: &str) -> Result<KeyPart, ExpectedForm> {
    if text == "global" {
        return Ok(KeyPart::Global);
    }
    let attribute = value::attribute(text);
    attribute
        .map(|(name, value)| KeyPart::Attribute(name, value))
        .map_err(|_| "expected NAME=VALUE, such as user=alice, or global")
}

/// Parses the version of an override, with or without the quotes of an entity tag.
fn version(text: &str) -> Result<HeaderValue, ExpectedForm> {
    const EXPECTED: ExpectedForm = "expected a version such as 00d1a2b3c4d5e6f7.12";
    let bare = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    let (epoch, number) = bare.split_once('.').ok_or(EXPECTED)?;
    let is_epoch = epoch.len() == 16 && epoch.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_number = number.parse::<u64>().is_ok() && number.bytes().all(|byte| byte.is_ascii_digit());
    if !is_epoch || !is_number {
        return Err(EXPECTED);
    }
    HeaderValue::from_str(&format!("\"{bare}\"")).map_err(|_| EXPECTED)
}
