//! Patterns of paths that no normalized path can have.

use crate::{Condition, Conditions, FileOverride, Pattern, Policy, Test};

/// The patterns of a policy, and of the conditions of its overrides, that no normalized path fits.
pub(super) fn unreachable(policy: &Policy) -> impl Iterator<Item = &Pattern> {
    let overrides = policy.overrides.iter().filter_map(FileOverride::when).flat_map(Conditions::iter);
    let path_conditions =
        policy.conditions.iter().chain(overrides).filter(|condition| condition.attribute() == "path");
    path_conditions.map(Condition::test).flat_map(patterns).filter(|pattern| fits_no_path(pattern))
}

fn patterns(test: &Test) -> &[Pattern] {
    match test {
        Test::OneOf(patterns) => patterns,
        _ => &[],
    }
}

/// Returns whether it matches no normalized path from the root: such a path has no empty segment and none that is a dot
/// or two. It may still match a path [as it was sent](crate::SentReading). Percent signs may be there, because `%25` is
/// one.
fn fits_no_path(pattern: &Pattern) -> bool {
    let (text, is_whole) = match pattern {
        Pattern::Exact(text) => (text, true),
        Pattern::Prefix(text) => (text, false),
        Pattern::Glob(text) => (text, true),
    };
    let is_special = |character| matches!(pattern, Pattern::Glob(_)) && ['*', '?'].contains(&character);
    let has_no_path = |piece: &str| ["//", "/./", "/../"].iter().any(|wrong| piece.contains(wrong));
    let ends_wrong = is_whole && (text.ends_with("/.") || text.ends_with("/.."));
    text.starts_with('/') && (ends_wrong || text.split(is_special).any(has_no_path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AttributeValue;

    /// No path matches one of these once it is normalized; and each of the others has a path that matches.
    #[test]
    fn a_pattern_of_empty_or_dot_segments_fits_no_path() {
        for never in
            ["/a//b", "//a", "/a/./b", "/a/../b", "/a/.", "/a/..", "/a//*", "/a/../*", "/a/*/../b", "/*/./x?"]
        {
            assert!(fits_no_path(&Pattern::new(never)), "{never}");
            let sent = never.replace('*', "x").replace('?', "y");
            assert!(
                AttributeValue::from(sent.as_str()).canonical("path") != Some(sent.as_str().into()),
                "{never}"
            );
        }
        for (may, path) in [
            ("/a/.well-known", "/a/.well-known"),
            ("/a/.*", "/a/.x"),
            ("/a/..*", "/a/..x"),
            ("/a/*", "/a/b"),
            ("/a/*/b", "/a/x/b"),
            ("/a%2Fb", "/a%252Fb"),
            ("a//b", "a//b"),
            ("/a/", "/a/"),
            ("*//b", "x//b"),
        ] {
            let pattern = Pattern::new(may);
            assert!(!fits_no_path(&pattern), "{may}");
            let Some(AttributeValue::Text(path)) = AttributeValue::from(path).canonical("path") else {
                panic!("{may}")
            };
            assert!(pattern.fits(&path), "{may} {path}");
        }
    }
}
