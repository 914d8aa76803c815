//! The overrides of a running service, under which a request is explained.

use tollgate_policy::Config;

use super::ExplainError;
use crate::args::{ClusterArgs, ExplainArgs};
use crate::overrides::{RECORDS, ReadOverrides};
use crate::store::fit::{StoreFit, StoreFlags};
use crate::store::{StoreSetup, StoreSetupError};

/// Reads the overrides from the place that the arguments name; `None` if they name none.
///
/// # Errors
///
/// If they cannot be read.
pub(super) async fn read(args: &ExplainArgs, config: &Config) -> Result<Option<ReadOverrides>, ExplainError> {
    if let Some(folder) = &args.state_dir {
        return Ok(Some(ReadOverrides::of_folder(folder, config.policies())?));
    }
    let Some(url) = &args.store else { return Ok(None) };
    let url = StoreSetup::url_of_flag(url)?;
    let cluster = ClusterArgs { store_across_slots: None };
    let (fit, _) = StoreFit::of_file(config, &StoreFlags::new(Some(&url), &args.store_args.keys, &cluster));
    let setup = StoreSetup::of(url, config.store(), fit.layout(), &args.store_args)?;
    let store = setup.builder.build().map_err(StoreSetupError::from)?;
    let records = store.records(RECORDS);
    Ok(Some(ReadOverrides::of_store(records, setup.identity, fit, config.policies()).await?))
}
