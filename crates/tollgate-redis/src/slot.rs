//! Which of a cluster's 16,384 slots a key is in.

/// The slot of a key on a Cluster; elsewhere slot 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClusterSlot(pub(crate) u16);

/// The number of slots of a cluster.
pub(crate) const SLOTS: u16 = 16_384;

/// Returns the slot of a key: the CRC16 of the text between the first `{` and the next `}`, or of the whole key if
/// there is none. See <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>.
pub(crate) fn of(key: &[u8]) -> u16 {
    crc16(hash_tag(key).unwrap_or(key)) % SLOTS
}

/// Returns whether these are the digits of a slot.
pub(crate) fn is_slot(digits: &str) -> bool {
    digits.parse().is_ok_and(|slot: u16| slot < SLOTS)
}

fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let (_, behind) = split_once(key, b'{')?;
    let (tag, _) = split_once(behind, b'}')?;
    (!tag.is_empty()).then_some(tag)
}

fn split_once(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let position = bytes.iter().position(|&byte| byte == at)?;
    let (before, behind) = bytes.split_at(position);
    Some((before, behind.get(1..)?))
}

/// CRC-16/XMODEM: polynomial 0x1021, from 0, highest bit first.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

/// The effect of each byte on the checksum.
static TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_cluster_keyslot() {
        // The first is the check value of the specification, the others are what a server answers.
        assert_eq!(crc16(b"123456789"), 0x31c3);
        for (key, slot) in [
            ("", 0),
            ("a", 15495),
            ("foo", 12182),
            ("{}", 15257),
            ("{", 4092),
            ("}", 12090),
            ("{}foo", 9500),
            ("foo{}", 5542),
            ("foo{}{bar}", 8363),
            ("foo{{bar}}zap", 4015),
            ("foo{bar}{zap}", 5061),
            ("{user1000}.following", 3443),
            ("{user1000}.followers", 3443),
            ("tollgate:1:api:1m:{c2VjcmV0}", 6106),
            ("ключ", 10303),
            ("}{a}", 15495),
        ] {
            assert_eq!(of(key.as_bytes()), slot, "{key}");
        }
    }
}
