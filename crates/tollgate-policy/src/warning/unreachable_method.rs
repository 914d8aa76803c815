//! Patterns of methods that no usual request has.

use crate::{Condition, Conditions, Override, Pattern, Policy, Test};

/// The patterns of a policy, and of the conditions of its overrides, that need a lower-case letter in a method. Methods
/// are case-sensitive (RFC 9110, section 9.1), and all registered ones are in capital letters.
pub(super) fn unreachable_methods(policy: &Policy) -> impl Iterator<Item = &Pattern> {
    let overrides = policy.overrides.iter().filter_map(Override::when).flat_map(Conditions::iter);
    let of_methods =
        policy.conditions.iter().chain(overrides).filter(|condition| condition.attribute() == "method");
    let mut patterns = Vec::new();
    of_methods.map(Condition::test).for_each(|test| add_patterns(test, &mut patterns));
    patterns.into_iter().filter(|pattern| has_lower_case(pattern))
}

/// Adds the patterns that are compared with regard to case.
fn add_patterns<'a>(test: &'a Test, patterns: &mut Vec<&'a Pattern>) {
    match test {
        Test::OneOf(of_test) => patterns.extend(of_test),
        Test::All(tests) => tests.iter().for_each(|test| add_patterns(test, patterns)),
        Test::Not(test) => add_patterns(test, patterns),
        _ => {}
    }
}

fn has_lower_case(pattern: &Pattern) -> bool {
    let (Pattern::Exact(text) | Pattern::Prefix(text) | Pattern::Glob(text)) = pattern;
    text.contains(|character: char| character.is_ascii_lowercase())
}
