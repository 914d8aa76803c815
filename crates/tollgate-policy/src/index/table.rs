//! Texts that are looked up as they are.

use xxhash_rust::xxh3::xxh3_64;

/// Values by texts: slots in a power of two, at most half of them taken, and all texts behind each other.
///
/// A lookup that finds something meets two cache lines, the slot's and the text's. The hash is not keyed, because
/// only texts of the file are put in: an attacker may look up texts that collide with them, and meets at most the
/// longest run of slots in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table<V> {
    slots: Box<[Option<Slot<V>>]>,
    texts: Box<str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Slot<V> {
    /// The part of the hash that does not select the slot.
    hash: u32,
    start: u32,
    end: u32,
    value: V,
}

impl<V: Clone> Table<V> {
    /// Creates a table; each text must occur only once.
    pub(crate) fn new(entries: Vec<(&str, V)>) -> Self {
        let mut slots = vec![None; (2 * entries.len()).next_power_of_two()].into_boxed_slice();
        let mut texts = String::new();
        for (text, value) in entries {
            let (start, hash) = (texts.len() as u32, xxh3_64(text.as_bytes()));
            texts.push_str(text);
            let slot = Slot { hash: high(hash), start, end: texts.len() as u32, value };
            let free = run(hash, slots.len()).find(|index| slots.get(*index).is_some_and(Option::is_none));
            if let Some(place) = free.and_then(|index| slots.get_mut(index)) {
                *place = Some(slot);
            }
        }
        Self { slots, texts: texts.into() }
    }

    #[inline]
    pub(crate) fn get(&self, text: &str) -> Option<&V> {
        if self.texts.is_empty() && self.slots.len() == 1 {
            return None;
        }
        let hash = xxh3_64(text.as_bytes());
        let taken = run(hash, self.slots.len()).map_while(|index| self.slots.get(index)?.as_ref());
        let mut equal = taken.filter(|slot| {
            slot.hash == high(hash)
                && self.texts.get(slot.start as usize..slot.end as usize).is_some_and(|other| other == text)
        });
        equal.next().map(|slot| &slot.value)
    }

    /// Returns all texts with their values, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        self.slots.iter().flatten().map(|slot| {
            let text = self.texts.get(slot.start as usize..slot.end as usize);
            (text.unwrap_or_default(), &slot.value)
        })
    }
}

const fn high(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// The slots in which a text with this hash may be, each once, in order.
fn run(hash: u64, slots: usize) -> impl Iterator<Item = usize> {
    (0..slots).map(move |step| (hash as usize).wrapping_add(step) & (slots - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_exactly_the_keys_that_were_inserted() {
        for count in [0, 1, 2, 3, 100, 1_000] {
            let texts: Vec<String> = (0..count).map(|number| format!("{number}")).collect();
            let table = Table::new(texts.iter().map(|text| (text.as_str(), text.len())).collect());
            for text in &texts {
                assert_eq!(table.get(text), Some(&text.len()));
            }
            assert_eq!(table.iter().count(), count);
            assert!(
                table.iter().all(|(text, value)| texts.iter().any(|it| it == text) && *value == text.len())
            );
            for other in ["", "-1", "1000", "00", "x"] {
                assert_eq!(table.get(other), None);
            }
        }
        let empty = Table::new(vec![("", 7)]);
        assert_eq!((empty.get(""), empty.get("x")), (Some(&7), None));
    }
}
