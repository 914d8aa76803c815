//! Reads replies from bytes, without trusting the server.

use super::{ServerError, Value};

/// The maximum size of a reply in bytes. The longest that we request lists the slots of a Cluster: some megabytes, if
/// no two adjacent slots are on the same server.
const LARGEST: usize = 16 << 20;

/// The maximum number of values in a reply. Many empty values would take far more memory than their bytes.
const MOST_VALUES: usize = 1 << 20;

/// The maximum depth of nested arrays. The deepest that we request has four: the slots of a Cluster.
const DEEPEST: usize = 8;

/// Bytes that are not a reply, or one that is too large.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Nonsense;

/// Reads the first reply, and returns its length as well; `None` if it is incomplete.
///
/// # Errors
///
/// If the bytes are not the start of a reply, or if it is too large. A reply that is too large is refused before it has
/// arrived.
pub(crate) fn read(bytes: &[u8]) -> Result<Option<(Value, usize)>, Nonsense> {
    let mut reader = Reader { bytes, at: 0, values: 0 };
    match reader.value(0) {
        Ok(value) => Ok(Some((value, reader.at))),
        Err(Stop::Incomplete) if bytes.len() <= LARGEST => Ok(None),
        Err(_) => Err(Nonsense),
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Read so far, or announced by an array.
    values: usize,
}

/// The reason why there is no value.
enum Stop {
    Incomplete,
    Nonsense,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Value, Stop> {
        let kind = *self.bytes.get(self.at).ok_or(Stop::Incomplete)?;
        if !matches!(kind, b'+' | b'-' | b':' | b'$' | b'*') {
            return Err(Stop::Nonsense);
        }
        self.at += 1;
        let line = self.line()?;
        let text = || String::from_utf8_lossy(line);
        match kind {
            b'+' => Ok(Value::Simple(text().into())),
            b'-' => Ok(Value::Error(ServerError::new(text()))),
            b':' => number(line).map(Value::Int).ok_or(Stop::Nonsense),
            b'$' => length(line)?.map_or(Ok(Value::Nil), |length| self.bulk(length)),
            _ => length(line)?.map_or(Ok(Value::Nil), |length| self.array(length, depth + 1)),
        }
    }

    /// Reads to the end of the line.
    fn line(&mut self) -> Result<&'a [u8], Stop> {
        let rest = self.bytes.get(self.at..).ok_or(Stop::Incomplete)?;
        let end = rest.windows(2).position(|two| two == b"\r\n").ok_or(Stop::Incomplete)?;
        self.at += end + 2;
        rest.get(..end).ok_or(Stop::Incomplete)
    }

    fn bulk(&mut self, length: usize) -> Result<Value, Stop> {
        let rest = self.bytes.get(self.at..).ok_or(Stop::Incomplete)?;
        let bulk = rest.get(..length).ok_or(Stop::Incomplete)?;
        match rest.get(length..length + 2) {
            Some(b"\r\n") => {}
            Some(_) => return Err(Stop::Nonsense),
            None => return Err(Stop::Incomplete),
        }
        self.at += length + 2;
        Ok(Value::Bulk(bulk.to_vec()))
    }

    fn array(&mut self, length: usize, depth: usize) -> Result<Value, Stop> {
        self.values += length;
        if depth > DEEPEST || self.values > MOST_VALUES {
            return Err(Stop::Nonsense);
        }
        (0..length).map(|_| self.value(depth)).collect::<Result<_, _>>().map(Value::Array)
    }
}

/// The length that a bulk or an array announces; Returns `None` for a null.
fn length(digits: &[u8]) -> Result<Option<usize>, Stop> {
    match number(digits) {
        Some(-1) => Ok(None),
        announced => {
            let length = announced.and_then(|length| usize::try_from(length).ok());
            length.filter(|length| *length <= LARGEST).map(Some).ok_or(Stop::Nonsense)
        }
    }
}

fn number(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
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

    /// Returns whether the client library reads the same.
    fn is_same(ours: &Value, theirs: &redis::Value) -> bool {
        match (ours, theirs) {
            (Value::Nil, redis::Value::Nil) => true,
            (Value::Int(ours), redis::Value::Int(theirs)) => ours == theirs,
            (Value::Simple(ours), redis::Value::SimpleString(theirs)) => **ours == **theirs,
            (Value::Simple(ours), redis::Value::Okay) => &**ours == "OK",
            (Value::Bulk(ours), redis::Value::BulkString(theirs)) => ours == theirs,
            (Value::Array(ours), redis::Value::Array(theirs)) => {
                ours.len() == theirs.len()
                    && ours.iter().zip(theirs).all(|(ours, theirs)| is_same(ours, theirs))
            }
            (Value::Error(ours), redis::Value::ServerError(theirs)) => {
                ours.code() == theirs.code() && ours.details() == theirs.details().unwrap_or_default()
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn a_reply_is_read_as_the_client_library_reads_it(reply in reply(), next in reply()) {
            let both = [&reply[..], &next[..]].concat();
            for end in 0..reply.len() {
                prop_assert_eq!(read(&both[..end]), Ok(None), "after {} bytes", end);
            }
            let (value, length) = read(&both).unwrap().unwrap();
            prop_assert_eq!(length, reply.len());
            let theirs = parse_redis_value(&reply).unwrap();
            prop_assert!(is_same(&value, &theirs), "{:?} is not {:?}", value, theirs);
        }

        #[test]
        fn any_bytes_are_a_reply_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(Some((_, length))) = read(&bytes) {
                prop_assert!((1..=bytes.len()).contains(&length));
            }
        }
    }

    #[test]
    fn bytes_that_no_server_sends_are_refused_at_once() {
        let deep = [&b"*1\r\n".repeat(DEEPEST + 1)[..], b":1\r\n"].concat();
        for bytes in [
            &b"HTTP/1.1 400"[..],
            b"\0",
            b"\r\n",
            b">2",
            b"*1\r\n?",
            b"$x\r\n",
            b"*-2\r\n",
            b"$\r\n",
            b":\r\n",
            b"$1\r\nabc",
            &deep,
        ] {
            assert_eq!(read(bytes), Err(Nonsense), "{}", bytes.escape_ascii());
        }
    }

    /// Otherwise a malicious server could fill our memory.
    #[test]
    fn too_large_a_reply_is_refused_before_it_has_arrived() {
        assert_eq!(read(format!("${}\r\n", LARGEST + 1).as_bytes()), Err(Nonsense));
        assert_eq!(read(format!("${LARGEST}\r\n").as_bytes()), Ok(None));
        assert_eq!(read(b"$99999999999999999999\r\n"), Err(Nonsense));
        assert_eq!(read(format!("*{}\r\n", MOST_VALUES + 1).as_bytes()), Err(Nonsense));
        assert_eq!(read(format!("*{MOST_VALUES}\r\n*1\r\n").as_bytes()), Err(Nonsense));
        assert_eq!(read(&vec![b'+'; LARGEST + 1]), Err(Nonsense));
    }
}
