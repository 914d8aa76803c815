//! A request across slots, slot by slot.

use std::collections::BTreeMap;

use tollgate::{Charge, QuotaState, QuotaStates, StoreError, Timestamp};

use crate::denials::Id;
use crate::named_charges::NamedCharges;
use crate::names::CounterNames;
use crate::script::KeyText;
use crate::slot;
use crate::store::ask::StepResult;

/// The charges of a request that lie in one slot.
#[derive(Debug, Default)]
pub(super) struct SlotGroup<'a> {
    charges: Vec<Charge<'a>>,
    /// Their places in the request.
    places: Vec<usize>,
}

/// What is asked of one slot.
#[derive(Debug)]
pub(super) struct SlotPart<'a> {
    places: &'a [usize],
    pub(super) named: NamedCharges<'a>,
}

impl SlotPart<'_> {
    pub(super) fn counted(&self, taken: &StepResult) -> QuotaStates {
        self.named.counted(taken.now, &taken.found)
    }
}

/// The charges slot by slot, in the order of slots. Counters that are in one slot now, and may not be when they are
/// asked, are apart.
pub(super) fn groups<'a>(
    charges: &[Charge<'a>],
    names: &CounterNames,
    now: Timestamp,
) -> Result<Vec<SlotGroup<'a>>, StoreError> {
    let mut groups = BTreeMap::<(u16, Option<KeyText>), SlotGroup<'a>>::new();
    for (place, charge) in charges.iter().enumerate() {
        let counter = charge.counter();
        let (name, _) = names.of(&counter, &names.counter_identity(counter.key()), || now)?;
        let slot = slot::of(&name);
        let group = groups.entry((slot, (!names.have_slot_for_each_key()).then_some(name))).or_default();
        group.charges.push(*charge);
        group.places.push(place);
    }
    Ok(groups.into_values().collect())
}

pub(super) fn parts<'a>(groups: &'a [SlotGroup<'a>], names: &CounterNames) -> Vec<SlotPart<'a>> {
    let part = |SlotGroup { charges, places }: &'a SlotGroup<'a>| SlotPart {
        places,
        named: NamedCharges::new(charges, names),
    };
    groups.iter().map(part).collect()
}

/// What was counted part by part, in the order of the charges.
pub(super) fn in_order(parts: &[SlotPart<'_>], counted: &[QuotaStates]) -> QuotaStates {
    let places_and_states = |(part, counted)| {
        let (part, counted): (&SlotPart<'_>, &QuotaStates) = (part, counted);
        part.places.iter().copied().zip(counted.iter().copied()).collect::<Vec<_>>()
    };
    let mut states: Vec<(usize, QuotaState)> =
        parts.iter().zip(counted).flat_map(places_and_states).collect();
    states.sort_unstable_by_key(|(place, _)| *place);
    states.into_iter().map(|(_, state)| state).collect()
}

/// Returns the places of these requests in lists to be taken side by side. Requests with common counters are in one
/// list, in their order.
pub(in crate::store) fn in_turns(requests: Vec<(usize, Vec<Id>)>) -> Vec<Vec<usize>> {
    let mut lists: Vec<(Vec<usize>, Vec<Id>)> = Vec::new();
    for (place, ids) in requests {
        let mut list = (vec![place], ids);
        let has_common = |(_, ids): &mut (_, Vec<Id>)| list.1.iter().any(|own| ids.contains(own));
        let joined: Vec<_> = lists.extract_if(.., has_common).collect();
        for (places, ids) in joined {
            list.0.extend(places);
            list.1.extend(ids);
        }
        list.0.sort_unstable();
        lists.push(list);
    }
    lists.into_iter().map(|(places, _)| places).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All reservations of a batch were taken one after another, so the last of many had no time left.
    #[test]
    fn only_reservations_with_common_counters_are_taken_in_turn() {
        let counters: [[Id; 2]; 5] = [[0, 1], [2, 3], [4, 5], [3, 4], [0, 1]];
        let requests =
            |count| (10..).zip(counters).take(count).map(|(place, ids)| (place, ids.to_vec())).collect();
        assert_eq!(in_turns(requests(3)), [[10], [11], [12]]);
        assert_eq!(in_turns(requests(5)), [vec![11, 12, 13], vec![10, 14]]);
    }
}
