//! The canonical bytes of a key, read back value by value.

/// One value of a key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum KeyValue<'a> {
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    Number(u128),
    /// The absolute value of a number below zero.
    Negative(u64),
    V4([u8; 4]),
    V6([u8; 16]),
    /// The canonical bytes of the parts, one after another.
    Parts(&'a [u8]),
    /// An unknown kind, with its number.
    Other(u8, &'a [u8]),
}

/// The first value, and the bytes after it.
pub(crate) fn parse(canonical: &[u8]) -> Option<(KeyValue<'_>, &[u8])> {
    let (kind, rest) = canonical.split_first()?;
    let (length, rest) = read_length(rest)?;
    let (value, after) = rest.split_at_checked(length)?;
    let value = match (*kind, value.len()) {
        (1, _) => KeyValue::Text(value),
        (2, _) => KeyValue::Bytes(value),
        (3, 8 | 16) => KeyValue::Number(value.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))),
        (6, 8) => KeyValue::Negative(u64::from_be_bytes(array(value)?)),
        (4, 4) => KeyValue::V4(array(value)?),
        (4, 16) => KeyValue::V6(array(value)?),
        (5, _) => KeyValue::Parts(value),
        (kind, _) => KeyValue::Other(kind, value),
    };
    Some((value, after))
}

fn array<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}

/// Reads an unsigned LEB128 number, and returns it with the rest.
fn read_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut length = 0_usize;
    for (place, byte) in bytes.iter().enumerate().take(10) {
        length |= usize::from(byte & 0x7f).checked_shl(7 * u32::try_from(place).ok()?)?;
        if byte & 0x80 == 0 {
            return Some((length, bytes.get(place + 1..)?));
        }
    }
    None
}
