//! Conditions on a request, for policies and overrides.

use std::fmt;

use crate::{Condition, UndecidedValue, View};

/// Conditions on a request: all of these and, if there are alternatives, one of those as a whole.
///
/// # Examples
///
/// ```
/// use tollgate_policy::{Attributes, Config};
///
/// let text = "
/// policies:
///   - name: logins
///     match:
///       any:
///         - { path: /login }
///         - { path: /token, grant: password }
///     key: [ip]
///     quotas: [5/1m]
/// ";
/// let config = Config::parse("tollgate.yaml", text)?;
/// let conditions = config.policies().as_slice()[0].conditions();
/// let of = |pairs: &[(&str, &str)]| conditions.holds(&pairs.iter().copied().collect::<Attributes<'_>>()) == Ok(true);
/// assert!(of(&[("path", "/login")]) && of(&[("path", "/token"), ("grant", "password")]));
/// assert!(!of(&[("path", "/token"), ("grant", "refresh")]));
/// # Ok::<(), tollgate_policy::ConfigError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conditions {
    pub(crate) all: Vec<Condition>,
    /// None of them is empty.
    pub(crate) any: Vec<Vec<Condition>>,
}

/// The key under which a match has alternatives. No condition of a file is on an attribute of this name.
pub(crate) const ANY: &str = "any";

impl Conditions {
    /// Returns the conditions that must all hold.
    #[must_use]
    pub fn all(&self) -> &[Condition] {
        &self.all
    }

    /// Returns the alternatives: if there are any, all conditions of at least one of them must hold.
    pub fn any(&self) -> impl Iterator<Item = &[Condition]> {
        self.any.iter().map(Vec::as_slice)
    }

    /// Returns whether there are no conditions, so that every request matches.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && self.any.is_empty()
    }

    /// Returns every condition, those of the alternatives last.
    pub fn iter(&self) -> impl Iterator<Item = &Condition> {
        self.all.iter().chain(self.any.iter().flatten())
    }

    /// Returns whether this holds of a request.
    ///
    /// # Errors
    ///
    /// If that depends on an attribute whose value is not known.
    pub fn holds<V: View>(&self, view: &V) -> Result<bool, UndecidedValue<'_>> {
        let all = all_hold(&self.all, view);
        if all == Ok(false) || self.any.is_empty() {
            return all;
        }
        let mut any = Ok(false);
        for alternative in &self.any {
            match all_hold(alternative, view) {
                Ok(true) => return all,
                Ok(false) => {}
                Err(undecided) => any = undecided.beside(any),
            }
        }
        match any {
            Err(undecided) => undecided.beside(all),
            none => none,
        }
    }

    /// Returns whether it contains an empty list, which no file can express.
    pub(crate) fn has_empty_list(&self) -> bool {
        self.any.iter().any(Vec::is_empty) || self.iter().any(|condition| condition.test.has_empty_list())
    }

    /// Returns the ways in which this can hold: of each way, all conditions have to.
    pub(crate) fn ways(&self) -> impl Iterator<Item = Way<'_>> + Clone {
        let alternatives = self.any.iter().map(|any| Way { all: &self.all, any });
        let only = self.any.is_empty().then_some(Way { all: &self.all, any: &[] });
        alternatives.chain(only)
    }
}

/// One way in which conditions hold.
#[derive(Clone, Copy)]
pub(crate) struct Way<'a> {
    all: &'a [Condition],
    any: &'a [Condition],
}

impl<'a> Way<'a> {
    pub(crate) fn iter(self) -> impl Iterator<Item = &'a Condition> + Clone {
        self.all.iter().chain(self.any)
    }
}

/// Returns whether all of these hold of a request. Those whose attributes are known are enough to say no.
fn all_hold<'c, V: View>(conditions: &'c [Condition], view: &V) -> Result<bool, UndecidedValue<'c>> {
    let mut all = Ok(true);
    for condition in conditions {
        match condition.holds(view) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(undecided) => all = undecided.beside(all),
        }
    }
    all
}

/// Written as in a file: parsing it gives the same conditions.
impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{ ")?;
        separated(f, &self.all)?;
        if !self.any.is_empty() {
            f.write_str(if self.all.is_empty() { "" } else { ", " })?;
            write!(f, "{ANY}: [")?;
            for (index, alternative) in self.any.iter().enumerate() {
                f.write_str(if index == 0 { "{ " } else { ", { " })?;
                separated(f, alternative)?;
                f.write_str(" }")?;
            }
            f.write_str("]")?;
        }
        f.write_str(" }")
    }
}

fn separated(f: &mut fmt::Formatter<'_>, conditions: &[Condition]) -> fmt::Result {
    for (index, condition) in conditions.iter().enumerate() {
        write!(f, "{}{condition}", if index == 0 { "" } else { ", " })?;
    }
    Ok(())
}
