//! What has denied requests of a client.

use super::packed::PackedNumber;

/// Which policy has denied requests of one client, in two bytes.
///
/// It tells whether another one than a given policy has, which is all that is needed to report the rest of a client's
/// denials if that policy has another limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Denier(PackedNumber<2>);

impl Denier {
    const NONE: u64 = 0;
    const OTHERS: u64 = (1 << 16) - 1;

    /// The policy with this track, if its denials are told apart from those of others.
    pub(crate) fn of(track: usize) -> Option<Self> {
        let number = (track as u64).saturating_add(1);
        (number < Self::OTHERS).then(|| Self(PackedNumber::of(number)))
    }

    /// Several policies, or one whose denials are not told apart.
    pub(crate) fn others() -> Self {
        Self(PackedNumber::of(Self::OTHERS))
    }

    /// Notes that this one has denied a request.
    pub(crate) fn note(&mut self, denier: Self) {
        if self.0.get() == Self::NONE {
            *self = denier;
        } else if *self != denier {
            *self = Self::others();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_one_policy_until_another_denies() {
        let mut denier = Denier::default();
        let (one, another) = (Denier::of(0).unwrap(), Denier::of(65_533).unwrap());
        denier.note(one);
        denier.note(one);
        assert_eq!(denier, one);
        denier.note(another);
        denier.note(one);
        assert_eq!(denier, Denier::others());
        assert_eq!(Denier::of(65_534), None);
    }
}
