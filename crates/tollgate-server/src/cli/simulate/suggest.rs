//! `tollgate suggest`: a limit by logs, such that few clients are ever denied.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _};

use jiff::tz::TimeZone;
use tollgate_policy::Identity;
use tollgate_simulate::suggest::{Survey, SurveyOptions};
use tollgate_simulate::{Classes, Note};

use super::failure::SimulateFailure;
use super::inputs::no_policies;
use super::requests::LogRequests;
use crate::args::SuggestArgs;
use crate::args::exit_status::{NO_DECISION, SUCCESS};

/// Reads the logs. Returns the text to print, and the exit status.
///
/// # Errors
///
/// If the arguments are wrong, or the logs cannot be read.
pub fn suggest(args: &SuggestArgs) -> Result<(String, u8), SimulateFailure> {
    no_policies(&args.logs, "it is a policy file, and `suggest` reads only logs")?;
    let parts = args.key.iter().map(|name| {
        Identity::of_word(name).ok_or_else(|| {
            SimulateFailure::usage(anyhow::anyhow!("--key: no attribute can be named `{name}`"))
        })
    });
    let identity = Identity::of_list(parts.collect::<Result<_, _>>()?);
    if let Some(matching) = args.matching.iter().find(|matching| !matching.contains(':')) {
        let expected = "expected conditions as in the `match` of a policy, such as 'path: /login'";
        return Err(SimulateFailure::usage(anyhow::anyhow!("--match: {expected}, found `{matching}`")));
    }
    let matching = args.matching.as_ref().map(|matching| Classes::of_conditions("--match", matching));
    let matching = matching.transpose()?.unwrap_or_default();
    let first_key = args.key.first().map_or("ip", String::as_str);
    let known = super::classes(&[], args.known.as_deref(), ("--key", first_key))?;
    let conditions = matching.attributes().chain(known.attributes());
    let names: BTreeSet<String> = conditions.map(str::to_owned).chain(args.key.iter().cloned()).collect();
    let requests = LogRequests::open(&args.logs, &args.log, &names, &BTreeSet::new(), &[])?;
    let mut survey = Survey::new(SurveyOptions {
        identity,
        window: args.window.clone(),
        companion: args.companion.0.clone(),
        budget: args.budget,
        budget_per: args.budget_per,
        max_clients: args.max_clients,
        matching,
        known,
        conditions: args.matching.clone(),
        zone: args.log.tz.clone().unwrap_or(TimeZone::UTC),
    });
    let (read, notes) = requests.each(|hits| {
        hits.for_each(|hit| survey.request(&hit));
        Ok(())
    })?;
    let mut suggestion = survey.suggest();
    suggestion.read = Some(read);
    suggestion.notes.splice(0..0, notes.into_iter().map(Note::OfLogs));
    let is_read_by_people = !args.json && !args.yaml && io::stdout().is_terminal();
    if !args.log.show_keys && !is_read_by_people {
        suggestion.hide_keys();
    }
    let status = if suggestion.quota.limit.is_some() { SUCCESS } else { NO_DECISION };
    let text = match suggestion.policy() {
        _ if args.json => suggestion.json(),
        Some(policy) if args.yaml => policy,
        // What explains the missing policy is no policy.
        None if args.yaml => {
            return Err(SimulateFailure::no_answer(anyhow::anyhow!(
                "no limit can be suggested:\n\n{suggestion}"
            )));
        }
        _ => suggestion.text(super::style(is_read_by_people)),
    };
    Ok((text, status))
}
