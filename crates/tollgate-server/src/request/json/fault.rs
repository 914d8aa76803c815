//! Finds the error in a body: reads it once more and notes the place. No error repeats a value, which may be secret.

use serde::de::Deserialize;

/// Why a body cannot be read.
pub(super) enum Fault {
    /// It is not JSON.
    Syntax(serde_json::Error),
    /// A field is not the expected one.
    Field {
        /// For example `requests[1].attributes.user`; empty for the whole body.
        path: String,
        detail: String,
    },
}

/// Returns the error; `None` if a value of this type can be read.
pub(super) fn find<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Option<Fault> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let error = serde_path_to_error::deserialize::<_, T>(&mut json).err()?;
    let mut path: Vec<String> = Vec::new();
    if error.path().iter().len() > 0 {
        path.push(error.path().to_string());
    }
    let error = error.into_inner();
    if !error.is_data() {
        return Some(Fault::Syntax(error));
    }
    let detail = detail(&error);
    // The path ends with the object of such a field.
    let missing =
        ["missing field `", "duplicate field `"].iter().find_map(|start| detail.strip_prefix(start));
    path.extend(missing.and_then(|field| field.strip_suffix('`')).map(str::to_owned));
    Some(Fault::Field { path: path.join("."), detail })
}

/// Returns the message without its line, which names no field, and without the wrong value.
fn detail(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = text.strip_suffix(&place).unwrap_or(&text);
    if !["invalid type: ", "invalid value: "].iter().any(|start| text.starts_with(start)) {
        return text.to_owned();
    }
    // Serde says "a sequence" for what JSON calls a list.
    match text.rsplit_once(", expected ") {
        Some((_, "a sequence")) => "expected a list".to_owned(),
        Some((_, expected)) => format!("expected {expected}"),
        None => "expected another value".to_owned(),
    }
}
