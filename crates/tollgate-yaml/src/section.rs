//! Macros that read, describe and check sections: one list of keys for the reader, the hints and the JSON Schema.

/// A mapping of the file: its keys, and their values. It is the one list of them, for the reader, for the hints and for
/// the JSON Schema.
#[macro_export]
macro_rules! section {
    (
        $(#[$meta:meta])*
        $name:ident ($what:literal $(, $example:literal)?) {
            $( $(#[$field_meta:meta])* $key:literal $field:ident: $type:ty, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Default, schemars::JsonSchema)]
        #[schemars(deny_unknown_fields)]
        pub(crate) struct $name {
            /// The keys that are there, whether or not their values can be read.
            #[schemars(skip)]
            pub(crate) given: Vec<(&'static str, $crate::Position)>,
            /// The keys that were probably meant by unknown ones.
            #[schemars(skip)]
            meant: Vec<&'static str>,
            $( $(#[$field_meta])* #[schemars(rename = $key)] pub(crate) $field: Option<$crate::At<$type>>, )*
        }

        impl $crate::FromNode for $name {
            fn read(node: &$crate::Node, problems: &mut $crate::Problems) -> Option<Self> {
                let expected = concat!("a mapping for ", $what $(, " such as ", $example)?);
                let entries = problems.take(node.at, node.mapping(expected))?;
                let mut section = Self { given: Vec::new(), meant: Vec::new(), $($field: None,)* };
                for entry in entries {
                    match entry.key.as_ref() {
                        $( $key => {
                            section.given.push(($key, entry.at));
                            section.$field = $crate::FromNode::read(&entry.node, problems);
                        } )*
                        _ => {
                            let hint = problems.hint(&entry.key, Self::KEYS);
                            section.meant.extend(hint.meant());
                            let key = entry.key.clone();
                            problems.add(entry.at, $crate::ProblemKind::UnknownKey { key, section: $what, hint });
                        }
                    }
                }
                Some(section)
            }
        }

        impl $name {
            /// All keys that it can have.
            pub(crate) const KEYS: &[&str] = &[$($key),*];

            /// Returns whether the key is present, even if its value cannot be read.
            #[allow(dead_code, reason = "not every section needs it")]
            pub(crate) fn gives(&self, key: &str) -> bool {
                self.given.iter().any(|(given, _)| *given == key)
            }

            /// Notes each of these keys that is missing, but for one that is there misspelt: that is noted already.
            #[allow(dead_code, reason = "not every section needs it")]
            pub(crate) fn need(
                &self,
                keys: &[&'static str],
                at: $crate::Position,
                problems: &mut $crate::Problems,
            ) {
                for key in keys {
                    if !self.gives(key) && !self.meant.contains(key) {
                        problems.add(at, $crate::ProblemKind::MissingKey { section: $what, key });
                    }
                }
            }
        }
    };
}

/// One value of several, each written as its name.
#[macro_export]
macro_rules! words {
    ($name:ty: $what:literal [$($value:expr),*]) => {
        impl $crate::FromNode for $name {
            fn read(node: &$crate::Node, problems: &mut $crate::Problems) -> Option<Self> {
                const KNOWN: &[&str] = &[$($value.name()),*];
                let text = problems.take(node.at, node.text(concat!("a word for the ", $what)))?;
                let found = [$($value),*].into_iter().find(|value| value.name() == text);
                if found.is_none() {
                    let (written, hint) = (node.written().into(), problems.hint(node.written(), KNOWN));
                    problems.add(node.at, $crate::ProblemKind::UnknownWord { what: $what, written, hint });
                }
                found
            }
        }

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                $what.into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "enum": [$($value.name()),*] })
            }
        }
    };
}

/// The form of a value, for editors. Every value that can be written as text may come from an environment variable.
#[macro_export]
macro_rules! schema {
    ($({$($generics:tt)*})? $type:ty: $name:literal, $generator:ident => $schema:expr) => {
        impl$(<$($generics)*>)? schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                false
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn json_schema($generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $schema
            }
        }
    };
}
