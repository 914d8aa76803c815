//! Integers as the script packs them: an array in
//! [MessagePack](https://github.com/msgpack/msgpack/blob/master/spec.md). Nothing else of that format is read.

/// PackedIntegers integers, read from the front.
#[derive(Debug)]
pub(super) struct PackedIntegers {
    bytes: std::vec::IntoIter<u8>,
    left: usize,
}

impl PackedIntegers {
    /// Returns `None` if it is not an array.
    pub(super) fn new(bytes: Vec<u8>) -> Option<Self> {
        let mut packed = Self { bytes: bytes.into_iter(), left: 0 };
        packed.left = match packed.bytes.next()? {
            short @ 0x90..=0x9f => usize::from(short & 0x0f),
            0xdc => usize::try_from(packed.big_endian(2)?).ok()?,
            0xdd => usize::try_from(packed.big_endian(4)?).ok()?,
            _ => return None,
        };
        Some(packed)
    }

    /// Returns `None` if it is not an integer, or if there is none.
    pub(super) fn next(&mut self) -> Option<i64> {
        self.left = self.left.checked_sub(1)?;
        match self.bytes.next()? {
            small @ 0x00..=0x7f => Some(small.into()),
            small @ 0xe0..=0xff => Some(small.cast_signed().into()),
            unsigned @ 0xcc..=0xcf => self.big_endian(1 << (unsigned - 0xcc)),
            signed @ 0xd0..=0xd3 => {
                let bytes = 1_usize << (signed - 0xd0);
                let unused = 64 - 8 * bytes;
                Some(self.big_endian(bytes)? << unused >> unused)
            }
            _ => None,
        }
    }

    /// Returns whether all of it has been read.
    pub(super) fn is_over(&self) -> bool {
        self.left == 0 && self.bytes.as_slice().is_empty()
    }

    fn big_endian(&mut self, bytes: usize) -> Option<i64> {
        (0..bytes).try_fold(0, |number: i64, _| Some(number << 8 | i64::from(self.bytes.next()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpack(bytes: &[u8]) -> Option<Vec<i64>> {
        let mut packed = PackedIntegers::new(bytes.to_vec())?;
        let integers = (0..packed.left).map(|_| packed.next()).collect::<Option<_>>()?;
        packed.is_over().then_some(integers)
    }

    #[test]
    fn reads_integers_of_every_length() {
        for (bytes, integer) in [
            (&b"\x91\x07"[..], 7),
            (b"\x91\x7f", 127),
            (b"\x91\xcc\x80", 128),
            (b"\x91\xcd\x01\x00", 256),
            (b"\x91\xce\x80\x00\x00\x00", 1 << 31),
            (b"\x91\xcf\x00\x00\x01\x9a\xa9\x9f\x00\x01", 0x019a_a99f_0001),
            (b"\x91\xff", -1),
            (b"\x91\xe0", -32),
            (b"\x91\xd0\x80", -128),
            (b"\x91\xd1\xff\x00", -256),
            (b"\x91\xd2\x80\x00\x00\x00", i64::from(i32::MIN)),
            (b"\x91\xd3\x80\x00\x00\x00\x00\x00\x00\x00", i64::MIN),
        ] {
            assert_eq!(unpack(bytes), Some(vec![integer]), "{bytes:?}");
        }
        assert_eq!(unpack(b"\x90"), Some(vec![]));
        assert_eq!(unpack(b"\x92\x01\x02"), Some(vec![1, 2]));
        assert_eq!(unpack(b"\xdc\x00\x02\x01\x02"), Some(vec![1, 2]));
        assert_eq!(unpack(b"\xdd\x00\x00\x00\x02\x01\x02"), Some(vec![1, 2]));
    }

    #[test]
    fn rejects_truncated_trailing_or_non_integer_input() {
        for bytes in [
            &b""[..],
            b"\x07",
            b"\x91",
            b"\x91\x07\x07",
            b"\x92\x07",
            b"\x91\xcd\x01",
            b"\xdc\x00",
            b"\x91\xc0",
            b"\x91\xcb\x00\x00\x00\x00\x00\x00\x00\x00",
        ] {
            assert_eq!(unpack(bytes), None, "{bytes:?}");
        }
    }
}
