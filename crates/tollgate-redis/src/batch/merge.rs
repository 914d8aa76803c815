//! One order for the requests of a batch, in which equals stand together and become one step of the script.
//!
//! Any order will do, for nobody could tell in which order requests came that were under way at once. Each is
//! answered as if all had been taken one by one in this order.

use smallvec::{SmallVec, smallvec};
use tollgate::StoreError;

use crate::RedisError;
use crate::script::{Answer, Group, Reply, Request, Step};

/// The requests of a batch in the order in which they are taken.
#[derive(Debug)]
pub(crate) struct Merged<'a> {
    requests: &'a [Request],
    /// Indices of requests.
    order: SmallVec<[usize; 1]>,
    /// How many of the order are taken as one.
    runs: SmallVec<[usize; 1]>,
}

impl<'a> Merged<'a> {
    pub(crate) fn new(requests: &'a [Request]) -> Self {
        let mut order: SmallVec<[usize; 1]> = (0..requests.len()).collect();
        order.sort_unstable_by(|a, b| requests[*a].cmp(&requests[*b]));
        let equal = |a: &usize, b: &usize| requests[*a].step.merges() && requests[*a] == requests[*b];
        let runs = order.chunk_by(equal).map(<[usize]>::len).collect();
        Self { requests, order, runs }
    }

    /// Indices of the requests in the order in which they are taken.
    #[cfg(test)]
    pub(crate) fn order(&self) -> impl Iterator<Item = usize> {
        self.order.iter().copied()
    }

    /// Whether all requests are of the same counters.
    pub(crate) fn has_one_set_of_keys(&self) -> bool {
        let mut firsts = self.runs().map(|(first, _)| &first.keys);
        firsts.next().is_none_or(|keys| firsts.all(|others| others == keys))
    }

    /// One group for all runs with the same shapes and as many requests in them.
    pub(crate) fn groups(&self) -> SmallVec<[Group<'a>; 1]> {
        let mut groups = SmallVec::<[Group<'a>; 1]>::new();
        for (first, times) in self.runs() {
            let Request { step, shapes, keys } = first;
            match groups.last_mut() {
                Some(group)
                    if group.times == times && group.step == *step && group.shapes == shapes.as_slice() =>
                {
                    group.requests.push(keys);
                }
                _ => groups.push(Group { step: *step, shapes, times, requests: smallvec![keys.as_slice()] }),
            }
        }
        groups
    }

    /// Hands every request its answer.
    pub(crate) fn hand_out(
        &self,
        mut reply: Reply,
        mut answer: impl FnMut(usize, Answer),
    ) -> Result<(), StoreError> {
        let mut order = self.order.iter().copied();
        for (request, times) in self.runs() {
            let mut next = reply.next(request)?;
            for index in order.by_ref().take(times) {
                answer(index, next.clone());
                next.step_on(request);
            }
        }
        if reply.is_over() { Ok(()) } else { Err(RedisError::BadReply.into()) }
    }

    /// The first request of each run, and how many there are.
    fn runs(&self) -> impl Iterator<Item = (&'a Request, usize)> {
        let mut start = 0;
        self.runs.iter().map(move |&times| {
            let first = &self.requests[self.order[start]];
            start += times;
            (first, times)
        })
    }
}

impl Step {
    /// Whether two of them are one step taken twice.
    const fn merges(self) -> bool {
        matches!(self, Self::Charge | Self::Look)
    }
}
