//! Files in the same folder, which files of settings name.

use granit_parser::{Event, Parser};

/// The suffix of all keys whose values name files.
pub const FILE_SUFFIX: &str = "_from";

/// The keys of a file itself under which each key that ends in [`FILE_SUFFIX`] names a file of lines.
const LIST_SECTIONS: &[&str] = &["allow", "deny"];

/// The keys that name files of lines wherever they stand.
const LIST_KEYS: &[&str] = &["one_of_from", "cidr_from"];

/// The key that names a file with a table.
const TABLE_KEY: &str = "values_from";

/// Returns whether a key names a file of lines; `section` is the key of the file itself under which it stands.
pub(crate) fn names_lines(key: &str, section: &str) -> bool {
    LIST_KEYS.contains(&key) || LIST_SECTIONS.contains(&section) && key.ends_with(FILE_SUFFIX)
}

/// Returns the files that a text names. It need not be valid.
pub(crate) fn files_named_in(text: &str) -> Vec<Box<str>> {
    if !text.contains(FILE_SUFFIX) {
        return Vec::new();
    }
    let mut names = Vec::new();
    // Within a list of the file, names and values take turns.
    let (mut depth, mut is_listed, mut is_name, mut is_next) = (0, false, false, false);
    for event in Parser::new_from_str(text) {
        let Ok((event, _)) = event else { break };
        match event {
            Event::Scalar(scalar, ..) => {
                if is_next {
                    names.push(scalar.as_ref().into());
                }
                let is_in_section = is_listed && depth == 2 && is_name && scalar.ends_with(FILE_SUFFIX);
                is_next = scalar == TABLE_KEY || LIST_KEYS.contains(&scalar.as_ref()) || is_in_section;
                is_name = !is_name;
                is_listed = if depth == 1 { LIST_SECTIONS.contains(&scalar.as_ref()) } else { is_listed };
            }
            Event::MappingStart(..) | Event::SequenceStart(..) => {
                (depth, is_name, is_next) = (depth + 1, true, false);
            }
            Event::MappingEnd | Event::SequenceEnd => (depth, is_name, is_next) = (depth - 1, true, false),
            _ => is_next = false,
        }
    }
    names
}
