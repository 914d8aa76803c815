//! The settings of the service: ready objects, created from flags, variables and files.

pub(crate) mod flags;
pub(crate) mod import;

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use tollgate::{Clock, CountDenied, ManualClock, MemoryStore, OnStoreFailure, SystemClock};
use tollgate_envoy::ChargingMode;
use tollgate_policy::{ConfigError, Policies, Warning, WhenFull};
use tollgate_redis::{AcrossSlots, KeyLayout, UrlError};

use self::flags::FlagsError;
use self::import::{Import, ImportError, ImportedDomains, ImportedSettings, other_spring_variables};
use crate::access::listener::AllowedHosts;
use crate::access::principals::{Principal, PrincipalFile};
use crate::answer::trials_header::TrialsHeader;
use crate::args::{
    self, AnswerSystem, Flag, FlagWith, GrpcArgs, LogFormat, MetricAliases, ServeArgs, TlsArgs,
};
use crate::decide::envoy::InitialDomains;
use crate::decide::policy_files::PolicyFiles;
use crate::decide::receipts::{ReceiptSecretError, Receipts};
use crate::http::{CheckOptions, Dialect};
use crate::observe::with_sources::WithSources;
use crate::store::fit::{Misfit, StoreFit, StoreFlags};
use crate::store::joined_values;
use crate::store::{StoreSetup, StoreSetupError};
use crate::tls::{ServerTls, TlsFileError, TlsFiles, TlsReading};

/// Everything that [`serve`](crate::serve) needs.
#[derive(Debug)]
pub struct Settings {
    pub(crate) rules: InitialRules,
    /// The origin of the rules, for people.
    pub(crate) source: Box<str>,
    /// Notes for the log, one a line.
    pub(crate) notes: Vec<String>,
    /// Counters of this process: all of them, or those for outages of a shared store.
    pub(crate) memory: MemoryStore,
    /// The shared store.
    pub(crate) store: Option<StoreSetup>,
    pub(crate) when_full: WhenFull,
    /// Additional forms of requests.
    pub(crate) asking: CheckOptions,
    /// The other system whose metric names are exported as well.
    pub(crate) metric_aliases: Option<MetricAliases>,
    pub(crate) listen: SocketAddr,
    pub(crate) admin_listen: SocketAddr,
    pub(crate) metrics_listen: Option<SocketAddr>,
    pub(crate) plain_probes: Option<SocketAddr>,
    pub(crate) grpc: Option<GrpcSettings>,
    /// The host names under which guarded scopes may be used.
    pub(crate) allowed_hosts: AllowedHosts,
    /// The principals, unless everyone may do everything.
    pub(crate) principals: Option<(PrincipalFile, Vec<Principal>)>,
    /// TLS, and the files that it was loaded from.
    pub(crate) tls: Option<(ServerTls, TlsReading)>,
    /// Files with secrets other than the key of `tls`, which may be changed while the service runs.
    pub(crate) secret_files: Vec<PathBuf>,
    pub(crate) max_connections: u32,
    pub(crate) max_connections_per_peer: Option<u32>,
    /// The memory for requests and answers in flight, in bytes.
    pub(crate) body_memory: usize,
    /// The maximum length of an attribute's value, in bytes.
    pub(crate) max_attribute_bytes: usize,
    /// The time between the signal that ends the service and the drain.
    pub(crate) drain_delay: Option<Duration>,
    /// The format of log lines.
    pub log_format: LogFormat,
}

/// The gRPC listener.
#[derive(Debug)]
pub(crate) struct GrpcSettings {
    pub(crate) listen: SocketAddr,
    /// Whether answers carry limit headers for the client.
    pub(crate) limit_headers: bool,
    pub(crate) max_connection_age: Option<Duration>,
    /// The time between two pings to a client.
    pub(crate) keep_alive: Duration,
}

/// What decides first.
#[derive(Debug)]
pub(crate) enum InitialRules {
    Policies(InitialPolicies),
    Domains(InitialDomains),
}

