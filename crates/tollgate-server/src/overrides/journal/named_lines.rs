//! Which line is the last one of each override, in little memory: a journal may have millions of them.

use std::hash::{BuildHasher as _, RandomState};

/// The lines that set or delete overrides, in their order.
#[derive(Default)]
pub(super) struct NamedLines {
    hashers: [RandomState; 2],
    lines: Vec<NamedLine>,
}

/// One line. There may be millions, so it has no gaps.
struct NamedLine {
    /// 96 bits of a hash that nobody can foresee. That two of a million names have the same one is less probable than an
    /// error of the memory.
    name: (u64, u32),
    /// Its length; 0 if it deletes.
    length: u32,
    offset: u64,
}

impl NamedLines {
    /// Adds a line behind the others. `set` is its length, if it sets the override of this name.
    pub(super) fn add(&mut self, name: &str, offset: u64, set: Option<u64>) {
        let [high, low] = self.hashers.each_ref().map(|hasher| hasher.hash_one(name));
        // Longer lines are damage.
        let length = set.map_or(0, |length| u32::try_from(length).unwrap_or(u32::MAX));
        self.lines.push(NamedLine { name: (high, low as u32), length, offset });
    }

    /// Returns the offsets of the lines that set the overrides there are, sorted, and the bytes of these lines.
    pub(super) fn into_live(self) -> (Vec<u64>, u64) {
        let Self { mut lines, .. } = self;
        lines.sort_unstable_by_key(|line| (line.name, line.offset));
        let by_name = lines.chunk_by(|one, next| one.name == next.name);
        let last = by_name.filter_map(<[NamedLine]>::last).filter(|line| line.length > 0);
        let mut bytes = 0;
        let mut live: Vec<u64> = last
            .map(|line| {
                bytes += u64::from(line.length);
                line.offset
            })
            .collect();
        live.sort_unstable();
        (live, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_each_name_holds_unless_it_deletes() {
        let mut lines = NamedLines::default();
        for (offset, (name, set)) in (0_u64..).zip([
            ("a", Some(10)),
            ("b", Some(20)),
            ("a", None),
            ("c", Some(30)),
            ("b", Some(40)),
            ("d", None),
            ("a", Some(50)),
            ("c", None),
        ]) {
            lines.add(name, offset, set);
        }
        assert_eq!(lines.into_live(), (vec![4, 6], 90));
    }
}
