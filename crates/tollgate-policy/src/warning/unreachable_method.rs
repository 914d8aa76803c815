//! Patterns of methods that no usual request has.

use crate::{Condition, Conditions, Expression, FileOverride, Pattern, Policy, Test};

/// The patterns of a policy, and of the conditions of its overrides, that need a lower-case letter in a method. Methods
/// are case-sensitive (RFC 9110, section 9.1), and all registered ones are in capital letters.
pub(super) fn unreachable_methods(policy: &Policy) -> Vec<String> {
    let overrides = policy.overrides.iter().filter_map(FileOverride::when).flat_map(Conditions::iter);
    let method_conditions =
        policy.conditions.iter().chain(overrides).filter(|condition| condition.attribute() == "method");
    let mut patterns = Vec::new();
    method_conditions.map(Condition::test).for_each(|test| add_unreachable(test, &mut patterns));
    patterns
}

/// Adds the patterns that are compared with regard to case, and have lower-case letters.
fn add_unreachable(test: &Test, patterns: &mut Vec<String>) {
    match test {
        Test::OneOf(methods) => {
            patterns.extend(methods.iter().filter(|pattern| has_lower_case(pattern)).map(Pattern::to_string));
        }
        Test::Matches(expression) if fits_only_lower_case(expression) => {
            patterns.push(expression.as_str().to_owned());
        }
        Test::All(tests) => tests.iter().for_each(|test| add_unreachable(test, patterns)),
        Test::Not(test) => add_unreachable(test, patterns),
        _ => {}
    }
}

fn has_lower_case(pattern: &Pattern) -> bool {
    let (Pattern::Exact(text) | Pattern::Prefix(text) | Pattern::Glob(text)) = pattern;
    text.contains(|character: char| character.is_ascii_lowercase())
}

/// Returns whether it matches a usual method in lower case, and none as it is sent.
fn fits_only_lower_case(expression: &Expression) -> bool {
    const USUAL: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];
    USUAL.iter().any(|method| expression.fits(&method.to_ascii_lowercase()))
        && !USUAL.iter().any(|method| expression.fits(method))
}
