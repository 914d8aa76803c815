//! HTTP/2 as bytes, for clients that break its rules (RFC 9113).

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

pub(crate) const HEADER_TABLE_SIZE: u16 = 1;
pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    let stream = stream.to_be_bytes();
    [&length[1..], &[kind, flags], &stream, payload].concat()
}

pub(crate) fn settings(settings: &[(u16, u32)]) -> Vec<u8> {
    let one = |(name, value): &(u16, u32)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat();
    frame(SETTINGS, 0, 0, &settings.iter().flat_map(one).collect::<Vec<u8>>())
}

/// Encodes a head with literal fields (RFC 7541, section 6.2.2).
pub(crate) fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            length(text.len(), &mut block);
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

pub(crate) fn request(method: &str, path: &str) -> Vec<u8> {
    fields(&[(":method", method), (":scheme", "http"), (":path", path), (":authority", "localhost")])
}

/// Encodes an integer with a prefix of seven bits (RFC 7541, section 5.1).
fn length(length: usize, block: &mut Vec<u8>) {
    const MOST: usize = 127;
    if length < MOST {
        block.push(length as u8);
        return;
    }
    block.push(MOST as u8);
    let mut rest = length - MOST;
    while rest >= 128 {
        block.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    block.push(rest as u8);
}
