//! Overrides: limits that replace a policy's for some of its requests, and change while the service runs.
//!
//! ```text
//! OverrideRecord ──▶ row, terms ──▶ part of a policy ──▶ OverrideSet ──▶ matching
//! as it is stored    compiled       keys, texts          one version     which one applies
//! ```
//!
//! An override has a [name](OverrideName), which says which requests of which policy it is for. `targets` finds the name
//! for what a caller says. A [set](OverrideSet) has all overrides of one version; it is made of persistent `tree`s, so
//! each version shares with the one before what has not changed. What many overrides say is compiled once (`terms`).
//! Nothing here reads or writes a store.

mod active;
mod bulk;
mod context;
mod entry;
mod filter;
mod finder;
mod key;
mod key_cache;
mod name;
mod policy_overrides;
mod process;
mod quotas;
mod record;
mod row;
mod set;
mod state;
mod targets;
mod terms;
mod texts;
mod tree;
mod version;

pub use self::active::ActiveOverrides;
pub use self::bulk::OverridesLoad;
pub use self::entry::OverrideEntry;
pub(crate) use self::finder::{ByOverride, EndSlack, OverrideFinder, OverridesAt};
pub use self::key::{OverrideDigest, OverrideKey};
pub use self::name::{OverrideName, OverrideNameError, OverrideTarget};
pub use self::quotas::{DeniedCount, OverrideLimitsError, OverrideQuotas};
pub use self::record::{OverrideLimits, OverrideRecord};
pub use self::set::OverrideSet;
pub use self::state::{InertReason, OverrideState};
pub use self::targets::{OverrideTargetError, TargetValue};
pub use self::terms::OverrideFit;
pub use self::version::{OverridesVersion, OverridesVersionError};
