//! What policies mean, without what does not matter: for their [`Generation`].
//!
//! Every part is taken apart field by field, so that a new field does not compile until somebody decides whether it
//! matters. Places in files, names of files, descriptions and the order of things that hold together do not.

use tollgate::CountDenied;

use crate::condition::Lowercase;
use crate::file_overrides::FileOverrideRule;
use crate::limit::{QuotaLists, QuotaSpecs};
use crate::{
    Condition, Conditions, Cost, CostAttribute, FileOverride, FileOverrideTable, Generation,
    GenerationWriter, Identity, List, OnMissingCost, Pattern, Policy, PolicyKind, Test,
};

/// Returns the generation of these policies. `unmatched` is what happens to requests that none of them matches.
pub(crate) fn generation(unmatched: &str, policies: &[Policy]) -> Generation {
    let mut writer = GenerationWriter::new("policies");
    writer.text(unmatched);
    writer.set(policies, write_policy);
    writer.finish()
}

fn write_policy(policy: &Policy, writer: &mut GenerationWriter) {
    let Policy {
        name,
        at: _,
        description: _,
        conditions,
        kind,
        mode,
        identity,
        on_missing_key,
        cost,
        quotas,
        overrides,
        count_denied,
        overrun,
        on_store_failure,
        headers,
        deny_status,
    } = policy;
    writer.text(name);
    write_conditions(conditions, writer);
    writer.text(match kind {
        PolicyKind::Exempt => "exempt",
        PolicyKind::Deny => "deny",
        PolicyKind::Count => "count",
    });
    writer.shown(mode);
    write_identity(identity, writer);
    writer.shown(on_missing_key);
    write_cost(cost, writer);
    write_lists(quotas, writer);
    // The first that holds decides.
    writer.list(&**overrides, write_override);
    write_count_denied(*count_denied, writer);
    writer.shown(overrun);
    writer.shown(on_store_failure);
    writer.shown(headers);
    writer.number((*deny_status).into());
}

fn write_conditions(conditions: &Conditions, writer: &mut GenerationWriter) {
    let Conditions { all, any } = conditions;
    writer.set(all, write_condition);
    writer.set(any, |alternative, writer| writer.set(alternative, write_condition));
}

fn write_condition(condition: &Condition, writer: &mut GenerationWriter) {
    let Condition { attribute, test } = condition;
    writer.text(attribute);
    write_test(test, writer);
}

fn write_test(test: &Test, writer: &mut GenerationWriter) {
    match test {
        Test::OneOf(patterns) => {
            writer.text("one_of");
            writer.set(&**patterns, write_pattern);
        }
        Test::IgnoringCase(Lowercase(patterns)) => {
            writer.text("ignoring_case");
            writer.set(&**patterns, write_pattern);
        }
        Test::Matches(expression) => {
            writer.text(if expression.ignores_case() { "regex ignoring case" } else { "regex" });
            writer.text(expression.as_str());
        }
        Test::Within(networks) => write_networks(&List::of_networks("", networks), writer),
        // A list means the same as its entries in the policy.
        Test::In(list) => match list.texts() {
            Some(texts) => {
                writer.text("one_of");
                writer.set(texts, write_exact);
            }
            None => write_networks(list, writer),
        },
        Test::Present => writer.text("present"),
        Test::Absent => writer.text("absent"),
        Test::All(tests) => {
            writer.text("all");
            writer.set(&**tests, write_test);
        }
        Test::Not(test) => {
            writer.text("not");
            write_test(test, writer);
        }
    }
}

fn write_pattern(pattern: &Pattern, writer: &mut GenerationWriter) {
    let (form, text) = match pattern {
        Pattern::Exact(text) => return write_exact(text, writer),
        Pattern::Prefix(text) => ("prefix", text),
        Pattern::Glob(text) => ("glob", text),
    };
    writer.text(form);
    writer.text(text);
}

