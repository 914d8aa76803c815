//! What the service is built from: ready objects, made of what the user wrote.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use tollgate::{CountDenied, MemoryStore, OnStoreFailure};
use tollgate_envoy::Charging;
use tollgate_policy::{ConfigError, Policies, Warning, WhenFull};
use tollgate_redis::{AcrossSlots, IdentitySecretError, KeyLayout, PasswordError, TlsError, UrlError};

use crate::args::{self, Flag, FlagWith, GrpcArgs, LogFormat, MetricAliases, ServeArgs, TlsArgs};
use crate::envoy::InitialDomains;
use crate::fit::{Misfit, StoreFit, StoreFlags};
use crate::flags::{self, FlagsError};
use crate::http::{Asking, Dialect};
use crate::import::{Import, ImportError, Imported, ImportedDomains, other_spring_variables};
use crate::listener::AllowedHosts;
use crate::policy_files::PolicyFiles;
use crate::principals::{Principal, PrincipalFile};
use crate::receipts::{ReceiptSecretError, Receipts};
use crate::store::StoreSetup;
use crate::tls::{ServerTls, TlsFileError, TlsFiles};
use crate::with_sources::WithSources;

/// Everything that [`serve`](crate::serve) needs.
#[derive(Debug)]
pub struct Settings {
    pub(crate) policies: InitialPolicies,
    /// Limits of Envoy's service, if the service was started with some.
    pub(crate) envoy: Option<InitialDomains>,
    /// Counters of this process: all, or those of a shared store's trouble.
    pub(crate) memory: MemoryStore,
    /// A store that others share.
    pub(crate) store: Option<StoreSetup>,
    pub(crate) when_full: WhenFull,
    /// How callers may ask besides.
    pub(crate) asking: Asking,
    /// The other system by whose names metrics are called besides.
    pub(crate) metric_aliases: Option<MetricAliases>,
    pub(crate) listen: SocketAddr,
    pub(crate) admin_listen: SocketAddr,
    pub(crate) metrics_listen: Option<SocketAddr>,
    pub(crate) grpc: Option<GrpcSettings>,
    /// Under which names browsers may ask what is guarded.
    pub(crate) allowed_hosts: AllowedHosts,
    /// Who may do what, if not everybody.
    pub(crate) principals: Option<(PrincipalFile, Vec<Principal>)>,
    pub(crate) tls: Option<ServerTls>,
    /// Files of secrets besides the key of `tls`, which may be changed while the service runs.
    pub(crate) secret_files: Vec<PathBuf>,
    pub(crate) max_connections: u32,
    pub(crate) max_connections_per_peer: Option<u32>,
    /// Bytes of bodies that are on their way.
    pub(crate) body_memory: usize,
    /// Bytes of an attribute's value.
    pub(crate) max_attribute_bytes: usize,
    /// Between the signal that ends the service and the drain.
    pub(crate) drain_delay: Option<Duration>,
    /// How log lines are written.
    pub log_format: LogFormat,
}

/// The gRPC listener.
#[derive(Debug)]
pub(crate) struct GrpcSettings {
    pub(crate) listen: SocketAddr,
    /// Whether answers have the limit headers for the client.
    pub(crate) limit_headers: bool,
    pub(crate) max_connection_age: Option<Duration>,
    /// Between two pings to a client.
    pub(crate) keep_alive: Duration,
}

/// The policies to begin with, and where they are from.
#[derive(Debug)]
pub(crate) struct InitialPolicies {
    pub(crate) policies: Policies,
    /// For people.
    pub(crate) source: Box<str>,
    pub(crate) file: Option<PolicyFiles>,
    /// What is worth a line of the log each.
    pub(crate) notes: Vec<String>,
    /// What is probably a mistake in it.
    pub(crate) warnings: Box<[Warning]>,
    /// Whether the file names a store and a flag another one.
    pub(crate) other_store: bool,
}

