//! JSON as problems need it, written without a list of its values.

use std::fmt::Write;

/// An object while it is written.
pub(super) struct Object<'t> {
    text: &'t mut String,
    is_empty: bool,
}

impl<'t> Object<'t> {
    pub(super) fn begin(text: &'t mut String) -> Self {
        text.push('{');
        Self { text, is_empty: true }
    }

    pub(super) fn text(&mut self, name: &str, value: &str) -> &mut Self {
        self.name(name);
        string(self.text, value);
        self
    }

    pub(super) fn value(&mut self, name: &str, value: impl std::fmt::Display) -> &mut Self {
        self.name(name);
        // Nothing that is written to a string fails.
        let _ = write!(self.text, "{value}");
        self
    }

    /// What is there, or no member at all.
    pub(super) fn maybe(&mut self, name: &str, value: Option<impl std::fmt::Display>) -> &mut Self {
        match value {
            Some(value) => self.value(name, value),
            None => self,
        }
    }

    pub(super) fn object(&mut self, name: &str, members: impl FnOnce(&mut Object<'_>)) -> &mut Self {
        self.name(name);
        let mut object = Object::begin(self.text);
        members(&mut object);
        object.end();
        self
    }

    /// A list of what each writes.
    pub(super) fn list<T>(
        &mut self,
        name: &str,
        values: impl Iterator<Item = T>,
        write: impl Fn(&mut String, T),
    ) -> &mut Self {
        self.name(name);
        self.text.push('[');
        for (index, value) in values.enumerate() {
            if index > 0 {
                self.text.push(',');
            }
            write(self.text, value);
        }
        self.text.push(']');
        self
    }

    pub(super) fn end(self) {
        self.text.push('}');
    }

    fn name(&mut self, name: &str) {
        if !self.is_empty {
            self.text.push(',');
        }
        self.is_empty = false;
        string(self.text, name);
        self.text.push(':');
    }
}

/// A string, with what RFC 8259 has escaped.
pub(super) fn string(text: &mut String, value: &str) {
    text.push('"');
    for character in value.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\0'..='\x1f' => {
                let _ = write!(text, "\\u{:04x}", u32::from(character));
            }
            _ => text.push(character),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_can_be_read_back() {
        let value: String = ('\0'..='\u{2ff}').chain(['\u{2028}', '😀']).collect();
        let mut text = String::new();
        let mut object = Object::begin(&mut text);
        object.text("a \"name\"", &value).maybe("left", None::<u64>).list(
            "list",
            [&*value].into_iter(),
            string,
        );
        object.end();
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read, serde_json::json!({ "a \"name\"": value, "list": [value] }));
    }
}
