//! The JSON Schema of the file for editors, generated from the types that it is read into.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use serde_json::Value;

use crate::file::RawFile;

/// Returns the JSON Schema (draft 2020-12) of the file, with a line's end at its end.
///
/// It is shipped as `schema/tollgate.schema.json`.
#[must_use]
pub fn json_schema() -> String {
    let settings = SchemaSettings::draft2020_12().with_transform(RecursiveTransform(without_null));
    let schema = settings.into_generator().into_root_schema_for::<RawFile>();
    // A value of JSON has nothing that could not be written.
    format!("{:#}\n", schema.as_value())
}

/// A missing line is left out; it is not `null`.
fn without_null(schema: &mut Schema) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    let Some(Value::Array(choices)) = schema.get_mut("anyOf") else { return };
    choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
    let [Value::Object(only)] = choices.as_slice() else { return };
    let only = only.clone();
    schema.remove("anyOf");
    for (key, value) in only {
        schema.insert(key, value);
    }
}
