//! Warns about policies whose values a key layout joins so that different ones may share a counter.

use tollgate_policy::{Config, Identity, Policies, Policy, Warning, WarningKind};
use tollgate_redis::KeyLayout;

/// Returns the warnings of the file, and those about its policies in a store with this layout.
pub(crate) fn with_those_of_file(config: &Config, layout: Option<&KeyLayout>) -> Box<[Warning]> {
    config.warnings().iter().cloned().chain(warnings(config.policies(), layout)).collect()
}

/// Returns the warnings about policies in a store with this layout.
pub(crate) fn warnings(policies: &Policies, layout: Option<&KeyLayout>) -> Box<[Warning]> {
    let joining = layout.and_then(|layout| Some((layout, layout.values_before_joined()?)));
    let joined = joining.into_iter().flat_map(|(layout, named)| {
        let policies = policies.as_slice().iter();
        let joined = policies.filter(move |policy| counts(policy) && joins_texts(policy.identity(), named));
        joined.map(move |policy| {
            Warning::of(policy, WarningKind::JoinedValues { layout: layout.to_string().into() })
        })
    });
    joined.collect()
}

fn counts(policy: &Policy) -> bool {
    let has_override_quotas = || policy.overrides().iter().any(|over| over.quotas().next().is_some());
    !policy.quotas().is_empty() || !policy.candidates().is_empty() || has_override_quotas()
}

/// Returns whether two values without names in the layout may contain `_`.
fn joins_texts(identity: &Identity, named: usize) -> bool {
    values(identity).iter().skip(named).filter(|may_contain| **may_contain).count() > 1
}

/// Returns, for each value of a key in its order, whether it may contain `_`. Of a choice, those of its worst one.
fn values(identity: &Identity) -> Vec<bool> {
    match identity {
        Identity::Global => vec![],
        Identity::Address(..) => vec![false],
        Identity::All(parts) => parts.iter().flat_map(values).collect(),
        Identity::FirstOf(choices) => {
            // The key has the name of the attribute before its value.
            let with_name = |choice| [vec![choice_has_underscore(choice)], values(choice)].concat();
            let open = |values: &Vec<bool>| values.iter().filter(|may_contain| **may_contain).count();
            choices.iter().map(with_name).max_by_key(open).unwrap_or_default()
        }
        // Any number of any texts.
        Identity::Every => vec![true; 2],
        _ => vec![true],
    }
}

fn choice_has_underscore(choice: &Identity) -> bool {
    matches!(choice, Identity::Attribute(name) | Identity::Address(name, _) if name.contains('_'))
}
