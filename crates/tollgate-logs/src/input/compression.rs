//! Compressed logs, recognised by their first bytes.

use std::error::Error as _;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::iter;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// What the bytes are once they are not compressed any more: several members of gzip, several frames of zstd, or the
/// bytes themselves.
pub(crate) fn plain(mut input: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let mut first = Vec::with_capacity(ZSTD.len());
    (&mut input).take(ZSTD.len() as u64).read_to_end(&mut first)?;
    let (is_gzip, is_zstd) = (first.starts_with(&GZIP), first == ZSTD);
    let other = match first.as_slice() {
        // The digit is the size of its blocks.
        [b'B', b'Z', b'h', b'1'..=b'9'] => Some("bzcat"),
        [0xfd, b'7', b'z', b'X'] => Some("xzcat"),
        _ => None,
    };
    if let Some(program) = other {
        let hint = format!("only gzip and zstd are read; pipe it: {program} FILE | tollgate ... -");
        return Err(io::Error::new(io::ErrorKind::InvalidData, hint));
    }
    let whole = Cursor::new(first).chain(input);
    Ok(match () {
        () if is_gzip => Box::new(MultiGzDecoder::new(BufReader::with_capacity(64 << 10, whole))),
        () if is_zstd => Box::new(Zstd::new(whole)),
        () => Box::new(whole),
    })
}

/// All frames of zstd, one after the other.
struct Zstd<R> {
    input: BufReader<Chain<Cursor<Vec<u8>>, R>>,
    decoder: FrameDecoder,
    is_in_frame: bool,
}

impl<R: Read> Zstd<R> {
    fn new(input: Chain<Cursor<Vec<u8>>, R>) -> Self {
        let input = BufReader::with_capacity(64 << 10, input);
        Self { input, decoder: FrameDecoder::new(), is_in_frame: false }
    }

    /// Begins the next frame that has data; `false` if there is none.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.input.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.input) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(&mut (&mut self.input).take(length.into()), &mut io::sink())?;
                }
                Err(error) => return Err(explained(error)),
            }
        }
        Ok(false)
    }

    fn check(&self) -> io::Result<()> {
        match (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum()) {
            (Some(told), Some(found)) if told != found => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "the checksum of a zstd frame does not match"))
            }
            _ => Ok(()),
        }
    }
}

impl<R: Read> Read for Zstd<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.is_in_frame {
                if !self.begin()? {
                    return Ok(0);
                }
                self.is_in_frame = true;
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let decoded =
                    self.decoder.decode_blocks(&mut self.input, BlockDecodingStrategy::UptoBlocks(1));
                decoded.map_err(explained)?;
            }
            let read = self.decoder.read(room)?;
            if read > 0 || room.is_empty() {
                return Ok(read);
            }
            self.check()?;
            self.is_in_frame = false;
        }
    }
}

/// The decoder's own words are about parts of the format.
fn explained(error: FrameDecoderError) -> io::Error {
    let text = match error {
        FrameDecoderError::WindowSizeTooBig { .. } => {
            "it takes more than 128 MiB to decompress; pipe it: zstd -dc --long=31 FILE | tollgate ... -"
        }
        FrameDecoderError::DictNotProvided { .. } => {
            "it was compressed with a dictionary; pipe it: zstd -dc -D DICTIONARY FILE | tollgate ... -"
        }
        error => {
            let mut causes = iter::successors(error.source(), |cause| (**cause).source());
            let failed = causes.find_map(|cause| cause.downcast_ref::<io::Error>());
            match failed.filter(|failed| failed.kind() != io::ErrorKind::UnexpectedEof) {
                Some(failed) => return io::Error::new(failed.kind(), failed.to_string()),
                None => "the zstd data is damaged or cut off",
            }
        }
    };
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        compress_to_vec(text, CompressionLevel::Fastest)
    }

    fn read(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        plain(Cursor::new(bytes))?.read_to_end(&mut all)?;
        Ok(all)
    }

    fn text() -> Vec<u8> {
        (0..40_000).flat_map(|number| format!("line {number}\n").into_bytes()).collect()
    }

    #[test]
    fn compressed_members_are_read_as_one_text() {
        let text = text();
        let (first, second) = text.split_at(100_001);
        let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        let cases = [
            text.clone(),
            gzip(&text),
            [gzip(first), gzip(b""), gzip(second)].concat(),
            zstd(&text),
            [zstd(first), skipped, zstd(second)].concat(),
        ];
        for (at, bytes) in cases.into_iter().enumerate() {
            assert!(read(bytes).unwrap() == text, "case {at}");
        }
    }

    #[test]
    fn short_texts_are_no_compressed_ones() {
        for bytes in [&b""[..], b"\x1f", b"\x28\xb5\x2f", b"a\n", b"BZh", b"BZhost.example - -"] {
            assert_eq!(read(bytes.to_vec()).unwrap(), bytes);
        }
    }

    /// They were said to have no known format, with the shape of their bytes.
    #[test]
    fn other_compressions_are_told_how_to_be_read() {
        for (bytes, program) in [(&b"BZh91AY&SY"[..], "bzcat"), (b"\xfd7zXZ\0", "xzcat")] {
            let hint = format!("only gzip and zstd are read; pipe it: {program} FILE | tollgate ... -");
            assert_eq!(read(bytes.to_vec()).unwrap_err().to_string(), hint);
        }
    }

    #[test]
    fn a_checksum_of_zstd_is_compared() {
        let mut frame = compress_to_vec(&b"a line of a log\n"[..], CompressionLevel::Uncompressed);
        assert_eq!(read(frame.clone()).unwrap(), b"a line of a log\n");
        let at = frame.iter().position(|&byte| byte == b'o').unwrap();
        frame[at] = b'u';
        assert_eq!(read(frame).unwrap_err().to_string(), "the checksum of a zstd frame does not match");
    }

    #[test]
    fn damaged_and_cut_data_are_errors() {
        for whole in [gzip(&text()), zstd(&text())] {
            for cut in [5, whole.len() / 2, whole.len() - 1] {
                assert!(read(whole[..cut].to_vec()).is_err(), "{cut} of {}", whole.len());
            }
            let mut damaged = whole.clone();
            let last = damaged.len() - 6;
            damaged[last] ^= 0x40;
            assert!(read(damaged).is_err());
        }
    }

    /// A medium that fails.
    struct Failing;

    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }

    #[test]
    fn errors_of_zstd_are_explained() {
        let whole = zstd(&text());
        let half = &whole[..whole.len() / 2];
        let frame = |header: &[u8]| [&ZSTD[..], header, &[1, 0, 0]].concat();
        let cases = [
            (half.to_vec(), "the zstd data is damaged or cut off"),
            ([&whole[..], b"rest"].concat(), "the zstd data is damaged or cut off"),
            (frame(&[0, 0xa8]), "it takes more than 128 MiB to decompress; pipe it: zstd -dc --long=31 "),
            (frame(&[1, 0, 7]), "it was compressed with a dictionary; pipe it: zstd -dc -D DICTIONARY "),
        ];
        for (bytes, expected) in cases {
            let error = read(bytes).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        let failing = Cursor::new(half.to_vec()).chain(Failing);
        let error = plain(failing).unwrap().read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "the disk is gone");
    }
}