/// The first policies, and their file.
#[derive(Debug)]
pub(crate) struct InitialPolicies {
    pub(crate) policies: Policies,
    pub(crate) file: Option<PolicyFiles>,
    /// Probable mistakes.
    pub(crate) warnings: Box<[Warning]>,
    /// Whether a flag overrides the store of the file.
    pub(crate) other_store: bool,
}

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
    /// The settings of another system cannot be imported.
    #[error("`{}`: {}", Flag("--import"), of_import(.0))]
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
    /// The secret for receipts cannot be read, or is too short.
    #[error("`{}`: {}", Flag("--receipt-secret-file"), WithSources(.0))]
    ReceiptSecret(ReceiptSecretError),
    /// A certificate or key of the listeners cannot be used.
    #[error("`{}`: {}", Flag(.0.flag), .0)]
    ListenerTls(#[from] TlsFileError),
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
        address: SocketAddr,
    },
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

fn of_import(error: &ImportError) -> String {
    match error {
        ImportError::File(error) => of_file(error),
        error => error.to_string(),
    }
}

impl Settings {
    /// Resolves the flags.
    ///
    /// # Errors
    ///
    /// If flags contradict each other, or a file that they name cannot be read.
    pub fn new(args: ServeArgs) -> Result<Self, SettingsError> {
        let principals = args.tokens.as_deref().map(PrincipalFile::load);
        let principals = principals.transpose().map_err(SettingsError::Tokens)?;
        check_admin(&args)?;
        let ResolvedRules { rules, source, mut notes, store, dialect } = match args.config.as_slice() {
            [] if args.import.is_empty() => from_flags(&args)?,
            [] => from_import(&args)?,
            paths => from_files(paths, &args)?,
        };
        match rules {
            InitialRules::Domains(_) => check_needless_for_domains(&args)?,
            InitialRules::Policies(_) if args.metric_aliases == Some(MetricAliases::EnvoyRatelimit) => {
                return Err(SettingsError::AliasesOfDomains);
            }
            InitialRules::Policies(_) => {}
        }
        if args.test_clock {
            check_test_clock(&args, store.is_some())?;
        }
        let dialect = args.answers.or(dialect);
        if let Some(dialect) = dialect {
            check_dialect(dialect, &rules)?;
            let ignored =
                if dialect == AnswerSystem::SpringStarter { other_spring_variables(&[]) } else { Vec::new() };
            if !ignored.is_empty() {
                let ignored = ignored.join(", ");
                notes.push(format!("variables of the starter that have no effect here: {ignored}"));
            }
        }
        if let Some(layout) = store.as_ref().and_then(|store| store.layout.clone())
            && args.caller_quotas
            && matches!(rules, InitialRules::Policies(_))
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
            rules,
            source,
            notes,
            memory: MemoryStore::builder().max_counters(args.max_counters.get()).build(),
            store: store.map(|store| store.local_denials(args.local_denials)),
            when_full: args.when_full.into(),
            asking: CheckOptions {
                dialect: dialect.map(Dialect::of),
                receipts,
                caller_quotas: args.caller_quotas,
                trusted_proxies: args.trusted_proxies.iter().copied().collect(),
                max_attribute_bytes: args.max_attribute_bytes.get(),
                test_clock: args.test_clock.then(|| ManualClock::at(SystemClock.now())),
                trials_header: match args.trials_header {
                    true => TrialsHeader::Sent,
                    false => TrialsHeader::Omitted,
                },
            },
            metric_aliases: args.metric_aliases,
            listen: args.listen,
            admin_listen: args.admin_listen,
            metrics_listen: args.metrics_listen,
            plain_probes: args.plain_probes,
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

impl Settings {
    /// Returns whether the service follows a file, so that SIGHUP reloads it.
    pub(crate) const fn follows_files(&self) -> bool {
        let has_rules = match &self.rules {
            InitialRules::Policies(initial) => initial.file.is_some(),
            InitialRules::Domains(_) => true,
        };
        has_rules || self.principals.is_some() || self.tls.is_some()
    }
}

/// Checks that an admin listener that other hosts can reach can identify its callers, or was opened on purpose.
fn check_admin(args: &ServeArgs) -> Result<(), SettingsError> {
    let is_local = args.admin_listen.ip().to_canonical().is_loopback();
    let knows_callers = args.tokens.is_some() || args.tls.tls_client_ca.is_some();
    if is_local || knows_callers || args.insecure_admin {
        return Ok(());
    }
    Err(SettingsError::OpenAdmin(args.admin_listen))
}

/// Checks that a clock for tests moves no counters but those of this host's tests.
fn check_test_clock(args: &ServeArgs, has_store: bool) -> Result<(), SettingsError> {
    if has_store {
        return Err(SettingsError::TestClockOfStore);
    }
    let listeners = [
        ("--listen", Some(args.listen)),
        ("--admin-listen", Some(args.admin_listen)),
        ("--metrics-listen", args.metrics_listen),
        ("--plain-probes", args.plain_probes),
        ("--grpc", args.grpc),
    ];
    let is_open = |address: &SocketAddr| !address.ip().to_canonical().is_loopback();
    let mut open = listeners.into_iter().filter_map(|(flag, address)| Some((flag, address.filter(is_open)?)));
    match open.next() {
        Some((flag, address)) => Err(SettingsError::OpenTestClock { flag, address }),
        None => Ok(()),
    }
}

/// Checks that no flag is about paths that use policies.
fn check_needless_for_domains(args: &ServeArgs) -> Result<(), SettingsError> {
    if args.grpc_args.grpc_limit_headers {
        return Err(SettingsError::NeedlessLimitHeaders);
    }
    let flags = [
        ("--answers", args.answers.is_some(), ""),
        ("--receipt-secret-file", args.receipt_secret_file.is_some(), ", without receipts"),
        ("--trusted-proxy", !args.trusted_proxies.is_empty(), ", and not at `/forward-auth`"),
        (
            "--trials-header",
            args.trials_header,
            ", and their limits in shadow mode are not named in a header",
        ),
    ];
    match flags.into_iter().find(|(_, is_set, _)| *is_set) {
        Some((flag, _, effect)) => Err(SettingsError::NeedlessForDomains { flag, effect }),
        None => Ok(()),
    }
}

/// The settings that depend on where the policies come from.
struct ResolvedRules {
    rules: InitialRules,
    source: Box<str>,
    notes: Vec<String>,
    store: Option<StoreSetup>,
    dialect: Option<AnswerSystem>,
}

/// Resolves policies from files, and the store that the files or a flag name.
fn from_files(paths: &[PathBuf], args: &ServeArgs) -> Result<ResolvedRules, SettingsError> {
    let url = args.store.as_ref().map(StoreSetup::url_of_flag).transpose()?;
    let flags = StoreFlags::new(url.as_ref(), &args.store_args.keys, &args.cluster);
    let (file, config) = PolicyFiles::load(paths, &flags)?;
    let (file_store, layout) = (config.store(), file.layout());
    let across_slots = flags.across_slots(file_store);
    let store = match (&url, file_store) {
        (Some(url), file_store) => Some(StoreSetup::of(url.clone(), file_store, layout, &args.store_args)?),
        (None, Some(file_store)) => Some(StoreSetup::of_file(file_store, layout, &args.store_args)?),
        (None, None) => None,
    };
    let store = store.map(|store| store.across_slots(across_slots));
    let other_store = file_store.is_some() && args.store.is_some();
    let (source, warnings) = (file.name().into(), file.warnings(&config));
    let policies = config.into_policies();
    let rules = InitialRules::Policies(InitialPolicies { policies, file: Some(file), warnings, other_store });
    Ok(ResolvedRules { rules, source, notes: Vec::new(), store, dialect: None })
}

fn from_flags(args: &ServeArgs) -> Result<ResolvedRules, SettingsError> {
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
    let warnings = joined_values::warnings(&policies, layout);
    let rules = InitialRules::without_file(policies, warnings);
    Ok(ResolvedRules { rules, source: flags::SOURCE.into(), notes: Vec::new(), store, dialect: None })
}

/// Resolves the settings of another system. Flags override them.
fn from_import(args: &ServeArgs) -> Result<ResolvedRules, SettingsError> {
    let charging = if args.count_denied { ChargingMode::Each } else { ChargingMode::AllOrNothing };
    let imported = match Import::new(&args.import)?.read(charging, on_store_failure(args)?)? {
        ImportedSettings::Policies(imported) => imported,
        ImportedSettings::Domains(imported) => return from_domains(imported, args),
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
        && asked != imported
    {
        return Err(SettingsError::OtherAnswers { asked, imported });
    }
    let store = fitting(store, &imported.policies, args)?;
    let warnings = joined_values::warnings(&imported.policies, store.layout.as_ref());
    let rules = InitialRules::without_file(imported.policies, warnings);
    let (source, notes) = (imported.source, imported.notes);
    Ok(ResolvedRules { rules, source, notes, store: Some(store), dialect: imported.dialect })
}

/// Resolves limits of Envoy's service, which decide instead of policies.
fn from_domains(imported: ImportedDomains, args: &ServeArgs) -> Result<ResolvedRules, SettingsError> {
    let ImportedDomains { mut initial, store, prefix, mut notes } = imported;
    if args.metric_aliases != Some(MetricAliases::EnvoyRatelimit) {
        initial.settings.hits = None;
    }
    initial.settings.max_value_bytes = Some(args.max_attribute_bytes.get());
    let url = match (&args.store, store) {
        (Some(url), _) => Some(StoreSetup::url_of_flag(url)?),
        (None, Some(url)) => Some(
            url.expose()
                .parse()
                .map_err(|source| SettingsError::ImportedStoreUrl { place: "REDIS_URL", source })?,
        ),
        (None, None) => None,
    };
    if url.is_some() {
        notes.push(format!("while the store is down, on_store_failure is `{}`", initial.on_store_failure));
    }
    // Our own keys by default: those of envoyproxy/ratelimit let clients choose values that share a counter.
    let layout = args.store_args.keys.store_layout.as_ref();
    let is_theirs = layout.is_some_and(|layout| *layout == KeyLayout::ENVOY_RATELIMIT);
    if layout.is_some() && !is_theirs {
        return Err(SettingsError::LayoutOfOthers);
    }
    let store = url.map(|url| StoreSetup::of(url, None, layout, &args.store_args)).transpose()?;
    // The keys of one request are in different slots of a Cluster.
    let across_slots = args.cluster.store_across_slots.map_or(AcrossSlots::Reserve, Into::into);
    let needless = match (&store, &args.store_args.keys.store_prefix) {
        (None, _) => Some("counters are in memory".to_owned()),
        (Some(_), Some(_)) => Some(format!("`{}` overrides it", Flag("--store-prefix"))),
        (Some(_), None) => None,
    };
    if let (Some(reason), Some(_)) = (needless, &prefix) {
        notes.push(format!("CACHE_KEY_PREFIX has no effect here: {reason}"));
    }
    let store = store.map(|store| match (&args.store_args.keys.store_prefix, prefix) {
        (None, Some(prefix)) => store.with_prefix(prefix),
        (None, None) if is_theirs => store.with_prefix(String::new()),
        _ => store,
    });
    let source = format!("environment and {}", initial.files.name()).into();
    let store = store.map(|store| store.across_slots(across_slots));
    Ok(ResolvedRules { rules: InitialRules::Domains(initial), source, notes, store, dialect: None })
}

/// Returns the store if it can count all policies.
fn fitting(store: StoreSetup, policies: &Policies, args: &ServeArgs) -> Result<StoreSetup, SettingsError> {
    let flags = StoreFlags::new(Some(&store.url), &args.store_args.keys, &args.cluster);
    let across_slots = flags.across_slots(None);
    let fit = StoreFit::new(store.layout.as_ref(), store.url.is_cluster(), across_slots, &store.prefix);
    fit.check(policies)?;
    Ok(store.across_slots(across_slots))
}

/// Checks that requests in the system's format can have the key attributes of all policies. Policies of a file are not
/// checked: they may change, and may be for other requests.
fn check_dialect(dialect: AnswerSystem, rules: &InitialRules) -> Result<(), SettingsError> {
    let InitialRules::Policies(InitialPolicies { policies, file: None, .. }) = rules else { return Ok(()) };
    for policy in policies.as_slice() {
        if let Some(attribute) = Dialect::of(dialect).unsent_attribute(policy.identity()) {
            let (attribute, policy) = (attribute.into(), policy.name().into());
            return Err(SettingsError::NobodyTold { dialect, attribute, policy });
        }
    }
    Ok(())
}

/// Returns the flags' setting for outages of the store, if any.
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

impl InitialRules {
    const fn without_file(policies: Policies, warnings: Box<[Warning]>) -> Self {
        Self::Policies(InitialPolicies { policies, file: None, warnings, other_store: false })
    }
}