/// Settings that cannot be. The fault of whoever wrote the flags, or the files that they name.
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
    /// An admin listener that others can reach and that asks nobody who they are.
    #[error(
        "`{}` is an address that other hosts can reach, and whoever reaches it can change counters: say who may with \
         `--tokens` or `--tls-client-ca`, or that everybody may with `--insecure-admin`; metrics alone can have `--metrics-listen`",
        FlagWith("--admin-listen", .0)
    )]
    OpenAdmin(SocketAddr),
    /// The store's URL is none. It is not repeated, because it may hold a password.
    #[error("`{flag}`: {0}", flag = Flag("--store"))]
    StoreUrl(UrlError),
    /// The store's URL is none in the file of policies. It is not repeated, because it may hold a password.
    #[error("`{flag}`: the file's `store: url:` cannot be used: {0}", flag = Flag("--config"))]
    FileStoreUrl(UrlError),
    /// What another system says cannot be imported.
    #[error("`{}`: {}", Flag("--import"), of_import(.0))]
    Import(#[from] ImportError),
    /// The store's URL is none where another system says it. It is not repeated, because it may hold a password.
    #[error("`{}`: {place} cannot be used: {source}", Flag("--import"))]
    ImportedStoreUrl {
        /// The variable or setting.
        place: &'static str,
        /// What is wrong with it.
        source: UrlError,
    },
    /// Headers of policies, and limits that are none of theirs.
    #[error(
        "`{}` does not go with the limits of envoyproxy/ratelimit: set LIMIT_RESPONSE_HEADERS_ENABLED=true",
        Flag("--grpc-limit-headers")
    )]
    NeedlessLimitHeaders,
    /// Keys that have no place for descriptors.
    #[error(
        "`{}` does not go with the limits of envoyproxy/ratelimit: leave it out, or say `envoy-ratelimit`",
        Flag("--store-layout")
    )]
    LayoutOfOthers,
    /// The callers of a system that is imported, answered as those of another.
    #[error(
        "`{}` does not go with `{}`, whose callers are answered as there",
        FlagWith("--answers", asked),
        FlagWith("--import", imported)
    )]
    OtherAnswers {
        /// The system that is to be answered as.
        asked: &'static Dialect,
        /// The one that is imported.
        imported: &'static Dialect,
    },
    /// The callers of a system cannot say whom the policy counts.
    #[error(
        "`{}` tells nothing of `{attribute}`, by which the policy `{policy}` counts: no request there \
         could be answered",
        FlagWith("--answers", dialect)
    )]
    NobodyTold {
        /// The system that is to be answered as.
        dialect: &'static Dialect,
        /// What says who is counted.
        attribute: Box<str>,
        /// The policy.
        policy: Box<str>,
    },
    /// Another system needs a store, and nobody names one.
    #[error("`{}`: nothing says where the store is: set REDIS_URL, or say `--store`", Flag("--import"))]
    StoreMissing,
    /// The store cannot count a policy.
    #[error("`{flag}`: {0}", flag = Flag("--store-layout"))]
    Misfit(#[from] Misfit),
    /// A layout of keys, and no attributes that are its values.
    #[error(
        "`{}` needs `--key`: the attributes that are the values of its keys, such as `--key user`",
        Flag("--store-layout")
    )]
    LayoutWithoutKey,
    /// A prefix that would be in no key.
    #[error(
        "`{prefix}` would mean nothing: the layout of keys, `{0}`, does not name {{prefix}}; leave out the prefix, \
         or name it in a layout of your own (`{layout}`)",
        prefix = Flag("--store-prefix"),
        layout = Flag("--store-layout")
    )]
    NeedlessPrefix(KeyLayout),
    /// Limits of callers in keys of another system, which do not tell them from those of policies.
    #[error(
        "`{flag}` does not go with a layout of keys (`{0}`): limits of callers could share counters with policies",
        flag = Flag("--caller-quotas")
    )]
    CallerQuotasUnderLayout(KeyLayout),
    /// There is no secret for receipts where it was to be found.
    #[error("`{}`: the file {}", Flag("--receipt-secret-file"), WithSources(.0))]
    ReceiptSecret(ReceiptSecretError),
    /// There is no secret for digests of keys where it was to be found.
    #[error("`{}`: {}", Flag("--identity-secret-file"), WithSources(.0))]
    IdentitySecret(#[from] IdentitySecretError),
    /// A secret for digests, and keys that are none.
    #[error(
        "`{}` goes with digests only: leave it out, or leave out `{}` or the layout of keys",
        Flag("--identity-secret-file"),
        FlagWith("--identity", &"plain")
    )]
    NeedlessIdentitySecret,
    /// There is no password where it was to be found.
    #[error("`{}`: {}", Flag(.flag), WithSources(.source))]
    Password {
        /// The flag that names the file.
        flag: &'static str,
        /// What is wrong with it.
        source: PasswordError,
    },
    /// A certificate or key cannot be read, or is none.
    #[error("`{}`, `{}`, `{}`: {}", Flag("--store-ca"), Flag("--store-cert"), Flag("--store-key"), WithSources(.0))]
    Tls(#[from] TlsError),
    /// A certificate or key of the listeners cannot be used.
    #[error("`{}`: {}", Flag(.0.flag), .0)]
    ListenerTls(#[from] TlsFileError),
    /// The password comes from two places.
    #[error("both `{}` and {variable} are given; keep one of them", Flag(.flag))]
    TwoPasswords {
        /// The flag that names a file with it.
        flag: &'static str,
        /// The variable that holds it.
        variable: &'static str,
    },
    /// A user in the URL without a password.
    #[error(
        "the store's URL names a user, who needs a password: say `--store-password-file`, or set \
         TOLLGATE_STORE_PASSWORD"
    )]
    PasswordMissing,
    /// A user for the Sentinels without a password.
    #[error(
        "`{}` needs a password: say `--store-sentinel-password-file`, or set \
         TOLLGATE_STORE_SENTINEL_PASSWORD",
        Flag("--store-sentinel-user")
    )]
    SentinelPasswordMissing,
    /// The store's settings contradict each other.
    #[error("the store: {}", WithSources(.0))]
    Store(#[from] tollgate_redis::SettingsError),
    /// A share for a policy that has none.
    #[error("`{}` goes with `--on-store-failure local` only", Flag("--local-share"))]
    NeedlessShare,
    /// A policy without its share.
    #[error(
        "`{}` needs `--local-share`, such as 1/3 for one of three processes",
        FlagWith("--on-store-failure", &"local")
    )]
    MissingShare,
}

