//! The generation of content that is live: a short hash, which is the same wherever the same limits are live.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64;

/// The generation of limits: a hash of what they mean, displayed as 16 hexadecimal digits.
///
/// Processes with the same limits have the same generation, whatever files the limits come from, how these are named and
/// in which order they have the policies. Another limit, another row of a table or another entry of a list gives another
/// generation. Unlike a version, it does not depend on how often a process replaced its limits.
///
/// It tells limits apart that differ by accident: 64 bits of XXH3, which anybody can forge. Another version of this crate
/// may compute another one for the same limits.
///
/// # Examples
///
/// ```
/// use tollgate_policy::{Config, Generation};
///
/// let of = |text: &str| Config::parse("tollgate.yaml", text).map(|config| config.policies().generation());
/// let login = "  - { name: login, match: { path: /login }, key: [ip], quotas: [5/1m] }\n";
/// let all = "  - { name: all, key: global, quotas: [1000/1s] }\n";
/// let generation = of(&format!("policies:\n{login}{all}"))?;
/// assert_eq!(generation, of(&format!("policies: # In another order.\n{all}{login}"))?);
/// assert_ne!(generation, of(&format!("policies:\n{login}{}", all.replace("1000", "1001")))?);
/// assert_eq!(generation.to_string().parse::<Generation>(), Ok(generation));
/// # Ok::<(), tollgate_policy::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(u64);

/// A text that is not a generation. The fault of its author.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a generation has {} hexadecimal digits, such as 0123456789abcdef", Generation::DIGITS)]
pub struct GenerationError;

/// Computes a [`Generation`] from the parts of some content, one by one.
///
/// What is written must be readable again: before parts of which there may be any number comes their number, and before
/// a part that may have several forms comes the name of its form. Then other content gives other bytes.
///
/// # Examples
///
/// ```
/// use tollgate_policy::GenerationWriter;
///
/// let of = |roles: &[&str]| {
///     let mut writer = GenerationWriter::new("roles");
///     writer.set(roles, |role, writer| writer.text(role));
///     writer.finish()
/// };
/// assert_eq!(of(&["admin", "user"]), of(&["user", "admin", "user"]));
/// assert_ne!(of(&["admin", "user"]), of(&["adminuser"]));
/// ```
pub struct GenerationWriter(Vec<u8>);

impl Generation {
    /// The number of its hexadecimal digits.
    const DIGITS: usize = 16;
}

impl GenerationWriter {
    /// Begins with the name of the kind of content.
    #[must_use]
    pub fn new(kind: &str) -> Self {
        let mut writer = Self(Vec::new());
        writer.text(kind);
        writer
    }

    /// Writes a text, with its length.
    pub fn text(&mut self, text: &str) {
        self.count(text.len());
        self.0.extend(text.as_bytes());
    }

    /// Writes the text that a value is displayed as.
    pub fn shown(&mut self, value: &impl fmt::Display) {
        self.text(&value.to_string());
    }

    /// Writes a number.
    pub fn number(&mut self, number: u128) {
        self.0.extend(number.to_le_bytes());
    }

    /// Writes whether something is so.
    pub fn flag(&mut self, is_so: bool) {
        self.number(is_so.into());
    }

    /// Writes the number of parts that follow.
    pub fn count(&mut self, count: usize) {
        self.number(count as u128);
    }

    /// Writes parts whose order matters.
    pub fn list<T>(
        &mut self,
        parts: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>,
        mut write: impl FnMut(T, &mut Self),
    ) {
        let parts = parts.into_iter();
        self.count(parts.len());
        parts.for_each(|part| write(part, self));
    }

    /// Writes parts whose order does not matter. A part that is there twice counts once.
    pub fn set<T>(&mut self, parts: impl IntoIterator<Item = T>, mut write: impl FnMut(T, &mut Self)) {
        let start = self.0.len();
        let mut hashes = Vec::new();
        for part in parts {
            write(part, self);
            hashes.push(xxh3_64(self.0.get(start..).unwrap_or_default()));
            self.0.truncate(start);
        }
        hashes.sort_unstable();
        hashes.dedup();
        self.list(hashes, |hash, writer| writer.number(hash.into()));
    }

    /// Returns the generation of what was written.
    #[must_use]
    pub fn finish(self) -> Generation {
        Generation(xxh3_64(&self.0))
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0digits$x}", self.0, digits = Self::DIGITS)
    }
}

impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Generation({self})")
    }
}

impl FromStr for Generation {
    type Err = GenerationError;

    fn from_str(text: &str) -> Result<Self, GenerationError> {
        // Reading alone accepts a sign.
        let is_hex = text.len() == Self::DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u64::from_str_radix(text, 16).ok().filter(|_| is_hex);
        number.map(Self).ok_or(GenerationError)
    }
}

impl fmt::Debug for GenerationWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GenerationWriter").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replicas of different architectures, and of later releases, are compared.
    #[test]
    fn the_generation_of_some_content_stays_as_it_is() {
        let mut writer = GenerationWriter::new("test");
        writer.text("é");
        writer.number(7);
        writer.list(["a", "b"], |text, writer| writer.text(text));
        writer.set(["a", "b"], |text, writer| writer.text(text));
        assert_eq!(writer.finish().to_string(), "50fc617d3e6573f0");
    }

    #[test]
    fn only_sixteen_digits_are_a_generation() {
        assert_eq!("00000000000000ff".parse(), Ok(Generation(255)));
        assert_eq!("00000000000000FF".parse(), Ok(Generation(255)));
        for text in
            ["", "ff", "+0000000000000ff", "0000000000000ffg", "00000000000000fff", "0x000000000000ff"]
        {
            assert_eq!(text.parse::<Generation>(), Err(GenerationError), "{text}");
        }
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        let of = |write: &dyn Fn(&mut GenerationWriter)| {
            let mut writer = GenerationWriter::new("test");
            write(&mut writer);
            writer.finish()
        };
        let list = |writer: &mut GenerationWriter, parts: &[&str]| {
            writer.list(parts, |part, writer| writer.text(part));
        };
        let texts = [
            of(&|writer| list(writer, &["ab", "c"])),
            of(&|writer| list(writer, &["a", "bc"])),
            of(&|writer| list(writer, &["c", "ab"])),
            of(&|writer| list(writer, &["abc"])),
            of(&|writer| list(writer, &["ab", "c", ""])),
        ];
        for (number, one) in texts.iter().enumerate() {
            assert!(!texts[..number].contains(one), "{number}");
        }
    }
}