fn write_exact(text: &str, writer: &mut GenerationWriter) {
    writer.text("exact");
    writer.text(text);
}

fn write_networks(list: &List, writer: &mut GenerationWriter) {
    writer.text("cidr");
    writer.set(list.ranges(), |(first, last), writer| {
        writer.shown(&first);
        writer.shown(&last);
    });
}

fn write_identity(identity: &Identity, writer: &mut GenerationWriter) {
    match identity {
        Identity::Global => writer.text("global"),
        Identity::Every => writer.text("every"),
        Identity::Attribute(name) => {
            writer.text("attribute");
            writer.text(name);
        }
        Identity::Address(name, grouping) => {
            writer.text("address");
            writer.text(name);
            writer.number(grouping.ipv4().into());
            writer.number(grouping.ipv6().into());
        }
        // Parts in another order have other counters.
        Identity::All(parts) => {
            writer.text("all");
            writer.list(&**parts, write_identity);
        }
        Identity::FirstOf(choices) => {
            writer.text("first_of");
            writer.list(&**choices, write_identity);
        }
    }
}

fn write_cost(cost: &Cost, writer: &mut GenerationWriter) {
    match cost {
        Cost::Asked => writer.text("asked"),
        Cost::Fixed(units) => {
            writer.text("fixed");
            writer.number((*units).into());
        }
        Cost::Attribute(CostAttribute { name, min, max, on_missing }) => {
            writer.text("attribute");
            writer.text(name);
            writer.number((*min).into());
            writer.number((*max).into());
            match on_missing {
                OnMissingCost::Error => writer.text("error"),
                OnMissingCost::Asked => writer.text("asked"),
                OnMissingCost::Fixed(units) => {
                    writer.text("fixed");
                    writer.number((*units).into());
                }
            }
        }
    }
}

fn write_lists(lists: &QuotaLists, writer: &mut GenerationWriter) {
    let QuotaLists { enforced, candidates } = lists;
    write_specs(enforced, writer);
    write_specs(candidates, writer);
}

/// Quotas as they are written, because that says everything about them but what the policy says for all.
fn write_specs(specs: &QuotaSpecs, writer: &mut GenerationWriter) {
    let QuotaSpecs { quotas: _, limits: _, in_flight } = specs;
    writer.set(specs.iter(), |spec, writer| {
        writer.shown(&spec);
        write_count_denied(spec.quota().count_denied(), writer);
        writer.list(spec.quota().on_store_failure().as_slice(), |failure, writer| writer.shown(failure));
    });
    writer.list(in_flight.as_slice(), |limit, writer| {
        writer.shown(&limit.in_flight());
        writer.list(limit.on_store_failure().as_slice(), |failure, writer| writer.shown(failure));
    });
}

fn write_count_denied(count_denied: CountDenied, writer: &mut GenerationWriter) {
    writer.text(match count_denied {
        CountDenied::No => "no",
        CountDenied::Yes => "yes",
        CountDenied::Overdraft => "overdraft",
    });
}

fn write_override(over: &FileOverride, writer: &mut GenerationWriter) {
    let FileOverride { at: _, rule, lists } = over;
    match rule {
        FileOverrideRule::When(conditions) => {
            writer.text("when");
            write_conditions(conditions, writer);
            writer.list(&**lists, write_lists);
        }
        FileOverrideRule::In(FileOverrideTable { attribute, values, len: _ }) => {
            writer.text("values");
            writer.text(attribute);
            // Which number a list has depends on the order of the rows.
            let written: Box<[Generation]> = lists.iter().map(lists_generation).collect();
            writer.set(values.iter(), |(value, list), writer| {
                writer.text(value);
                writer.list(written.get(*list as usize).as_slice(), |list, writer| writer.shown(list));
            });
        }
    }
}

fn lists_generation(lists: &QuotaLists) -> Generation {
    let mut writer = GenerationWriter::new("quotas");
    write_lists(lists, &mut writer);
    writer.finish()
}
