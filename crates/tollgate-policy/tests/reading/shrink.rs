//! Reduces a failing case to what is needed for its failure.

use crate::Case;
use crate::file::{Mode, Quota, QuotaChoice, Spelling};

/// A change that leaves something out; returns false if there is nothing at this place.
type Cut = fn(&mut Case, usize) -> bool;

const CUTS: [Cut; 14] = [
    |case, at| is_removed(&mut case.requests, at),
    |case, at| is_removed(&mut case.overrides.list, at),
    |case, at| is_removed(&mut case.file.policies, at),
    |case, at| {
        let lists = case.file.policies.iter_mut().map(|policy| &mut policy.conditions.lines);
        is_removed_from(lists, at)
    },
    |case, at| {
        let lists = case.file.policies.iter_mut().map(|policy| &mut policy.conditions.any);
        is_removed_from(lists, at)
    },
    |case, at| {
        let counting = case.file.policies.iter_mut().filter_map(|policy| policy.counting.as_mut());
        is_removed_from(counting.map(|counting| &mut counting.overrides), at)
    },
    |case, at| {
        let mut counting = case.file.policies.iter_mut().filter_map(|policy| policy.counting.as_mut());
        counting.nth(at).is_some_and(|counting| {
            counting.candidates = None;
            counting.quotas =
                QuotaChoice::List(vec![Quota::Fixed(Spelling { in_file: "5/1m", usual: "5/1m" })]);
            true
        })
    },
    |case, at| is_removed_from(case.requests.iter_mut().map(|request| &mut request.attributes), at),
    |case, at| {
        let mut requests = case.requests.iter_mut().filter(|request| !request.unverified.is_empty());
        requests.nth(at).map(|request| request.unverified.clear()).is_some()
    },
    |case, at| {
        let mut requests = case.requests.iter_mut().filter(|request| request.within.is_some());
        requests.nth(at).map(|request| request.within = None).is_some()
    },
    |case, at| {
        let counting = case.file.policies.iter_mut().filter_map(|policy| policy.counting.as_mut());
        let lists = counting.filter_map(|counting| match &mut counting.quotas {
            QuotaChoice::List(quotas) if quotas.len() > 1 => Some(quotas),
            _ => None,
        });
        is_removed_from(lists, at)
    },
    |case, at| is_removed_from([&mut case.file.allow, &mut case.file.deny].into_iter(), at),
    |case, at| at == 0 && !std::mem::take(&mut case.file.tiers).is_empty(),
    |case, at| at == 0 && std::mem::replace(&mut case.file.mode, Mode::Enforce) != Mode::Enforce,
];

/// Leaves out everything that the case still fails without.
pub(crate) fn shrink(case: &Case, fails: impl Fn(&Case) -> bool) -> Case {
    let mut small = case.clone();
    loop {
        let mut is_smaller = false;
        for cut in CUTS {
            let mut at = 0;
            loop {
                let mut candidate = small.clone();
                if !cut(&mut candidate, at) {
                    break;
                }
                if fails(&candidate) && format!("{candidate:?}") != format!("{small:?}") {
                    small = candidate;
                    is_smaller = true;
                } else {
                    at += 1;
                }
            }
        }
        if !is_smaller {
            return small;
        }
    }
}

fn is_removed<T>(list: &mut Vec<T>, at: usize) -> bool {
    let is_there = at < list.len();
    if is_there {
        list.remove(at);
    }
    is_there
}

/// Treats all lists as one.
fn is_removed_from<'a, T: 'a>(lists: impl Iterator<Item = &'a mut Vec<T>>, mut at: usize) -> bool {
    for list in lists {
        if at < list.len() {
            list.remove(at);
            return true;
        }
        at -= list.len();
    }
    false
}
