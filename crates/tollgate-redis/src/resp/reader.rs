//! Reads replies from bytes, without trusting the server.

use std::mem;

use super::{RespValue, ServerError};

/// The most bytes of a reply. The longest that we ask for lists the slots of a Cluster: some megabytes, if no two slots
/// that follow each other are on the same server.
const LARGEST: usize = 16 << 20;

/// The most values of a reply. A reader of many empty values would take far more memory than their bytes.
const MOST_VALUES: usize = 1 << 20;

/// The most arrays in each other. The deepest that we ask for has four: the slots of a Cluster.
const DEEPEST: usize = 8;

/// Bytes that are not a reply, or one that is too large.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Nonsense;

/// Reads replies from bytes as they come, and each byte once. It keeps what it has read of an incomplete reply, so a
/// server that sends a long reply in small pieces costs no more time than one that sends it at once.
#[derive(Default)]
pub(crate) struct Reader {
    /// The arrays that are incomplete, each of them the last value of the one before.
    arrays: Vec<UnfinishedReply>,
    /// The length of a bulk whose bytes are incomplete.
    bulk: Option<usize>,
    /// How many bytes of an incomplete line have been searched for its end.
    searched: usize,
    /// How many values the reply has so far, with those that arrays announce.
    values: usize,
    /// How many bytes of the reply have been read.
    length: usize,
}

struct UnfinishedReply {
    values: Vec<RespValue>,
    /// How many values it has in the end.
    length: usize,
}

impl Reader {
    /// Reads on until a reply is complete or the bytes are at their end. Returns how many bytes were read, and the
    /// reply if it is complete. The next call takes the bytes that were not read, with those that have come since.
    ///
    /// # Errors
    ///
    /// If the bytes are no reply, or if it is too large. What is too large is refused before it has arrived. Nothing
    /// can be read after that.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<(usize, Option<RespValue>), Nonsense> {
        let mut rest = bytes;
        while let Some(value) = self.value(&mut rest)? {
            if let Some(reply) = self.complete(value) {
                (self.values, self.length) = (0, 0);
                return Ok((bytes.len() - rest.len(), Some(reply)));
            }
        }
        let read = bytes.len() - rest.len();
        self.length += read;
        if self.length + rest.len() > LARGEST {
            return Err(Nonsense);
        }
        Ok((read, None))
    }

    /// Reads the next value that is no array or an empty one, and the beginnings of arrays before it. `None` if it is
    /// incomplete.
    fn value(&mut self, rest: &mut &[u8]) -> Result<Option<RespValue>, Nonsense> {
        if let Some(length) = self.bulk {
            return self.bulk(length, rest);
        }
        while let Some((kind, line)) = self.line(rest)? {
            let text = || String::from_utf8_lossy(line);
            let value = match kind {
                b'+' => RespValue::Simple(text().into()),
                b'-' => RespValue::Error(ServerError::new(text())),
                b':' => number(line).map(RespValue::Int).ok_or(Nonsense)?,
                b'$' => match length(line)? {
                    Some(length) => return self.bulk(length, rest),
                    None => RespValue::Nil,
                },
                _ => match length(line)? {
                    Some(length) => {
                        self.begin_array(length, rest.len())?;
                        if length > 0 {
                            continue;
                        }
                        RespValue::Array(Vec::new())
                    }
                    None => RespValue::Nil,
                },
            };
            return Ok(Some(value));
        }
        Ok(None)
    }

    /// Reads a line, and returns the byte that says what it is and the rest of it.
    fn line<'a>(&mut self, rest: &mut &'a [u8]) -> Result<Option<(u8, &'a [u8])>, Nonsense> {
        let Some((kind, _)) = rest.split_first() else { return Ok(None) };
        if !matches!(kind, b'+' | b'-' | b':' | b'$' | b'*') {
            return Err(Nonsense);
        }
        let unsearched = rest.get(self.searched..).unwrap_or_default();
        let Some(end) = unsearched.windows(2).position(|two| two == b"\r\n") else {
            // The last byte may be the first of two.
            self.searched = rest.len() - 1;
            return Ok(None);
        };
        let end = mem::take(&mut self.searched) + end;
        let (line, after) = rest.split_at_checked(end).ok_or(Nonsense)?;
        *rest = after.get(2..).ok_or(Nonsense)?;
        Ok(line.split_first().map(|(kind, line)| (*kind, line)))
    }

    /// Reads the bytes of a bulk and the end of their line.
    fn bulk(&mut self, length: usize, rest: &mut &[u8]) -> Result<Option<RespValue>, Nonsense> {
        self.bulk = Some(length);
        let Some((bulk, after)) = rest.split_at_checked(length) else { return Ok(None) };
        match after.split_at_checked(2) {
            Some((b"\r\n", after)) => *rest = after,
            Some(_) => return Err(Nonsense),
            None => return Ok(None),
        }
        self.bulk = None;
        Ok(Some(RespValue::Bulk(bulk.to_vec())))
    }

    /// Begins an array of so many values, of which there are so many bytes as yet. An empty one needs no value to end
    /// it.
    fn begin_array(&mut self, length: usize, bytes: usize) -> Result<(), Nonsense> {
        self.values += length;
        if self.arrays.len() == DEEPEST || self.values > MOST_VALUES {
            return Err(Nonsense);
        }
        if length > 0 {
            // A value takes three bytes at least.
            let values = Vec::with_capacity(length.min(bytes / 3));
            self.arrays.push(UnfinishedReply { values, length });
        }
        Ok(())
    }

    /// Puts the value where it belongs. Returns it, or the array that it completes, if that is the whole reply.
    fn complete(&mut self, mut value: RespValue) -> Option<RespValue> {
        while let Some(array) = self.arrays.last_mut() {
            array.values.push(value);
            if array.values.len() < array.length {
                return None;
            }
            value = RespValue::Array(self.arrays.pop()?.values);
        }
        Some(value)
    }
}

