//! Keys as another system writes them: the layout that a name or a template means, and which policies it cannot take.
//!
//! A store refuses what its layout cannot say, request by request, and a policy that admits in trouble would then admit
//! everybody. So policies are looked through before they are live.

use tollgate::PolicyQuota;
use tollgate_policy::{Config, ConfigError, Identity, Policies, Policy, Position, Problem, ProblemKind};
use tollgate_redis::KeyLayout;

/// The layout of this name, or the template.
///
/// # Errors
///
/// Says what is wrong with it.
pub(crate) fn read(text: &str) -> Result<KeyLayout, String> {
    if let Some((_, layout)) = KeyLayout::NAMED.into_iter().find(|(name, _)| *name == text) {
        return Ok(layout);
    }
    if !text.contains('{') {
        let names = KeyLayout::NAMED.map(|(name, _)| name).join(", ");
        return Err(format!(
            "unknown layout of keys: expected {names}, or a template such as limit:{{user}}:{{window}}"
        ));
    }
    text.parse::<KeyLayout>().map_err(|error| error.to_string())
}

/// The layout that counts, and that all policies of the file can be counted under it: the one of a flag, or else the
/// file's own.
///
/// # Errors
///
/// If the file's own is none, or cannot say what a policy counts.
pub(crate) fn of_file(
    file: &str,
    config: &Config,
    flag: Option<&KeyLayout>,
) -> Result<Option<KeyLayout>, ConfigError> {
    let invalid = |problems| Err(ConfigError::Invalid { file: file.into(), problems });
    let own = match config.store().and_then(|store| store.layout()).map(read).transpose() {
        Ok(own) => own,
        Err(error) => {
            let at = config.layout_at().unwrap_or(Position { line: 1, column: 1 });
            return invalid([Problem::new(at, ProblemKind::Other(error.into()))].into());
        }
    };
    let Some(layout) = flag.cloned().or(own) else { return Ok(None) };
    let misfits: Box<[Problem]> = misfits(&layout, config.policies())
        .map(|(policy, reason)| {
            let at = policy.at().unwrap_or(Position { line: 1, column: 1 });
            Problem::new(at, ProblemKind::Other(not_in_layout(policy, &reason).into()))
        })
        .collect();
    if misfits.is_empty() { Ok(Some(layout)) } else { invalid(misfits) }
}

/// That no policy is one that cannot be counted under the layout.
///
/// # Errors
///
/// Names the first one, and why not.
pub(crate) fn check(layout: &KeyLayout, policies: &Policies) -> Result<(), String> {
    misfits(layout, policies).next().map_or(Ok(()), |(policy, reason)| Err(not_in_layout(policy, &reason)))
}

fn not_in_layout(policy: &Policy, reason: &str) -> String {
    format!("policy `{}` cannot be counted under the layout of keys: {reason}", policy.name())
}

/// The policies that cannot be counted under the layout, and why not.
fn misfits<'a>(layout: &'a KeyLayout, policies: &'a Policies) -> impl Iterator<Item = (&'a Policy, String)> {
    policies.as_slice().iter().filter_map(|policy| Some((policy, misfit(layout, policy)?)))
}

fn misfit(layout: &KeyLayout, policy: &Policy) -> Option<String> {
    let lists = policy.overrides().iter().flat_map(|over| [over.quotas(), over.candidates()]);
    let lists = lists.chain([policy.quotas(), policy.candidates()]);
    let mut quotas = lists.flatten().map(PolicyQuota::quota).peekable();
    // Without a quota, nobody is counted.
    quotas.peek()?;
    if let Some((quota, error)) = quotas.find_map(|quota| Some((quota, layout.validate(quota).err()?))) {
        return Some(format!("{quota}: {error}"));
    }
    let needed = layout.values();
    match values(policy.identity()) {
        Some(values) if values == needed => None,
        Some(values) => Some(format!("its key has {}, and `{layout}` names {needed}", counted(values))),
        None => Some("how many values its key has depends on the request".to_owned()),
    }
}

/// How many values its keys have; `None` if that varies. A choice says which it was, so it has the names as well.
fn values(identity: &Identity) -> Option<usize> {
    match identity {
        Identity::Global => Some(0),
        Identity::Attribute(_) | Identity::Address(..) => Some(1),
        Identity::All(parts) => parts.iter().map(values).sum(),
        Identity::FirstOf(choices) => {
            let mut each = choices.iter().map(|choice| match choice {
                Identity::Attribute(_) | Identity::Address(..) | Identity::All(_) => {
                    Some(values(choice)? + names(choice))
                }
                _ => values(choice),
            });
            let first = each.next()??;
            each.all(|values| values == Some(first)).then_some(first)
        }
        _ => None,
    }
}

/// How many attributes a choice names.
fn names(identity: &Identity) -> usize {
    match identity {
        Identity::Attribute(_) | Identity::Address(..) => 1,
        Identity::All(parts) | Identity::FirstOf(parts) => parts.iter().map(names).sum(),
        _ => 0,
    }
}

fn counted(values: usize) -> String {
    format!("{values} {}", if values == 1 { "value" } else { "values" })
}
