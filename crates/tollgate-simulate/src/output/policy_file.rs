//! The suggestion as a file of policies.

use std::fmt::Write as _;

use tollgate_policy::Printable;

use super::number::{grouped, moment};
use super::suggestion::less_than_asked;
use super::width::{COLUMNS, wrapped};
use crate::suggest::{SuggestedQuota, Suggestion};
use crate::{percent, share_of_clients};

impl Suggestion {
    /// Returns a policy file that tries the limits out without denying anything, ready for `tollgate serve --config`;
    /// `None` if there is no limit.
    #[must_use]
    pub fn policy(&self) -> Option<String> {
        let written = |quota: &SuggestedQuota| Some(format!("{}/{}", quota.limit?, quota.window));
        let companion = self.companion.as_ref().filter(|_| !self.is_companion_idle);
        written(&self.quota)?;
        let quotas: Vec<&SuggestedQuota> =
            [Some(&self.quota).filter(|_| !self.is_limit_idle), companion].into_iter().flatten().collect();
        let client = self.budget_per.words();
        let mut text = String::new();
        // Writing into a string does not fail.
        text += &comment(&format!(
            "Limits for clients by {}, computed by `tollgate suggest` from {} requests of {} {client}s, from {} to {} ({}).",
            self.key,
            grouped(self.requests),
            grouped(self.clients),
            moment(self.first.as_deref().unwrap_or_default()),
            moment(self.last.as_deref().unwrap_or_default()),
            self.zone
        ));
        less_than_asked(self).into_iter().for_each(|less| text += &comment(&less));
        for quota in &quotas {
            let Some(((bound, limit), proven)) = quota.bound.zip(quota.limit).zip(quota.proven_budget) else {
                continue;
            };
            let rounded = if limit > bound { format!("; rounded up to {limit}") } else { String::new() };
            text += &comment(&format!(
                "{limit}/{}: with 95 % confidence, at most {} of {client}s ever request more than {bound} in one window \
                 (from {} {client}s until {}){rounded}.",
                quota.window,
                share_of_clients(proven),
                grouped(quota.fitted_clients),
                moment(quota.fitted_until.as_deref().unwrap_or_default())
            ));
            if let Some(set_by) = &quota.set_by {
                let remark = set_by.remark(client, &quota.window);
                text += &comment(&(remark.replacen("set", "Set", 1) + "."));
            }
            if let Some(held_out) = quota.held_out {
                text += &comment(&format!(
                    "In the rest of the period it denies {} of {} {client}s ({}).",
                    grouped(held_out.denied_clients),
                    grouped(held_out.clients),
                    percent(held_out.denied_clients, held_out.clients)
                ));
            }
        }
        text += &comment("Candidates deny nothing. Watch tollgate_trials_total, then move them to `quotas`.");
        text += "policies:\n  - name: suggested\n";
        if let Some(matching) = &self.matching {
            let _ = writeln!(text, "    match: {{ {matching} }}");
        }
        let _ = match self.key.as_str() {
            "global" => writeln!(text, "    key: global"),
            list if list.starts_with('[') => writeln!(text, "    key: {list}\n    on_missing_key: skip"),
            word => writeln!(text, "    key: [{word}]\n    on_missing_key: skip"),
        };
        text.push_str("    quotas: unlimited\n");
        let written: Vec<String> = quotas.into_iter().filter_map(written).collect();
        let _ = writeln!(text, "    candidate: [{}]", written.join(", "));
        Some(text)
    }
}

/// Returns a comment of as many lines as it needs.
fn comment(text: &str) -> String {
    let mark = "# ";
    wrapped(&Printable(text).to_string(), 0, COLUMNS - mark.len())
        .into_iter()
        .fold(String::new(), |comment, line| comment + mark + &line + "\n")
}