/// The problems of a file, a line each.
fn of_file(error: &ConfigError) -> String {
    match error {
        ConfigError::Invalid { files, .. } => match files.as_ref() {
            [file] => format!("{file} is not valid\n{error}"),
            _ => format!("the files are not valid\n{error}"),
        },
        error => WithSources(error).to_string(),
    }
}

fn of_import(error: &ImportError) -> String {
    match error {
        ImportError::File(error) => of_file(error),
        error => error.to_string(),
    }
}

impl Settings {
    /// Resolves what the user wrote.
    ///
    /// # Errors
    ///
    /// If flags contradict each other, or a file that they name cannot be read.
    pub fn new(args: ServeArgs) -> Result<Self, SettingsError> {
        let principals = args.tokens.as_deref().map(PrincipalFile::load);
        let principals = principals.transpose().map_err(SettingsError::Tokens)?;
        check_admin(&args)?;
        let Resolved { mut policies, envoy, store, dialect } = match args.config.as_slice() {
            [] if args.import.is_empty() => from_flags(&args)?,
            [] => from_import(&args)?,
            paths => from_files(paths, &args)?,
        };
        if envoy.is_some() && args.grpc_args.grpc_limit_headers {
            return Err(SettingsError::NeedlessLimitHeaders);
        }
        let dialect = args.answers.or(dialect);
        if let Some(dialect) = dialect {
            check_dialect(dialect, &policies)?;
            let ignored = if dialect.is_starter() { other_spring_variables(&[]) } else { Vec::new() };
            if !ignored.is_empty() {
                let ignored = ignored.join(", ");
                policies.notes.push(format!("variables of the starter that mean nothing here: {ignored}"));
            }
        }
        if let Some(layout) = store.as_ref().and_then(|store| store.layout.clone())
            && args.caller_quotas
            && envoy.is_none()
        {
            return Err(SettingsError::CallerQuotasUnderLayout(layout));
        }
        // The secret of digests is refused if everybody can read it.
        let secret_files = [
            &args.receipt_secret_file,
            &args.store_args.store_password_file,
            &args.store_args.store_sentinel_password_file,
            &args.store_args.store_key,
        ];
        let secret_files = secret_files.into_iter().flatten().cloned().collect();
        let receipts = args
            .receipt_secret_file
            .as_deref()
            .map_or_else(|| Ok(Receipts::of_process()), Receipts::from_file);
        let receipts = receipts.map_err(SettingsError::ReceiptSecret)?;
        let TlsArgs { tls_cert, tls_key, tls_client_ca } = args.tls;
        let files = tls_cert.zip(tls_key).map(|(certificate, key)| TlsFiles {
            certificate,
            key,
            client_authorities: tls_client_ca,
        });
        Ok(Self {
            policies,
            envoy,
            memory: MemoryStore::builder().max_counters(args.max_counters.get()).build(),
            store: store.map(|store| store.local_denials(args.local_denials)),
            when_full: args.when_full.into(),
            asking: Asking { dialect, receipts, caller_quotas: args.caller_quotas },
            metric_aliases: args.metric_aliases,
            listen: args.listen,
            admin_listen: args.admin_listen,
            metrics_listen: args.metrics_listen,
            grpc: args.grpc.map(|listen| GrpcSettings::new(listen, &args.grpc_args)),
            allowed_hosts: AllowedHosts::new(&args.allowed_hosts),
            principals,
            tls: files.map(ServerTls::load).transpose()?,
            secret_files,
            max_connections: args.max_connections.get(),
            max_connections_per_peer: args.max_connections_per_peer.map(NonZeroU32::get),
            body_memory: args.body_memory.get(),
            max_attribute_bytes: args.max_attribute_bytes.get(),
            drain_delay: args.drain_delay,
            log_format: args.log_format,
        })
    }
}

