//! The settings of the service: ready objects, created from flags, variables and files.

mod addresses;
mod dashboard;
mod default_notes;
mod error;
pub(crate) mod flags;
pub(crate) mod import;
mod overrides;
mod rules;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Clock, ManualClock, MemoryStore, SystemClock};
use tollgate_policy::{Policies, Warning, WhenFull};

pub(crate) use self::addresses::Addresses;
pub(crate) use self::dashboard::DashboardSettings;
pub(crate) use self::default_notes::DefaultNotes;
pub use self::error::SettingsError;
use self::import::{ImportError, other_spring_variables};
pub(crate) use self::overrides::{OverrideSettings, OverridesKeeping};
use self::rules::{ResolvedRules, from_files, from_flags, from_import};
use crate::access::listener::{AllowedHosts, ListenerKind, TlsScope};
use crate::access::principals::{Principal, PrincipalFile};
use crate::answer::trials_header::TrialsHeader;
use crate::args::{
    AnswerSystem, GrpcArgs, LogFormat, LogLevel, MetricAliases, ServeArgs, TlsArgs, TrustedProxy,
};
use crate::decide::domain_files::DomainFiles;
use crate::decide::envoy::InitialDomains;
use crate::decide::hold_seal::HoldSeal;
use crate::decide::policy_files::PolicyFiles;
use crate::http::{CheckOptions, Dialect, ProxiesOverUnix};
use crate::store::StoreSetup;
use crate::store::fit::StoreFit;
use crate::tls::{ServerTls, TlsFiles, TlsReading};
use crate::xds::XdsSettings;

/// Everything that [`serve`](crate::serve) needs.
#[derive(Debug)]
pub struct Settings {
    pub(crate) rules: InitialRules,
    /// The origin of the rules, for people.
    pub(crate) source: Box<str>,
    /// Notes for the log, one a line.
    pub(crate) notes: Vec<String>,
    /// Notes on defaults that open the service or charge more.
    pub(crate) default_notes: DefaultNotes,
    /// Counters of this process: all of them, or those for outages of a shared store.
    pub(crate) memory: MemoryStore,
    /// The shared store.
    pub(crate) store: Option<StoreSetup>,
    pub(crate) when_full: WhenFull,
    pub(crate) overrides: OverrideSettings,
    /// Additional forms of requests.
    pub(crate) asking: CheckOptions,
    /// The other system whose metric names are exported as well.
    pub(crate) metric_aliases: Option<MetricAliases>,
    /// The live page, if there is one.
    pub(crate) dashboard: Option<DashboardSettings>,
    /// Without one for checks, they come over gRPC alone.
    pub(crate) addresses: Addresses,
    pub(crate) grpc: GrpcSettings,
    /// The host names under which guarded scopes may be used.
    pub(crate) allowed_hosts: AllowedHosts,
    /// The principals, unless everyone may do everything.
    pub(crate) principals: Option<(PrincipalFile, Vec<Principal>)>,
    /// TLS, and the files that it was loaded from.
    pub(crate) tls: Option<(ServerTls, TlsReading)>,
    pub(crate) tls_scope: TlsScope,
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
    /// The lowest level of log lines.
    pub log_level: LogLevel,
}

/// The gRPC listener.
#[derive(Debug)]
pub(crate) struct GrpcSettings {
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
    Domains(SourcedDomains),
}

/// The limits of Envoy's service, and where the next ones come from.
#[derive(Debug)]
pub(crate) struct SourcedDomains {
    pub(crate) initial: InitialDomains,
    pub(crate) source: DomainSource,
}

/// Where limits of Envoy's service come from.
#[derive(Debug)]
pub(crate) enum DomainSource {
    Files(DomainFiles),
    Xds(Box<XdsSettings>),
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
    /// What the store can count.
    pub(crate) fit: StoreFit,
}

