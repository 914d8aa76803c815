//! Finds the end of a reply, so that only whole ones are parsed.
//!
//! Of [RESP](https://redis.io/docs/latest/develop/reference/protocol-spec/) its second version, which is what a
//! server speaks until it is told otherwise, and we never tell it.

/// How many bytes a reply may have, and a reply in parts how many parts. The longest we ask for is the slots of a
/// Cluster: some megabytes, if each lies elsewhere than the one before it.
const LARGEST: usize = 16 << 20;

/// Not a reply, or one that is too long.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Nonsense;

/// Returns the length of the first reply; `None` if it is incomplete.
pub(super) fn length(bytes: &[u8]) -> Result<Option<usize>, Nonsense> {
    let (mut end, mut parts) = (0, 1_usize);
    while parts > 0 {
        let Some((&kind, rest)) = bytes.get(end..).and_then(<[u8]>::split_first) else {
            return unfinished(bytes);
        };
        if !matches!(kind, b'+' | b'-' | b':' | b'$' | b'*') {
            return Err(Nonsense);
        }
        let Some(line) = rest.windows(2).position(|two| two == b"\r\n") else { return unfinished(bytes) };
        end += 1 + line + 2;
        parts -= 1;
        match (kind, rest.get(..line)) {
            (b'$', Some(size)) => end += count(size)?.map_or(0, |size| size + 2),
            (b'*', Some(size)) => parts += count(size)?.unwrap_or(0),
            _ => {}
        }
        if end > LARGEST || parts > LARGEST {
            return Err(Nonsense);
        }
    }
    if end > bytes.len() { unfinished(bytes) } else { Ok(Some(end)) }
}

const fn unfinished(bytes: &[u8]) -> Result<Option<usize>, Nonsense> {
    if bytes.len() > LARGEST { Err(Nonsense) } else { Ok(None) }
}

/// How many there are, or `None` if a server says that there is nothing.
fn count(digits: &[u8]) -> Result<Option<usize>, Nonsense> {
    if digits == b"-1" {
        return Ok(None);
    }
    let count = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    count.filter(|count| *count <= LARGEST).map(Some).ok_or(Nonsense)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use redis::parse_redis_value;

    use super::*;

    fn reply() -> impl Strategy<Value = Vec<u8>> {
        let line = "[ -~]{0,9}";
        let leaf = prop_oneof![
            line.prop_map(|text| format!("+{text}\r\n").into_bytes()),
            line.prop_map(|text| format!("-ERR {text}\r\n").into_bytes()),
            any::<i64>().prop_map(|number| format!(":{number}\r\n").into_bytes()),
            Just(b"$-1\r\n".to_vec()),
            Just(b"*-1\r\n".to_vec()),
            proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), any::<u8>()], 0..20)
                .prop_map(|text| [format!("${}\r\n", text.len()).as_bytes(), &text[..], b"\r\n"].concat()),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            proptest::collection::vec(inner, 0..4)
                .prop_map(|parts| [format!("*{}\r\n", parts.len()).into_bytes(), parts.concat()].concat())
        })
    }

    proptest! {
        #[test]
        fn a_reply_ends_where_the_next_begins(reply in reply(), next in reply()) {
            let both = [&reply[..], &next[..]].concat();
            for end in 0..reply.len() {
                prop_assert_eq!(length(&both[..end]), Ok(None), "after {} bytes", end);
            }
            prop_assert_eq!(length(&both), Ok(Some(reply.len())));
            prop_assert!(parse_redis_value(&reply).is_ok());
        }

        #[test]
        fn any_bytes_are_a_reply_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(Some(length)) = length(&bytes) {
                prop_assert!((1..=bytes.len()).contains(&length));
            }
        }
    }

    #[test]
    fn what_no_server_says_is_refused_at_its_first_byte() {
        for bytes in
            [&b"HTTP/1.1 400"[..], b"\0", b"\r\n", b">2", b"*1\r\n?", b"$x\r\n", b"*-2\r\n", b"$\r\n"]
        {
            assert_eq!(length(bytes), Err(Nonsense), "{bytes:?}");
        }
    }

    /// Otherwise a malicious server could fill our memory.
    #[test]
    fn what_is_too_long_is_refused_before_it_is_there() {
        assert_eq!(length(format!("${LARGEST}\r\n").as_bytes()), Err(Nonsense));
        assert_eq!(length(b"$99999999999999999999\r\n"), Err(Nonsense));
        assert_eq!(length(format!("*{}\r\n", LARGEST + 1).as_bytes()), Err(Nonsense));
        assert_eq!(length(format!("*{LARGEST}\r\n*{LARGEST}\r\n").as_bytes()), Err(Nonsense));
        assert_eq!(length(&vec![b'+'; LARGEST + 1]), Err(Nonsense));
    }
}
