//! SPDY header blocks, compressed as one continuous stream per connection.

use bytes::Buf as _;
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_HAS_MORE_INPUT;
use miniz_oxide::inflate::core::{DecompressorOxide, TINFL_LZ_DICT_SIZE, decompress};

use super::SpdyError;
use super::dictionary::{CHECKSUM, dictionary};

/// Maximum decompressed size of a header block. Those of kubectl have 60 bytes.
pub(super) const MAX_HEADERS: usize = 16 * 1024;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Headers(Vec<(String, String)>);

impl Headers {
    /// Header names are in lower case.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    fn parse(mut block: &[u8]) -> Result<Self, SpdyError> {
        let count = block.try_get_u32().map_err(|_| SpdyError::Headers)?;
        let mut headers = Vec::new();
        for _ in 0..count {
            // A wrong count fails here: each header consumes bytes of the block.
            headers.push((text(&mut block)?, text(&mut block)?));
        }
        if block.is_empty() { Ok(Self(headers)) } else { Err(SpdyError::Headers) }
    }
}

fn text(block: &mut &[u8]) -> Result<String, SpdyError> {
    let length = block.try_get_u32().map_err(|_| SpdyError::Headers)?;
    let length = usize::try_from(length).map_err(|_| SpdyError::Headers)?;
    let (text, rest) = block.split_at_checked(length).ok_or(SpdyError::Headers)?;
    *block = rest;
    String::from_utf8(text.to_vec()).map_err(|_| SpdyError::Headers)
}

/// Decompresses received header blocks.
pub(super) struct HeaderReader {
    /// Whether the zlib header was read.
    begun: bool,
    state: Box<DecompressorOxide>,
    /// The last output in a ring buffer, for back references. Initialized with the dictionary.
    window: Vec<u8>,
    place: usize,
}

impl HeaderReader {
    pub(super) fn new() -> Self {
        let mut window = dictionary();
        let place = window.len();
        window.resize(TINFL_LZ_DICT_SIZE, 0);
        Self { begun: false, state: Box::default(), window, place }
    }

    /// The headers of the next frame.
    pub(super) fn read(&mut self, mut compressed: &[u8]) -> Result<Headers, SpdyError> {
        if !self.begun {
            compressed = after_zlib_header(compressed)?;
            self.begun = true;
        }
        let mut block = Vec::new();
        loop {
            let (status, consumed, produced) =
                decompress(&mut self.state, compressed, &mut self.window, self.place, TINFL_FLAG_HAS_MORE_INPUT);
            let end = self.place + produced;
            block.extend_from_slice(self.window.get(self.place..end).ok_or(SpdyError::Compression)?);
            self.place = end % TINFL_LZ_DICT_SIZE;
            compressed = compressed.get(consumed..).unwrap_or_default();
            if block.len() > MAX_HEADERS {
                return Err(SpdyError::TooLong(MAX_HEADERS));
            }
            match status {
                TINFLStatus::HasMoreOutput => {}
                TINFLStatus::NeedsMoreInput if compressed.is_empty() => return Headers::parse(&block),
                _ => return Err(SpdyError::Compression),
            }
        }
    }
}

/// The bytes after the zlib header and the dictionary checksum, if present.
fn after_zlib_header(mut bytes: &[u8]) -> Result<&[u8], SpdyError> {
    const DEFLATE: u16 = 0x0800;
    const WITH_DICTIONARY: u16 = 0x0020;
    let zlib = bytes.try_get_u16().map_err(|_| SpdyError::Compression)?;
    if zlib & 0x0f00 != DEFLATE || !zlib.is_multiple_of(31) {
        return Err(SpdyError::Compression);
    }
    if zlib & WITH_DICTIONARY != 0 && bytes.try_get_u32() != Ok(CHECKSUM) {
        return Err(SpdyError::Compression);
    }
    Ok(bytes)
}

/// Writes header blocks. They are stored uncompressed, as there is nothing to gain.
#[derive(Default)]
pub(super) struct HeaderWriter {
    begun: bool,
}

impl HeaderWriter {
    /// An empty header block, as in the reply to a new stream.
    pub(super) fn none(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if !self.begun {
            // zlib header without a dictionary.
            bytes.extend([0x78, 0x01]);
            self.begun = true;
        }
        // A stored block of four bytes: the number of headers.
        bytes.extend([0, 4, 0, !4, !0, 0, 0, 0, 0]);
        // An empty block, which flushes the decompressor.
        bytes.extend([0, 0, 0, !0, !0]);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The compressed headers of the first two streams of kubectl.
    const ERROR_STREAM: &str = "78f9e3c6a7c202253a703a2b294a4dcc851625aca9a0808614cb45e01c6061606100a4398b20d198094ade\
        8c0600000000ffff";
    const DATA_STREAM: &str = "c2aa19540e2512d60b000000ffff";

    fn unhex(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    #[test]
    fn headers_are_read_with_the_dictionary_and_with_what_came_before() {
        let mut reader = HeaderReader::new();
        let headers = reader.read(&unhex(ERROR_STREAM)).unwrap();
        let all = [headers.get("streamtype"), headers.get("port"), headers.get("requestid"), headers.get("Port")];
        assert_eq!(all, [Some("error"), Some("8080"), Some("0"), None]);
        let headers = reader.read(&unhex(DATA_STREAM)).unwrap();
        assert_eq!([headers.get("streamtype"), headers.get("port")], [Some("data"), Some("8080")]);
        // The second block depends on the first.
        assert_eq!(HeaderReader::new().read(&unhex(DATA_STREAM)), Err(SpdyError::Compression));
    }

    #[test]
    fn written_headers_can_be_read() {
        let (mut writer, mut reader) = (HeaderWriter::default(), HeaderReader::new());
        for _ in 0..3 {
            assert_eq!(reader.read(&writer.none()), Ok(Headers::default()));
        }
    }

    /// A stored block with a zlib header.
    fn stored(block: &[u8]) -> Vec<u8> {
        let length = u16::try_from(block.len()).unwrap();
        [&[0x78, 0x01, 0][..], &length.to_le_bytes(), &(!length).to_le_bytes(), block, &[0, 0, 0, 255, 255]].concat()
    }

    #[test]
    fn oversized_headers_are_rejected() {
        let refused = HeaderReader::new().read(&stored(&vec![0; MAX_HEADERS + 1]));
        assert_eq!(refused, Err(SpdyError::TooLong(MAX_HEADERS)));
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        for block in [
            &[255, 255, 255, 255][..],
            &[0, 0, 0, 1, 255, 255, 255, 255, b'a'],
            &[0, 0, 0, 1, 0, 0, 0, 1, b'a'],
            &[0, 0, 0, 0, 9],
            &[0, 0],
            &[0, 0, 0, 1, 0, 0, 0, 1, 0xff, 0, 0, 0, 0],
        ] {
            assert_eq!(HeaderReader::new().read(&stored(block)), Err(SpdyError::Headers), "{block:?}");
        }
    }

    #[test]
    fn garbage_is_refused_and_breaks_nothing() {
        let good = unhex(ERROR_STREAM);
        for place in 0..good.len() {
            for change in [1_u8, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[place] ^= change;
                // Some changes give other valid headers; none may panic.
                drop(HeaderReader::new().read(&bad));
            }
            drop(HeaderReader::new().read(&good[..place]));
        }
    }
}
