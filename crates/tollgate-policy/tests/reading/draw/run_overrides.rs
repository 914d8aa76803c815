//! Overrides that are set while a service runs.

use super::Draw;
use crate::file::{Counting, File, Key};
use crate::run_override::{RunFault, RunLimits, RunOverride, RunOverrides, RunTarget};

impl Draw {
    /// Draws overrides of the policies of a file.
    pub(crate) fn run_overrides(&mut self, file: &File) -> RunOverrides {
        let now = self.random.i64(0..1_000_000);
        let most = if self.once_in(4) { 0 } else { 24 };
        let count = self.random.usize(..=most);
        RunOverrides { list: (0..count).map(|_| self.run_override(file, now)).collect(), now }
    }

    fn run_override(&mut self, file: &File, now: i64) -> RunOverride {
        let policy = self.random.choice(&file.policies).filter(|_| !self.once_in(20));
        let counting = policy.and_then(|policy| policy.counting.as_ref());
        let target = match counting {
            Some(counting) if self.random.bool() => RunTarget::Key(self.pairs(counting)),
            _ => self.compared(),
        };
        let limits = match self.random.u32(..8) {
            0 => RunLimits::Unlimited,
            1..4 => RunLimits::Denied,
            _ => match self.quotas_of(|_| false) {
                quotas if quotas.is_empty() => RunLimits::Unlimited,
                quotas => RunLimits::Quotas(quotas),
            },
        };
        let faults = [RunFault::OtherKey, RunFault::SameWindow, RunFault::NoLimit, RunFault::Unreadable];
        let ends = [-5_000, -2_000, -1_999, -1, 0, 1, 5_000];
        RunOverride {
            policy: policy.map_or("p99".to_owned(), |policy| policy.name.clone()),
            target,
            limits,
            until: self.once_in(2).then(|| now + self.random.choice(&ends).expect("there are some")),
            fault: if self.once_in(8) { self.random.choice(&faults).copied() } else { None },
        }
    }

    /// Draws a text or a prefix, of an attribute that few have in common.
    fn compared(&mut self) -> RunTarget {
        let attribute = if self.random.bool() { self.pick(&["x", "y"]).to_owned() } else { self.name() };
        let is_whole = self.random.bool();
        let text = match self.value_near(&attribute) {
            Some(near) if self.random.bool() => near,
            _ => self.noted(&attribute),
        };
        let length = self.random.usize(..3);
        let text = if is_whole { text } else { text.chars().take(length).collect() };
        RunTarget::Text { attribute, text, is_whole }
    }

    /// Draws the attributes of a key.
    fn pairs(&mut self, counting: &Counting) -> Vec<(String, String)> {
        let mut names = Vec::new();
        self.key_names(&counting.key, &mut names);
        names.sort();
        names.dedup();
        let pairs = names.into_iter().map(|name| {
            let value = match self.value_near(&name) {
                Some(near) if self.random.bool() => near,
                _ => self.noted(&name),
            };
            (name, value)
        });
        pairs.collect()
    }

    fn key_names(&mut self, key: &Key, names: &mut Vec<String>) {
        match key {
            Key::Global => {}
            Key::Attribute(name) | Key::Address { name, .. } => names.push(name.clone()),
            Key::All(parts) => parts.iter().for_each(|part| self.key_names(part, names)),
            Key::FirstOf(choices) => {
                let choice = self.random.usize(..choices.len());
                choices.iter().skip(choice).take(1).for_each(|choice| self.key_names(choice, names));
            }
        }
    }
}