/// That an admin listener that other hosts can reach knows who asks, or need not.
fn check_admin(args: &ServeArgs) -> Result<(), SettingsError> {
    let is_local = args.admin_listen.ip().to_canonical().is_loopback();
    let knows_callers = args.tokens.is_some() || args.tls.tls_client_ca.is_some();
    if is_local || knows_callers || args.insecure_admin {
        return Ok(());
    }
    Err(SettingsError::OpenAdmin(args.admin_listen))
}

/// What depends on where policies come from.
struct Resolved {
    policies: InitialPolicies,
    envoy: Option<InitialDomains>,
    store: Option<StoreSetup>,
    dialect: Option<&'static Dialect>,
}

/// Policies from files, and the store that they or a flag name.
fn from_files(paths: &[PathBuf], args: &ServeArgs) -> Result<Resolved, SettingsError> {
    let url = args.store.as_ref().map(StoreSetup::url_of_flag).transpose()?;
    let flags = StoreFlags::new(url.as_ref(), &args.store_args.keys, &args.cluster);
    let (file, config) = PolicyFiles::load(paths, &flags)?;
    let (of_file, layout) = (config.store(), file.layout());
    let across_slots = flags.across_slots(of_file);
    let store = match (&url, of_file) {
        (Some(url), of_file) => Some(StoreSetup::of(url.clone(), of_file, layout, &args.store_args)?),
        (None, Some(of_file)) => Some(StoreSetup::of_file(of_file, layout, &args.store_args)?),
        (None, None) => None,
    };
    let store = store.map(|store| store.across_slots(across_slots));
    let other_store = of_file.is_some() && args.store.is_some();
    let (source, warnings) = (file.name().into(), config.warnings().into());
    let policies = config.into_policies();
    let policies =
        InitialPolicies { policies, source, file: Some(file), notes: Vec::new(), warnings, other_store };
    Ok(Resolved { policies, envoy: None, store, dialect: None })
}

fn from_flags(args: &ServeArgs) -> Result<Resolved, SettingsError> {
    let count_denied = if args.count_denied { CountDenied::Yes } else { CountDenied::No };
    let on_store_failure = on_store_failure(args)?.unwrap_or(OnStoreFailure::Open);
    let policies = flags::policies(
        args.limits.iter().flat_map(|limits| limits.0.clone()).collect(),
        &args.key,
        count_denied,
        on_store_failure,
    )?;
    let layout = args.store_args.keys.store_layout.as_ref();
    if layout.is_some() && args.key.is_empty() {
        return Err(SettingsError::LayoutWithoutKey);
    }
    let store = args.store.as_ref().map(|url| StoreSetup::new(url, layout, &args.store_args));
    let store = store.transpose()?;
    let store = store.map(|store| fitting(store, &policies, args)).transpose()?;
    let policies = InitialPolicies::without_file(policies, flags::SOURCE.into(), Vec::new());
    Ok(Resolved { policies, envoy: None, store, dialect: None })
}

/// What another system says. Flags go before it.
fn from_import(args: &ServeArgs) -> Result<Resolved, SettingsError> {
    let charging = if args.count_denied { Charging::Each } else { Charging::AllOrNothing };
    let timeout = args.store_args.store_timeout;
    let imported = match Import::new(&args.import)?.read(charging, on_store_failure(args)?, timeout)? {
        Imported::Policies(imported) => imported,
        Imported::Domains(imported) => return from_domains(imported, args),
    };
    let layout = args.store_args.keys.store_layout.as_ref().unwrap_or(&imported.layout);
    let store = match (&args.store, &imported.store) {
        (Some(url), _) => StoreSetup::new(url, Some(layout), &args.store_args)?,
        (None, Some((place, url))) => {
            let url = url.expose().parse();
            let url = url.map_err(|source| SettingsError::ImportedStoreUrl { place, source })?;
            StoreSetup::of(url, None, Some(layout), &args.store_args)?
        }
        (None, None) => return Err(SettingsError::StoreMissing),
    };
    if let (Some(asked), Some(imported)) = (args.answers, imported.dialect)
        && asked.name != imported.name
    {
        return Err(SettingsError::OtherAnswers { asked, imported });
    }
    let store = fitting(store, &imported.policies, args)?;
    let policies = InitialPolicies::without_file(imported.policies, imported.source, imported.notes);
    Ok(Resolved { policies, envoy: None, store: Some(store), dialect: imported.dialect })
}

