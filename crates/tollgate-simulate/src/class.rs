//! Classes of clients: rules that say who is a robot, a partner or a customer.

use thiserror::Error;
use tollgate_policy::{Attributes, Config, ConfigError, Policies};

/// Classes of clients, of which the first that a request is in counts.
#[derive(Debug)]
pub struct Classes(Option<Policies>);

/// A class that cannot be understood.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClassError {
    /// It is not written as `NAME=CONDITIONS`.
    #[error("class `{0}`: expected NAME=CONDITIONS, such as bot='user_agent: \"*bot*\"'")]
    Form(String),
    /// The conditions are not valid.
    #[error("{0}")]
    Conditions(#[from] ConfigError),
    /// There are more than 250.
    #[error("250 classes are possible at most")]
    TooMany,
}

/// Without any class.
impl Default for Classes {
    fn default() -> Self {
        Self(None)
    }
}

impl Classes {
    /// Reads classes, each as `NAME=CONDITIONS` with conditions as in the `match` of a policy.
    ///
    /// # Errors
    ///
    /// If one is not valid, or two have the same name.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_simulate::Classes;
    ///
    /// let classes = Classes::parse(&["bot=user_agent: '*bot*'".to_owned()])?;
    /// assert_eq!(classes.names().collect::<Vec<_>>(), ["bot"]);
    /// assert!(Classes::parse(&["bot".to_owned()]).is_err());
    /// # Ok::<(), tollgate_simulate::ClassError>(())
    /// ```
    pub fn parse(classes: &[String]) -> Result<Self, ClassError> {
        if classes.len() > 250 {
            return Err(ClassError::TooMany);
        }
        if classes.is_empty() {
            return Ok(Self::default());
        }
        let mut text = "policies:\n".to_owned();
        for class in classes {
            let form = || ClassError::Form(class.clone());
            let (name, conditions) = class.split_once('=').ok_or_else(form)?;
            if conditions.contains('\n') {
                return Err(form());
            }
            text +=
                &format!("  - {{ name: {name}, match: {{ {conditions} }}, key: global, quotas: [1/1s] }}\n");
        }
        Ok(Self(Some(Config::parse("--class", &text)?.into_policies())))
    }

    /// Returns their names, in the order in which they were given.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|policies| policies.as_slice().iter().map(|policy| policy.name()))
    }

    /// Returns the attributes that they go by.
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
