//! Classes of clients: rules for robots, partners or customers.

use thiserror::Error;
use tollgate_policy::{Attributes, Config, ConfigError, Policies, Sources};

/// Classes of clients; a request is in the first one that matches.
#[derive(Debug)]
pub struct Classes(Option<Policies>);

/// A list of known clients, such as customers and offices.
#[derive(Debug, Clone, Copy)]
pub struct KnownClients<'a> {
    /// The attribute that identifies them. `ip` is in a list of addresses and networks, others in one of values.
    pub attribute: &'a str,
    /// The name of the list in messages.
    pub file: &'a str,
    /// A client a line, as in a list that a file of policies names.
    pub text: &'a str,
}

/// An invalid class.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClassError {
    /// It is not written as `NAME=CONDITIONS`.
    #[error("class `{0}`: expected NAME=CONDITIONS, such as bot='user_agent: \"*bot*\"'")]
    Form(String),
    /// The conditions are not valid.
    #[error(transparent)]
    Conditions(#[from] ConfigError),
    /// Reports have their own class of this name.
    #[error("class `{0}`: this name is taken")]
    Reserved(String),
    /// There are more than 250.
    #[error("at most 250 classes are possible")]
    TooMany,
}

/// Without any class.
impl Default for Classes {
    fn default() -> Self {
        Self(None)
    }
}

impl Classes {
    /// Reads classes, each as `NAME=CONDITIONS` with conditions as in the `match` of a policy. Requests of known
    /// clients are in the class `known`, even if they match others.
    ///
    /// # Errors
    ///
    /// If one is not valid, the list is not, or two have the same name.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_simulate::{Classes, KnownClients};
    ///
    /// let bots = ["bot=user_agent: '*bot*'".to_owned()];
    /// let offices = KnownClients { attribute: "ip", file: "offices.txt", text: "192.0.2.0/24\n198.51.100.7\n" };
    /// let classes = Classes::parse(&bots, Some(offices))?;
    /// assert_eq!(classes.names().collect::<Vec<_>>(), ["known", "bot"]);
    /// assert!(Classes::parse(&["bot".to_owned()], None).is_err());
    /// # Ok::<(), tollgate_simulate::ClassError>(())
    /// ```
    pub fn parse(classes: &[String], known: Option<KnownClients<'_>>) -> Result<Self, ClassError> {
        Self::parse_flag("--class", classes, known)
    }

    /// Reads conditions as in the `match` of a policy: those of one class, and the only one. Errors name the `flag`.
    ///
    /// # Errors
    ///
    /// If they are not valid.
    pub fn of_conditions(flag: &str, conditions: &str) -> Result<Self, ClassError> {
        Self::parse_flag(flag, &[format!("counted={conditions}")], None)
    }

    fn parse_flag(
        flag: &str,
        classes: &[String],
        known: Option<KnownClients<'_>>,
    ) -> Result<Self, ClassError> {
        if classes.len() + usize::from(known.is_some()) > 250 {
            return Err(ClassError::TooMany);
        }
        if classes.is_empty() && known.is_none() {
            return Ok(Self::default());
        }
        let mut text = "policies:\n".to_owned();
        if let Some(KnownClients { attribute, file, .. }) = known {
            let list = if attribute == "ip" { "cidr_from" } else { "one_of_from" };
            // Texts of JSON are texts of YAML.
            let [attribute, file] = [attribute, file].map(|text| serde_json::Value::from(text).to_string());
            text += &class_line("known", &format!("{attribute}: {{ {list}: {file} }}"));
        }
        for class in classes {
            let form = || ClassError::Form(class.clone());
            let (name, conditions) = class.split_once('=').ok_or_else(form)?;
            if conditions.contains('\n') {
                return Err(form());
            }
            if name == "others" || name == "known" && known.is_some() {
                return Err(ClassError::Reserved(name.to_owned()));
            }
            text += &class_line(name, conditions);
        }
        let mut sources = Sources::of(flag, text);
        if let Some(KnownClients { file, text, .. }) = known {
            sources = sources.with_table(flag, file, text);
        }
        Ok(Self(Some(Config::parse_sources(&sources, |_| Vec::new())?.into_policies())))
    }

    /// Returns their names, in the order in which they were given.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|policies| policies.as_slice().iter().map(|policy| policy.name()))
    }

    /// Returns the attributes that they use.
    pub fn attributes(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(Policies::attributes)
    }

    pub(crate) fn len(&self) -> usize {
        self.names().count()
    }

    /// The class of a request, counted from 1; 0 if it is in none.
    pub(crate) fn of(&self, request: &Attributes<'_>) -> u8 {
        let Some(policies) = &self.0 else { return 0 };
        let is_in = |policy: &tollgate_policy::Policy| policy.matches(request) == Ok(true);
        let place = policies.as_slice().iter().position(is_in);
        place.and_then(|place| u8::try_from(place + 1).ok()).unwrap_or(0)
    }
}

/// A class as a policy, which is one line of a file.
fn class_line(name: &str, conditions: &str) -> String {
    format!("  - {{ name: {name}, match: {{ {conditions} }}, key: global, quotas: [1/1s] }}\n")
}
