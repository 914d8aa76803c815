//! The limits that the service announces at startup.

use tollgate_policy::{Identity, Policies};

use super::example;
use crate::decide::policy_files::PolicyFiles;

/// Describes the policy of the flags, or the number of policies in the files.
pub(crate) fn rule(policies: &Policies, file: Option<&PolicyFiles>) -> String {
    match (policies.as_slice(), file) {
        ([policy], None) => {
            let quotas: Vec<String> = policy.quotas().iter().map(|quota| quota.quota().to_string()).collect();
            let whom = match policy.identity() {
                Identity::Every => "set of attributes".to_owned(),
                Identity::Global => return format!("{} for all requests together", quotas.join(" and ")),
                identity => example::key_names(identity).join(" + "),
            };
            format!("{} for each {whom}", quotas.join(" and "))
        }
        ([_], Some(file)) => format!("1 policy of {}", file.name()),
        (policies, file) => {
            format!("{} policies of {}", policies.len(), file.map_or("flags", PolicyFiles::name))
        }
    }
}