/// Limits of Envoy's service, in the place of policies.
fn from_domains(imported: ImportedDomains, args: &ServeArgs) -> Result<Resolved, SettingsError> {
    let ImportedDomains { initial, store, prefix, notes } = imported;
    let url = match (&args.store, store) {
        (Some(url), _) => Some(StoreSetup::url_of_flag(url)?),
        (None, Some(url)) => Some(
            url.expose()
                .parse()
                .map_err(|source| SettingsError::ImportedStoreUrl { place: "REDIS_URL", source })?,
        ),
        (None, None) => None,
    };
    // Our own keys by default: those of envoyproxy/ratelimit let clients choose values that share a counter.
    let layout = args.store_args.keys.store_layout.as_ref();
    let is_theirs = layout.is_some_and(|layout| *layout == KeyLayout::ENVOY_RATELIMIT);
    if layout.is_some() && !is_theirs {
        return Err(SettingsError::LayoutOfOthers);
    }
    let store = url.map(|url| StoreSetup::of(url, None, layout, &args.store_args)).transpose()?;
    // The keys of a request lie in different slots of a Cluster.
    let across_slots = args.cluster.store_across_slots.map_or(AcrossSlots::Reserve, Into::into);
    let store = store.map(|store| match (&args.store_args.keys.store_prefix, prefix) {
        (None, Some(prefix)) => store.with_prefix(prefix),
        (None, None) if is_theirs => store.with_prefix(String::new()),
        _ => store,
    });
    let source = format!("environment and {}", initial.files.files().name()).into();
    let policies = InitialPolicies::without_file(Policies::of([]).map_err(ImportError::from)?, source, notes);
    let store = store.map(|store| store.across_slots(across_slots));
    Ok(Resolved { policies, envoy: Some(initial), store, dialect: None })
}

/// The store, if it can count all policies.
fn fitting(store: StoreSetup, policies: &Policies, args: &ServeArgs) -> Result<StoreSetup, SettingsError> {
    let flags = StoreFlags::new(Some(&store.url), &args.store_args.keys, &args.cluster);
    let across_slots = flags.across_slots(None);
    let fit = StoreFit::new(store.layout.as_ref(), store.url.is_cluster(), across_slots, &store.prefix);
    fit.check(policies)?;
    Ok(store.across_slots(across_slots))
}

/// That a caller of the system can say whom the policies count. Those of a file may be others at any time, and for other
/// requests.
fn check_dialect(dialect: &'static Dialect, policies: &InitialPolicies) -> Result<(), SettingsError> {
    if policies.file.is_some() {
        return Ok(());
    }
    for policy in policies.policies.as_slice() {
        if let Some(attribute) = dialect.untold(policy.identity()) {
            let (attribute, policy) = (attribute.into(), policy.name().into());
            return Err(SettingsError::NobodyTold { dialect, attribute, policy });
        }
    }
    Ok(())
}

/// What flags say of a store in trouble, if they do.
fn on_store_failure(args: &ServeArgs) -> Result<Option<OnStoreFailure>, SettingsError> {
    Ok(match (args.failure.on_store_failure, args.failure.local_share) {
        (Some(args::OnStoreFailure::Local), Some(share)) => Some(OnStoreFailure::Local(share)),
        (Some(args::OnStoreFailure::Local), None) => return Err(SettingsError::MissingShare),
        (_, Some(_)) => return Err(SettingsError::NeedlessShare),
        (Some(args::OnStoreFailure::Open), None) => Some(OnStoreFailure::Open),
        (Some(args::OnStoreFailure::Closed), None) => Some(OnStoreFailure::Closed),
        (None, None) => None,
    })
}

impl GrpcSettings {
    const fn new(listen: SocketAddr, args: &GrpcArgs) -> Self {
        let GrpcArgs { grpc_limit_headers, grpc_max_connection_age, grpc_keep_alive } = *args;
        Self {
            listen,
            limit_headers: grpc_limit_headers,
            max_connection_age: grpc_max_connection_age,
            keep_alive: grpc_keep_alive,
        }
    }
}

impl InitialPolicies {
    fn without_file(policies: Policies, source: Box<str>, notes: Vec<String>) -> Self {
        Self { policies, source, file: None, notes, warnings: [].into(), other_store: false }
    }
}
