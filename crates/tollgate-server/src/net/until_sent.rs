//! Values that are held until the bytes of an answer are sent.

use bytes::Bytes;

/// Bytes that a protocol may keep until its client reads them, and a value that is dropped with them.
struct SendingBytes<T> {
    bytes: Bytes,
    _until_sent: T,
}

/// The same bytes, which drop `held` when they are sent, or given up; at once if there are none.
pub(crate) fn until_sent(bytes: Bytes, held: impl Send + 'static) -> Bytes {
    match bytes.is_empty() {
        true => bytes,
        false => Bytes::from_owner(SendingBytes { bytes, _until_sent: held }),
    }
}

impl<T> AsRef<[u8]> for SendingBytes<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