impl Settings {
    /// Resolves the flags.
    ///
    /// # Errors
    ///
    /// If flags contradict each other, or a file that they name cannot be read.
    pub fn new(args: ServeArgs) -> Result<Self, SettingsError> {
        let addresses = Addresses::new(&args)?;
        let tls_scope = addresses.tls_scope(&args)?;
        let principals = args.tokens.as_deref().map(PrincipalFile::load);
        let principals = principals.transpose().map_err(SettingsError::Tokens)?;
        addresses.check_admin(&args, &tls_scope)?;
        if args.xds.is_some() && args.import.is_empty() {
            return Err(ImportError::NeedlessXds.into());
        }
        let ResolvedRules { rules, source, mut notes, store, dialect, key_files } =
            match args.config.as_slice() {
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
            // It would not be the clock of a shared store.
            if store.is_some() {
                return Err(SettingsError::TestClockOfStore);
            }
            addresses.check_test_clock()?;
        }
        let by_default =
            args.caller_quotas.is_none() && may_bring_limits(&args, &rules, &addresses, &tls_scope);
        let caller_quotas = args.caller_quotas.unwrap_or(by_default);
        let default_notes = DefaultNotes::new(&args, rules.come_over_xds(), by_default);
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
            && caller_quotas
            && matches!(rules, InitialRules::Policies(_))
        {
            return Err(SettingsError::CallerQuotasUnderLayout(layout));
        }
        // The secret of digests is refused if everybody can read it.
        let secret_files = [
            &args.hold_secret_file,
            &args.store_args.store_password_file,
            &args.store_args.store_sentinel_password_file,
            &args.store_args.store_key,
        ];
        let mut secret_files: Vec<PathBuf> = secret_files.into_iter().flatten().cloned().collect();
        // The warning about the key of the listeners is their own.
        let is_new = |key: &PathBuf| !secret_files.contains(key) && args.tls.tls_key.as_ref() != Some(key);
        let key_files: Vec<PathBuf> = key_files.into_iter().filter(is_new).collect();
        secret_files.extend(key_files);
        let hold_seal = match args.hold_secret_file.as_deref() {
            Some(path) => HoldSeal::from_file(path).map_err(SettingsError::HoldSecret)?,
            None if store.is_some() => HoldSeal::of_one_of_many(),
            None => HoldSeal::of_process(),
        };
        let hold_seal = Arc::new(hold_seal);
        let networks = args.trusted_proxies.iter().filter_map(|proxy| match proxy {
            TrustedProxy::Network(network) => Some(*network),
            TrustedProxy::Unix => None,
        });
        let over_unix = match args.trusted_proxies.contains(&TrustedProxy::Unix) {
            true => ProxiesOverUnix::Trusted,
            false => ProxiesOverUnix::Refused,
        };
        let TlsArgs { tls_cert, tls_key, tls_client_ca, tls_client_name, .. } = args.tls;
        let files = tls_cert.zip(tls_key).map(|(certificate, key)| TlsFiles {
            certificate,
            key,
            client_authorities: tls_client_ca,
            client_name: tls_client_name,
        });
        let tls = files.map(ServerTls::load).transpose()?;
        // After all other settings, because it locks the folder.
        let overrides = match rules {
            InitialRules::Policies(_) => OverrideSettings::new(&args.overrides, store.is_some())?,
            InitialRules::Domains(_) => OverrideSettings::none(),
        };
        Ok(Self {
            rules,
            source,
            notes,
            default_notes,
            memory: MemoryStore::builder().max_counters(args.max_counters.get()).build(),
            store: store.map(|store| store.local_denials(args.local_denials)),
            when_full: args.when_full.into(),
            overrides,
            asking: CheckOptions {
                dialect: dialect.map(Dialect::of),
                hold_seal,
                caller_quotas,
                trusted_proxies: networks.collect(),
                over_unix,
                max_attribute_bytes: args.max_attribute_bytes.get(),
                test_clock: args.test_clock.then(|| ManualClock::at(SystemClock.now())),
                trials_header: match args.trials_header {
                    true => TrialsHeader::Sent,
                    false => TrialsHeader::Omitted,
                },
            },
            metric_aliases: args.metric_aliases,
            dashboard: DashboardSettings::new(&args.dashboard, args.tokens.is_some())?,
            addresses,
            grpc: GrpcSettings::new(&args.grpc_args),
            allowed_hosts: AllowedHosts::new(&args.allowed_hosts),
            principals,
            tls,
            tls_scope,
            secret_files,
            max_connections: args.max_connections.get(),
            max_connections_per_peer: args.max_connections_per_peer.map(NonZeroU32::get),
            body_memory: args.body_memory.get(),
            max_attribute_bytes: args.max_attribute_bytes.get(),
            drain_delay: args.drain_delay,
            log_format: args.log_format,
            log_level: args.log_level,
        })
    }
}

impl InitialRules {
    const fn come_over_xds(&self) -> bool {
        matches!(self, Self::Domains(SourcedDomains { source: DomainSource::Xds(_), .. }))
    }
}

impl Settings {
    /// Returns whether the service follows a file or a server, so that SIGHUP reloads it.
    pub(crate) const fn follows_files(&self) -> bool {
        let has_rules = match &self.rules {
            InitialRules::Policies(initial) => initial.file.is_some(),
            InitialRules::Domains(_) => true,
        };
        has_rules || self.principals.is_some() || self.tls.is_some()
    }
}

/// Returns whether requests may bring limits by default. Envoy Gateway configures Envoy to send some, and its Envoys
/// prove themselves by certificates.
fn may_bring_limits(
    args: &ServeArgs,
    rules: &InitialRules,
    addresses: &Addresses,
    tls_scope: &TlsScope,
) -> bool {
    let mut listeners = [ListenerKind::Checks, ListenerKind::Grpc].into_iter();
    let are_known = args.tls.tls_client_ca.is_some()
        && listeners.all(|kind| addresses.of(kind).is_none() || tls_scope.has(kind));
    rules.come_over_xds() && are_known
}

/// Overrides replace limits of policies.
const WITHOUT_OVERRIDES: &str = ", without overrides";

/// Checks that no flag is about paths that use policies.
fn check_needless_for_domains(args: &ServeArgs) -> Result<(), SettingsError> {
    if args.grpc_args.grpc_limit_headers {
        return Err(SettingsError::NeedlessLimitHeaders);
    }
    let flags = [
        ("--answers", args.answers.is_some(), ""),
        ("--hold-secret-file", args.hold_secret_file.is_some(), ", without holds"),
        ("--trusted-proxy", !args.trusted_proxies.is_empty(), ", and not at `/forward-auth`"),
        (
            "--trials-header",
            args.trials_header,
            ", and their limits in shadow mode are not named in a header",
        ),
        ("--state-dir", args.overrides.state_dir.is_some(), WITHOUT_OVERRIDES),
        ("--recover", args.overrides.recover, WITHOUT_OVERRIDES),
        ("--max-overrides", args.overrides.max_overrides.is_some(), WITHOUT_OVERRIDES),
    ];
    match flags.into_iter().find(|(_, is_set, _)| *is_set) {
        Some((flag, _, effect)) => Err(SettingsError::NeedlessForDomains { flag, effect }),
        None => Ok(()),
    }
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

impl GrpcSettings {
    const fn new(args: &GrpcArgs) -> Self {
        let GrpcArgs { grpc_limit_headers, grpc_max_connection_age, grpc_keep_alive } = *args;
        Self {
            limit_headers: grpc_limit_headers,
            max_connection_age: grpc_max_connection_age,
            keep_alive: grpc_keep_alive,
        }
    }
}
