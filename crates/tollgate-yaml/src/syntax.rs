//! Errors of the YAML parser, with advice: the parser reports the place where it stopped, not the cause.

/// Returns the parser's message, with the usual cause if it is that of a common mistake.
pub(super) fn explained(words: &str) -> Box<str> {
    let advice = ADVICE.iter().find(|(part, _)| words.contains(part));
    advice.map_or_else(|| words.into(), |(_, advice)| format!("{words}: {advice}").into())
}

const ADVICE: &[(&str, &str)] = &[
    ("tabs", "indent with spaces"),
    (
        "mapping values are not allowed",
        "are braces missing, as in `match: { path: /search }`, is there no space after a `:`, or are there no quotes around a \
         text with `: ` in it?",
    ),
    ("illegal placement of ':'", "is a bracket or a quote not closed in a line before?"),
    (
        "flow mapping",
        "is a `}` missing, or are there no quotes around a text with a brace in it, such as \"${HOST}\"?",
    ),
    ("flow sequence", "is a `]` or a `,` missing?"),
    ("quoted scalar", "is a quote not closed?"),
    ("anchor", "a text that begins with `*` or `&` needs quotes"),
    ("block", "do all lines of the list or mapping begin in the same column?"),
];
