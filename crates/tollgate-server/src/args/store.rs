//! Flags about a shared store: its address, and the settings for its connections.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use tollgate::LocalShare;
use tollgate_redis::KeyLayout;

use super::{Secret, value};

/// Settings for the connections to a shared store, for every command that has one.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = super::SHARED_STORE)]
pub struct StoreArgs {
    /// How long a decision waits for the store
    #[arg(long, value_name = "TIME", env = "TOLLGATE_STORE_TIMEOUT", default_value = "100ms")]
    #[arg(value_parser = value::time, requires = "shared", allow_hyphen_values = true)]
    pub store_timeout: Duration,

    /// How long a connection to the store may take to open
    #[arg(long, value_name = "TIME", env = "TOLLGATE_STORE_CONNECT_TIMEOUT", default_value = "500ms")]
    #[arg(value_parser = value::time, requires = "shared", allow_hyphen_values = true)]
    pub store_connect_timeout: Duration,

    /// The layout of keys.
    #[command(flatten)]
    pub keys: StoreKeyArgs,

    /// How the names of counters in the store show the key
    #[arg(long, value_name = "FORM", env = "TOLLGATE_IDENTITY", default_value = "digest")]
    #[arg(requires = "shared")]
    pub identity: IdentityForm,

    /// File with a secret of at least 32 bytes, the same for all processes that count together. It goes into the
    /// digests of keys, so that nobody without it can test which keys were counted. A different secret starts new
    /// counters [default: none]
    #[arg(long, value_name = "FILE", env = "TOLLGATE_IDENTITY_SECRET_FILE", requires = "shared")]
    pub identity_secret_file: Option<PathBuf>,

    /// Certificates (PEM) of the authorities that may sign the store's certificate, or that certificate itself
    /// [default: those of the system]
    #[arg(long, value_name = "FILE", env = "TOLLGATE_STORE_CA", requires = "shared")]
    pub store_ca: Option<PathBuf>,

    /// Client certificate (PEM) for the store
    #[arg(long, value_name = "FILE", env = "TOLLGATE_STORE_CERT", requires_all = ["shared", "store_key"])]
    pub store_cert: Option<PathBuf>,

    /// Private key (PEM) of that certificate
    #[arg(long, value_name = "FILE", env = "TOLLGATE_STORE_KEY", requires_all = ["shared", "store_cert"])]
    pub store_key: Option<PathBuf>,

    /// File with the store's password, which each new connection reads again; the variable TOLLGATE_STORE_PASSWORD
    /// takes the password itself. Both override one in the URL
    #[arg(long, value_name = "FILE", env = "TOLLGATE_STORE_PASSWORD_FILE", requires = "shared")]
    pub store_password_file: Option<PathBuf>,

    /// User for the Sentinels, if not their default user; the store's own user is in the URL
    #[arg(long, value_name = "NAME", env = "TOLLGATE_STORE_SENTINEL_USER", requires = "shared")]
    pub store_sentinel_user: Option<String>,

    /// File with the password of the Sentinels, which never get the store's password; the variable
    /// TOLLGATE_STORE_SENTINEL_PASSWORD takes the password itself
    #[arg(long, value_name = "FILE", env = "TOLLGATE_STORE_SENTINEL_PASSWORD_FILE", requires = "shared")]
    pub store_sentinel_password_file: Option<PathBuf>,

    /// The value of `TOLLGATE_STORE_PASSWORD`. There is no flag, because every user of a machine can read flags.
    #[arg(skip)]
    pub password: Option<Secret>,

    /// The value of `TOLLGATE_STORE_SENTINEL_PASSWORD`.
    #[arg(skip)]
    pub sentinel_password: Option<Secret>,
}

/// The form of keys in a shared store, for every command that needs it.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = super::SHARED_STORE)]
pub struct StoreKeyArgs {
    /// Prefix of every key in the store. To keep services separate, give each its own prefix, even if their limits
    /// differ. A layout uses it only if it names {prefix} [default: that of the file, else tollgate]
    #[arg(long, value_name = "TEXT", env = "TOLLGATE_STORE_PREFIX")]
    #[arg(requires = "shared")]
    pub store_prefix: Option<String>,

    /// Layout of keys, as another system writes them, to share its counters: rlaas, leetdezine, spring-starter,
    /// user-rate-limit, envoy-ratelimit, or a template such as limit:{user}:{window} [default: that of the file, else
    /// our own]
    #[arg(long, value_name = "LAYOUT", env = "TOLLGATE_STORE_LAYOUT")]
    #[arg(value_parser = value::layout, requires = "shared")]
    pub store_layout: Option<KeyLayout>,
}

/// The settings for a Cluster.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = super::SHARED_STORE)]
pub struct ClusterArgs {
    /// How to handle policies that count different keys of one request on a Cluster [default: that of the file, else
    /// refuse]
    #[arg(long, value_name = "WORD", env = "TOLLGATE_STORE_ACROSS_SLOTS", requires = "shared")]
    pub store_across_slots: Option<AcrossSlotsChoice>,
}

/// The settings for an outage of the shared store.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = super::SHARED_STORE)]
pub struct FailureArgs {
    /// Answer to checks while the store cannot answer [default: open; with --import, that system's behaviour]
    #[arg(long, value_name = "POLICY", env = "TOLLGATE_ON_STORE_FAILURE", requires = "shared")]
    pub on_store_failure: Option<OnStoreFailure>,

    /// With `--on-store-failure local`: the share of each limit that this process then admits, such as 1/3 for one of
    /// three
    #[arg(long, value_name = "SHARE", env = "TOLLGATE_LOCAL_SHARE", value_parser = value::share)]
    #[arg(required_if_eq("on_store_failure", "local"), requires = "shared", allow_negative_numbers = true)]
    pub local_share: Option<LocalShare>,
}

/// How to handle requests whose counters are in several slots of a Cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AcrossSlotsChoice {
    /// Refuse to start with such policies.
    Refuse,
    /// Charge slot by slot, and give the units back if one slot denies.
    Reserve,
}

/// The answer during an outage of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnStoreFailure {
    /// Admit without counting.
    Open,
    /// Refuse with status 503.
    Closed,
    /// Count in this process's memory, against its share.
    Local,
}

/// How the name of a counter in the store shows its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IdentityForm {
    /// Half of its SHA-256, or of its HMAC with a secret.
    Digest,
    /// Plain text: anyone who can read the store can read personal and secret keys.
    Plain,
}

impl From<AcrossSlotsChoice> for tollgate_redis::AcrossSlots {
    fn from(across_slots: AcrossSlotsChoice) -> Self {
        match across_slots {
            AcrossSlotsChoice::Refuse => Self::Refuse,
            AcrossSlotsChoice::Reserve => Self::Reserve,
        }
    }
}