/// The length that a bulk or an array announces; `None` if a server says that there is nothing.
fn length(digits: &[u8]) -> Result<Option<usize>, Nonsense> {
    match number(digits) {
        Some(-1) => Ok(None),
        announced => {
            let length = announced.and_then(|length| usize::try_from(length).ok());
            length.filter(|length| *length <= LARGEST).map(Some).ok_or(Nonsense)
        }
    }
}

fn number(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "two of these tests are about how long something takes")]
mod tests {
    use std::time::Instant;

    use proptest::prelude::*;
    use redis::parse_redis_value;

    use super::*;

    /// Reads the first reply, and returns its length as well; `None` if it is incomplete.
    fn read(bytes: &[u8]) -> Result<Option<(RespValue, usize)>, Nonsense> {
        let (length, reply) = Reader::default().read(bytes)?;
        Ok(reply.map(|reply| (reply, length)))
    }

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

    /// Whether the client library reads the same.
    fn is_same(ours: &RespValue, theirs: &redis::Value) -> bool {
        match (ours, theirs) {
            (RespValue::Nil, redis::Value::Nil) => true,
            (RespValue::Int(ours), redis::Value::Int(theirs)) => ours == theirs,
            (RespValue::Simple(ours), redis::Value::SimpleString(theirs)) => **ours == **theirs,
            (RespValue::Simple(ours), redis::Value::Okay) => &**ours == "OK",
            (RespValue::Bulk(ours), redis::Value::BulkString(theirs)) => ours == theirs,
            (RespValue::Array(ours), redis::Value::Array(theirs)) => {
                ours.len() == theirs.len()
                    && ours.iter().zip(theirs).all(|(ours, theirs)| is_same(ours, theirs))
            }
            (RespValue::Error(ours), redis::Value::ServerError(theirs)) => {
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
            for size in 1..reply.len() {
                prop_assert_eq!(&in_chunks(&reply, size).0, &value, "in chunks of {} bytes", size);
            }
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

    /// Reads a reply that comes in chunks of this size, as a connection does. Returns what was left over each time.
    fn in_chunks(bytes: &[u8], size: usize) -> (RespValue, Vec<usize>) {
        let (mut reader, mut unread, mut left_over) = (Reader::default(), Vec::new(), Vec::new());
        for chunk in bytes.chunks(size) {
            unread.extend_from_slice(chunk);
            let (length, reply) = reader.read(&unread).unwrap();
            unread.drain(..length);
            left_over.push(unread.len());
            if let Some(reply) = reply {
                return (reply, left_over);
            }
        }
        panic!("the reply is not complete");
    }

    /// Each chunk had all that came before it read again: a server could keep a processor busy for seconds.
    #[test]
    fn a_long_reply_in_small_chunks_is_read_once() {
        let value = b":1\r\n";
        let bytes = [format!("*{MOST_VALUES}\r\n").into_bytes(), value.repeat(MOST_VALUES)].concat();
        let start = Instant::now();
        assert_eq!(in_chunks(&bytes, bytes.len()).1, [0]);
        let at_once = start.elapsed();
        let start = Instant::now();
        let (_, left_over) = in_chunks(&bytes, 16 * 1024);
        let took = start.elapsed();
        // A hundred times as long, when each chunk was read with all before it.
        assert!(took < at_once * 20, "{took:?} in chunks, {at_once:?} at once");
        assert!(left_over.iter().all(|left_over| *left_over < value.len()));
    }

    /// What cannot be taken apart is kept, and not searched again.
    #[test]
    fn a_long_line_in_small_chunks_is_searched_once() {
        let bytes = [&b"+"[..], &b"x".repeat(4 << 20), b"\r\n"].concat();
        let start = Instant::now();
        in_chunks(&bytes, bytes.len());
        let at_once = start.elapsed();
        let start = Instant::now();
        in_chunks(&bytes, 16 * 1024);
        let took = start.elapsed();
        assert!(took < at_once * 20, "{took:?} in chunks, {at_once:?} at once");
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
