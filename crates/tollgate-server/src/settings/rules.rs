//! What decides: policies from files, flags or the settings of another system, or the limits of Envoy's service.

use std::path::PathBuf;

use tollgate::{CountDenied, OnStoreFailure};
use tollgate_envoy::ChargingMode;
use tollgate_policy::{Policies, Warning};
use tollgate_redis::{AcrossSlots, KeyLayout};

use super::error::SettingsError;
use super::flags;
use super::import::{Import, ImportedDomains, ImportedSettings, ImportedStoreTls};
use super::{DomainSource, InitialPolicies, InitialRules, SourcedDomains};
use crate::args::{self, AnswerSystem, Flag, MetricAliases, ServeArgs, StoreArgs};
use crate::decide::policy_files::PolicyFiles;
use crate::store::fit::{StoreFit, StoreFlags};
use crate::store::{StoreSetup, StoreSetupError, joined_values};

/// The settings that depend on where the policies come from.
pub(super) struct ResolvedRules {
    pub(super) rules: InitialRules,
    pub(super) source: Box<str>,
    pub(super) notes: Vec<String>,
    pub(super) store: Option<StoreSetup>,
    pub(super) dialect: Option<AnswerSystem>,
    /// Private keys that another system's settings name.
    pub(super) key_files: Vec<PathBuf>,
}

/// Resolves policies from files, and the store that the files or a flag name.
pub(super) fn from_files(paths: &[PathBuf], args: &ServeArgs) -> Result<ResolvedRules, SettingsError> {
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
    let fit = file.fit().clone();
    let rules =
        InitialRules::Policies(InitialPolicies { policies, file: Some(file), warnings, other_store, fit });
    let (notes, key_files) = Default::default();
    Ok(ResolvedRules { rules, source, notes, store, dialect: None, key_files })
}

pub(super) fn from_flags(args: &ServeArgs) -> Result<ResolvedRules, SettingsError> {
    let count_denied = if args.count_denied == Some(true) { CountDenied::Yes } else { CountDenied::No };
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
    let (store, fit) = match store.map(|store| fitting(store, &policies, args)).transpose()? {
        Some((store, fit)) => (Some(store), fit),
        None => (None, StoreFit::of_memory()),
    };
    let warnings = joined_values::warnings(&policies, layout);
    let rules = InitialRules::without_file(policies, warnings, fit);
    let (notes, key_files) = Default::default();
    Ok(ResolvedRules { rules, source: flags::SOURCE.into(), notes, store, dialect: None, key_files })
}

/// Resolves the settings of another system. Flags override them.
pub(super) fn from_import(args: &ServeArgs) -> Result<ResolvedRules, SettingsError> {
    let charging = args.count_denied.map(|counts_denied| match counts_denied {
        true => ChargingMode::Each,
        false => ChargingMode::AllOrNothing,
    });
    let import = Import::new(&args.import, args.xds.clone())?;
    let imported = match import.read(charging, on_store_failure(args)?, args.original.as_ref())? {
        ImportedSettings::Policies(imported) => *imported,
        ImportedSettings::Domains(imported) => return from_domains(*imported, args),
    };
    let layout = args.store_args.keys.store_layout.as_ref().or(imported.layout.as_ref());
    let store = match (&args.store, &imported.store) {
        (Some(url), _) => StoreSetup::new(url, layout, &args.store_args)?,
        (None, Some((place, url))) => {
            let url = url.expose().parse();
            let url = url.map_err(|source| SettingsError::ImportedStoreUrl { place, source })?;
            StoreSetup::of(url, None, layout, &args.store_args)?
        }
        (None, None) => return Err(SettingsError::StoreMissing),
    };
    if let (Some(asked), Some(imported)) = (args.answers, imported.dialect)
        && asked != imported
    {
        return Err(SettingsError::OtherAnswers { asked, imported });
    }
    let (store, fit) = fitting(store, &imported.policies, args)?;
    let warnings = joined_values::warnings(&imported.policies, store.layout.as_ref());
    let rules = InitialRules::without_file(imported.policies, warnings, fit);
    let (source, notes) = (imported.source, imported.notes);
    let (dialect, key_files) = (imported.dialect, Vec::new());
    Ok(ResolvedRules { rules, source, notes, store: Some(store), dialect, key_files })
}

/// Resolves limits of Envoy's service, which decide instead of policies.
fn from_domains(imported: ImportedDomains, args: &ServeArgs) -> Result<ResolvedRules, SettingsError> {
    let ImportedDomains { mut initial, source: domain_source, store, store_tls, prefix, mut notes } =
        imported;
    // Its files are for its store.
    let store_tls = if args.store.is_none() { store_tls } else { ImportedStoreTls::default() };
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
    let has_imported_files = store_tls != ImportedStoreTls::default();
    let store_args = with_imported(&args.store_args, store_tls);
    let xds_key = match &domain_source {
        DomainSource::Xds(xds) => xds.server.certificates.as_ref().and_then(|it| it.key_file().cloned()),
        DomainSource::Files(_) => None,
    };
    let key_files = store_args.store_key.iter().cloned().chain(xds_key).collect();
    let store = url.map(|url| StoreSetup::of(url, None, layout, &store_args));
    let store = store.transpose().map_err(|error| match error {
        StoreSetupError::Tls(source) if has_imported_files => SettingsError::ImportedStoreTls(source),
        error => error.into(),
    })?;
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
    let source = format!("environment and {}", initial.source).into();
    let store = store.map(|store| store.across_slots(across_slots));
    let rules = InitialRules::Domains(SourcedDomains { initial, source: domain_source });
    Ok(ResolvedRules { rules, source, notes, store, dialect: None, key_files })
}

/// Returns the flags, with the files of the other system's variables in place of those that were not given.
fn with_imported(args: &StoreArgs, tls: ImportedStoreTls) -> StoreArgs {
    let ImportedStoreTls { authorities, identity } = tls;
    let mut args = args.clone();
    args.store_ca = args.store_ca.or(authorities);
    if args.store_cert.is_none() {
        (args.store_cert, args.store_key) = identity.unzip();
    }
    args
}

/// Returns the store if it can count all policies, and what it can count.
fn fitting(
    store: StoreSetup,
    policies: &Policies,
    args: &ServeArgs,
) -> Result<(StoreSetup, StoreFit), SettingsError> {
    let flags = StoreFlags::new(Some(&store.url), &args.store_args.keys, &args.cluster);
    let across_slots = flags.across_slots(None);
    let fit = StoreFit::new(store.layout.as_ref(), store.url.is_cluster(), across_slots, &store.prefix);
    fit.check(policies)?;
    Ok((store.across_slots(across_slots), fit))
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

impl InitialRules {
    const fn without_file(policies: Policies, warnings: Box<[Warning]>, fit: StoreFit) -> Self {
        Self::Policies(InitialPolicies { policies, file: None, warnings, other_store: false, fit })
    }
}
