//! Invalid settings, in words.

use std::net::SocketAddr;

use thiserror::Error;
use tollgate_policy::ConfigError;
use tollgate_redis::{KeyLayout, TlsError, UrlError};

use super::flags::FlagsError;
use super::import::ImportError;
use crate::access::address::{ListenAddress, SocketMode, SocketPath};
use crate::args::{AnswerSystem, Flag, FlagWith, IMPORT_FOLDER};
use crate::decide::hold_seal::HoldSecretError;
use crate::observe::with_sources::WithSources;
use crate::overrides::JournalError;
use crate::store::StoreSetupError;
use crate::store::fit::Misfit;
use crate::talkers::TalkersSecretError;
use crate::tls::TlsFileError;

/// Invalid settings. The fault of the flags, or of the files that they name.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The quotas or the key's attributes contradict each other.
    #[error(transparent)]
    Flags(#[from] FlagsError),
    /// The file of policies cannot be read, or is not valid.
    #[error("`{}`: {}", Flag("--config"), of_file(.0))]
    Config(#[from] ConfigError),
    /// The file of principals cannot be read, or is not valid.
    #[error("`{}`: {}", Flag("--tokens"), of_file(.0))]
    Tokens(ConfigError),
    /// Other hosts can reach the admin listener, and it accepts everyone.
    #[error(
        "`{}` can be reached by other hosts, and anyone who reaches it can change counters: restrict access with \
         `--tokens` or `--tls-client-ca`, or allow everyone with `--insecure-admin`; to expose only metrics, use \
         `--metrics-listen`",
        FlagWith("--admin-listen", .0)
    )]
    OpenAdmin(SocketAddr),
    /// Other users of this machine can reach the admin listener, and it accepts everyone.
    #[error(
        "`{}` lets other users of this machine connect to the admin listener, and anyone who does can change counters: \
         leave it at 0600, restrict access with `--tokens`, or allow everyone with `--insecure-admin`",
        FlagWith("--unix-mode", .0)
    )]
    OpenAdminSocket(SocketMode),
    /// A mode of Unix sockets, without any.
    #[error("`{}` needs a listener at a Unix socket, such as `--listen unix:/PATH`", Flag("--unix-mode"))]
    NeedlessUnixMode,
    /// Proxies are trusted over a Unix socket that does not exist.
    #[error("`{}` needs `--listen unix:/PATH`: proxies ask on this listener", FlagWith("--trusted-proxy", &"unix"))]
    NeedlessUnixProxy,
    /// Log lines would lead to a page that does not exist.
    #[error(
        "`{}` leads to the live page, which `--dashboard off` removes: leave one of them out",
        Flag("--public-url")
    )]
    NeedlessPublicUrl,
    /// Keys would be shown to everyone who reaches the admin listener.
    #[error(
        "`{}` shows keys to principals with the scope `keys`, and without `--tokens` there are no principals",
        FlagWith("--talkers", &"plain")
    )]
    PlainTalkersForAll,
    /// Talkers are for the live page, which does not exist.
    #[error("`--talkers` and `--talkers-secret` are about the live page, which `{}` removes", FlagWith("--dashboard", &"off"))]
    NeedlessTalkers,
    /// A secret for ids that do not exist.
    #[error("`{}` has no effect with `{}`: leave out one of them", Flag("--talkers-secret"), FlagWith("--talkers", &"off"))]
    NeedlessTalkersSecret,
    /// The secret of ids cannot be used.
    #[error("`{}`: {}", Flag("--talkers-secret"), WithSources(.0))]
    TalkersSecret(TalkersSecretError),
    /// No listener accepts checks.
    #[error("`{}` needs `--grpc`: no listener would accept checks", FlagWith("--listen", &"none"))]
    NoChecks,
    /// The settings of another system cannot be imported.
    #[error("`{}`: {}", of_import_flag(.0), of_import(.0))]
    Import(#[from] ImportError),
    /// The URL of the store in another system's settings is invalid. It is not repeated, because it may hold a
    /// password.
    #[error("`{}`: {place} cannot be used: {source}", Flag("--import"))]
    ImportedStoreUrl {
        /// The variable or setting.
        place: &'static str,
        /// The fault.
        source: UrlError,
    },
    /// A certificate or key that another system's settings name for the store cannot be used.
    #[error(
        "`{}`: REDIS_TLS_CACERT, REDIS_TLS_CLIENT_CERT, REDIS_TLS_CLIENT_KEY: {}",
        Flag("--import"),
        WithSources(.0)
    )]
    ImportedStoreTls(TlsError),
    /// Limit headers are those of policies, but Envoy's limits decide.
    #[error(
        "`{}` cannot be used with the limits of envoyproxy/ratelimit: set LIMIT_RESPONSE_HEADERS_ENABLED=true",
        Flag("--grpc-limit-headers")
    )]
    NeedlessLimitHeaders,
    /// The flag is about paths that use policies, but the limits of envoyproxy/ratelimit replace them.
    #[error(
        "`{}` cannot be used with the limits of envoyproxy/ratelimit: they answer over gRPC and at `/json`{effect}",
        Flag(flag)
    )]
    NeedlessForDomains {
        /// The flag.
        flag: &'static str,
        /// The effect that it lacks.
        effect: &'static str,
    },
    /// Metric names for the limits of envoyproxy/ratelimit, without such limits.
    #[error(
        "`{}` is about the limits of envoyproxy/ratelimit: start with `--import envoy-ratelimit`",
        FlagWith("--metric-aliases", &"envoy-ratelimit")
    )]
    AliasesOfDomains,
    /// The layout of keys has no place for descriptors.
    #[error(
        "`{}` cannot be used with the limits of envoyproxy/ratelimit: leave it out, or use `envoy-ratelimit`",
        Flag("--store-layout")
    )]
    LayoutOfOthers,
    /// `--answers` names another system than `--import`.
    #[error(
        "`{}` conflicts with `{}`, which already sets the format of the answers",
        FlagWith("--answers", asked),
        FlagWith("--import", imported)
    )]
    OtherAnswers {
        /// The system of `--answers`.
        asked: AnswerSystem,
        /// The system of `--import`.
        imported: AnswerSystem,
    },
    /// Requests in the system's format cannot have a key attribute of the policy.
    #[error(
        "`{}` does not supply `{attribute}`, which the key of policy `{policy}` needs: no request in this format \
         could be answered",
        FlagWith("--answers", dialect)
    )]
    NobodyTold {
        /// The system of `--answers`.
        dialect: AnswerSystem,
        /// The key attribute.
        attribute: Box<str>,
        /// The policy.
        policy: Box<str>,
    },
    /// The imported system needs a store, and none is configured.
    #[error("`{}`: no store is configured: set REDIS_URL or pass `--store`", Flag("--import"))]
    StoreMissing,
    /// The store cannot count a policy.
    #[error("`{flag}`: {0}", flag = Flag("--store-layout"))]
    Misfit(#[from] Misfit),
    /// A layout of keys needs key attributes, and there are none.
    #[error(
        "`{}` needs `--key`: the attributes whose values fill its keys, such as `--key user`",
        Flag("--store-layout")
    )]
    LayoutWithoutKey,
    /// Callers' limits need separate keys, which layouts of other systems do not have.
    #[error(
        "`{flag}` cannot be used with a key layout (`{0}`): callers' limits could share counters with policies",
        flag = Flag("--caller-quotas")
    )]
    CallerQuotasUnderLayout(KeyLayout),
    /// The secret for holds cannot be read, or is too short.
    #[error("`{}`: {}", Flag("--hold-secret-file"), WithSources(.0))]
    HoldSecret(HoldSecretError),
    /// A certificate or key of the listeners cannot be used.
    #[error("`{}`: {}", Flag(.0.flag), .0)]
    ListenerTls(#[from] TlsFileError),
    /// TLS on a listener that does not exist.
    #[error("`{}` needs an address of this listener: pass `{flag}`", FlagWith("--tls-on", listener))]
    TlsOnNothing {
        /// Its name.
        listener: &'static str,
        /// The flag of its address.
        flag: &'static str,
    },
    /// TLS at a Unix socket.
    #[error(
        "`{}` cannot be used with `{path}`: a Unix socket is served without TLS",
        FlagWith("--tls-on", listener)
    )]
    TlsOnUnix {
        /// The name of the listener.
        listener: &'static str,
        /// Its socket.
        path: SocketPath,
    },
    /// A certificate that no listener would show.
    #[error(
        "`{}` has no effect: all listeners but `--plain-probes` are at Unix sockets, which are served without TLS",
        Flag("--tls-cert")
    )]
    NeedlessTls,
    /// A clock for tests would not be the clock of a shared store.
    #[error("`{}` needs counters in memory, but a store is configured", Flag("--test-clock"))]
    TestClockOfStore,
    /// With a clock for tests, everyone who reaches the service could end windows.
    #[error(
        "`{}` needs addresses that no other host can reach: `{}` is not one",
        Flag("--test-clock"),
        FlagWith(flag, address)
    )]
    OpenTestClock {
        /// The flag of a listener.
        flag: &'static str,
        /// Its address.
        address: ListenAddress,
    },
    /// A folder for overrides, which a shared store keeps itself.
    #[error(
        "`{}` is for counters in memory, and a store is configured: it keeps the overrides itself, so leave out the \
         folder",
        Flag("--state-dir")
    )]
    StateDirOfStore,
    /// A folder for overrides that are turned off.
    #[error("`{}` has no effect with `{}`: leave out one of them", Flag("--state-dir"), FlagWith("--max-overrides", &0))]
    StateDirWithoutOverrides,
    /// A number of overrides, but no place for any.
    #[error(
        "`{}` has no effect, because nothing keeps overrides: add `--state-dir FOLDER` or a shared store",
        Flag("--max-overrides")
    )]
    NeedlessMaxOverrides,
    /// The folder of the overrides cannot be used.
    #[error("`{}`: {}", Flag("--state-dir"), .0)]
    StateDir(#[from] JournalError),
    /// A share without `--on-store-failure local`.
    #[error("`{}` is only valid with `--on-store-failure local`", Flag("--local-share"))]
    NeedlessShare,
    /// `--on-store-failure local` without a share.
    #[error(
        "`{}` needs `--local-share`, such as 1/3 for one of three processes",
        FlagWith("--on-store-failure", &"local")
    )]
    MissingShare,
    /// The settings of the shared store contradict each other, or a file that they name cannot be read.
    #[error(transparent)]
    StoreSetup(#[from] StoreSetupError),
}

/// Lists the problems of a file, one a line.
fn of_file(error: &ConfigError) -> String {
    match error {
        ConfigError::Invalid { files, .. } => match files.as_ref() {
            [file] => format!("{file} is not valid\n{error}"),
            _ => format!("the files are not valid\n{error}"),
        },
        error => WithSources(error).to_string(),
    }
}

/// Returns the flag, or the variable of another program that named the folder.
fn of_import_flag(error: &ImportError) -> Flag {
    let names_folder =
        matches!(error, ImportError::File(_)) && Flag(IMPORT_FOLDER).original_variable().is_some();
    Flag(if names_folder { IMPORT_FOLDER } else { "--import" })
}

fn of_import(error: &ImportError) -> String {
    match error {
        ImportError::File(error) => of_file(error),
        error => error.to_string(),
    }
}
