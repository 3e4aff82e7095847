//! Frames: how streams share a connection.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use super::SpdyError;
use super::headers::{HeaderReader, HeaderWriter, Headers, LONGEST};

const VERSION: u16 = 3;
/// The first bit of a frame that is no data.
const CONTROL: u8 = 0x80;
/// Every frame begins with so many bytes.
const PROLOGUE: usize = 8;
/// Compressed headers are hardly longer than others; no other frame that is read here has more.
const LONGEST_CONTROL: usize = LONGEST + 1024;
/// The flag of the last frame of a stream.
const LAST: u8 = 1;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;

/// What the other side sends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A new stream. If `last`, the other side will send nothing on it.
    Open { stream: u32, headers: Headers, last: bool },
    /// Bytes of a stream: a frame, or the next part of one.
    Data { stream: u32, bytes: Bytes, last: bool },
    /// The end of a stream in both directions.
    Reset { stream: u32 },
    /// To be sent back.
    Ping(u32),
    /// There will be no more streams.
    GoAway,
    /// Nothing to do for us: settings, windows, answers to what we never asked, types that nobody knows.
    Unimportant,
}

/// Data of which a part has come.
struct Arriving {
    stream: u32,
    left: usize,
    last: bool,
}

/// Makes frames of bytes, however they are cut.
pub(crate) struct FrameReader {
    buffer: BytesMut,
    arriving: Option<Arriving>,
    headers: HeaderReader,
}

impl FrameReader {
    pub(crate) fn new() -> Self {
        Self { buffer: BytesMut::new(), arriving: None, headers: HeaderReader::new() }
    }

    /// Takes bytes. [`Self::next`] is to be called until it has no more frames, so that they do not pile up.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next frame, if enough of it has come.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, SpdyError> {
        if let Some(arriving) = self.arriving.take() {
            return Ok(self.data(arriving));
        }
        let Some((prologue, _)) = self.buffer.split_first_chunk::<PROLOGUE>() else { return Ok(None) };
        let [first, second, third, fourth, flags, length @ ..] = *prologue;
        let length = usize::from(length[0]) << 16 | usize::from(length[1]) << 8 | usize::from(length[2]);
        if first & CONTROL == 0 {
            self.buffer.advance(PROLOGUE);
            let stream = u32::from_be_bytes([first, second, third, fourth]);
            return Ok(self.data(Arriving { stream, left: length, last: flags & LAST != 0 }));
        }
        let version = u16::from_be_bytes([first & !CONTROL, second]);
        if version != VERSION {
            return Err(SpdyError::Version(version));
        }
        let kind = u16::from_be_bytes([third, fourth]);
        if length > LONGEST_CONTROL {
            return Err(SpdyError::Length { kind, length });
        }
        if self.buffer.len() < PROLOGUE + length {
            return Ok(None);
        }
        self.buffer.advance(PROLOGUE);
        let body = self.buffer.split_to(length).freeze();
        self.control(kind, flags, body).map(Some)
    }

    /// What has come of the data of a frame; it may be the rest, or a part, or nothing yet.
    fn data(&mut self, arriving: Arriving) -> Option<Frame> {
        let Arriving { stream, left, last } = arriving;
        if left > 0 && self.buffer.is_empty() {
            self.arriving = Some(arriving);
            return None;
        }
        let bytes = self.buffer.split_to(left.min(self.buffer.len())).freeze();
        let left = left - bytes.len();
        if left > 0 {
            self.arriving = Some(Arriving { stream, left, last });
        }
        Some(Frame::Data { stream, bytes, last: last && left == 0 })
    }

    fn control(&mut self, kind: u16, flags: u8, mut body: Bytes) -> Result<Frame, SpdyError> {
        let length = body.len();
        let number = |body: &mut Bytes| body.try_get_u32().map_err(|_| SpdyError::Length { kind, length });
        match kind {
            SYN_STREAM => {
                let stream = number(&mut body)? & !(1 << 31);
                // The stream that it belongs to, its priority and its slot.
                let _ = (number(&mut body)?, body.try_get_u16().map_err(|_| SpdyError::Length { kind, length })?);
                Ok(Frame::Open { stream, headers: self.headers.read(&body)?, last: flags & LAST != 0 })
            }
            SYN_REPLY | HEADERS => {
                let stream = number(&mut body)? & !(1 << 31);
                // Read even if nobody wants them: the next ones may repeat them.
                self.headers.read(&body)?;
                let ends = flags & LAST != 0;
                Ok(if ends { Frame::Data { stream, bytes: Bytes::new(), last: true } } else { Frame::Unimportant })
            }
            RST_STREAM => Ok(Frame::Reset { stream: number(&mut body)? & !(1 << 31) }),
            PING => Ok(Frame::Ping(number(&mut body)?)),
            GOAWAY => Ok(Frame::GoAway),
            _ => Ok(Frame::Unimportant),
        }
    }
}

/// Why a stream is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It breaks the rules.
    Protocol = 1,
    /// It does not exist.
    Invalid = 2,
    /// It is not wanted, and was not begun.
    Refused = 3,
}

/// Writes frames.
#[derive(Default)]
pub(crate) struct FrameWriter {
    headers: HeaderWriter,
}

impl FrameWriter {
    /// Accepts a new stream.
    pub(crate) fn accept(&mut self, stream: u32) -> Bytes {
        control(SYN_REPLY, &[&stream.to_be_bytes(), &self.headers.none()])
    }

    /// Ends a stream at once.
    pub(crate) fn reset(stream: u32, cause: Cause) -> Bytes {
        control(RST_STREAM, &[&stream.to_be_bytes(), &(cause as u32).to_be_bytes()])
    }

    /// Answers a ping.
    pub(crate) fn pong(id: u32) -> Bytes {
        control(PING, &[&id.to_be_bytes()])
    }

    /// Data of a stream. A frame cannot have more than 16 MiB; what is longer is cut.
    pub(crate) fn data(stream: u32, bytes: &[u8], last: bool) -> Bytes {
        let bytes = bytes.get(..(1 << 24) - 1).unwrap_or(bytes);
        let mut frame = BytesMut::with_capacity(PROLOGUE + bytes.len());
        frame.put_u32(stream & !(1 << 31));
        frame.put_u8(u8::from(last));
        frame.put_uint(bytes.len() as u64, 3);
        frame.put_slice(bytes);
        frame.freeze()
    }
}

fn control(kind: u16, parts: &[&[u8]]) -> Bytes {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut frame = BytesMut::with_capacity(PROLOGUE + length);
    frame.put_u8(CONTROL);
    frame.put_u8(3);
    frame.put_u16(kind);
    frame.put_u8(0);
    frame.put_uint(length as u64, 3);
    for part in parts {
        frame.put_slice(part);
    }
    frame.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(reader: &mut FrameReader, bytes: &[u8]) -> Result<Vec<Frame>, SpdyError> {
        reader.push(bytes);
        std::iter::from_fn(|| reader.next().transpose()).collect()
    }

    fn read(bytes: &[u8]) -> Result<Vec<Frame>, SpdyError> {
        frames(&mut FrameReader::new(), bytes)
    }

    /// A new stream without headers.
    fn open(stream: u32) -> Bytes {
        control(SYN_STREAM, &[&stream.to_be_bytes(), &[0; 6], &HeaderWriter::default().none()])
    }

    fn data(stream: u32, bytes: &'static [u8], last: bool) -> Frame {
        Frame::Data { stream, bytes: Bytes::from_static(bytes), last }
    }

    #[test]
    fn a_conversation_is_read() {
        let all = [
            open(1),
            FrameWriter::data(1, b"hello", false),
            FrameWriter::pong(7),
            control(4, &[&[0, 0, 0, 0]]),
            control(9, &[&[0, 0, 0, 1, 0, 0, 1, 0]]),
            FrameWriter::data(1, b"", true),
            FrameWriter::reset(1, Cause::Refused),
            control(GOAWAY, &[&[0; 8]]),
        ];
        let expected = [
            Frame::Open { stream: 1, headers: Headers::default(), last: false },
            data(1, b"hello", false),
            Frame::Ping(7),
            Frame::Unimportant,
            Frame::Unimportant,
            data(1, b"", true),
            Frame::Reset { stream: 1 },
            Frame::GoAway,
        ];
        assert_eq!(read(&all.concat()).unwrap(), expected);
    }

    #[test]
    fn it_does_not_matter_how_frames_are_cut() {
        let bytes = [open(1), FrameWriter::pong(3), open(3).slice(..0), FrameWriter::reset(1, Cause::Invalid)].concat();
        let mut reader = FrameReader::new();
        let mut seen = Vec::new();
        for byte in &bytes {
            seen.extend(frames(&mut reader, &[*byte]).unwrap());
        }
        assert_eq!(seen, read(&bytes).unwrap());
    }

    #[test]
    fn data_is_passed_on_as_it_comes_and_its_end_only_with_the_last_byte() {
        let mut reader = FrameReader::new();
        let frame = FrameWriter::data(5, b"abcdef", true);
        assert_eq!(frames(&mut reader, &frame[..8]).unwrap(), []);
        assert_eq!(frames(&mut reader, &frame[8..11]).unwrap(), [data(5, b"abc", false)]);
        assert_eq!(frames(&mut reader, &frame[11..]).unwrap(), [data(5, b"def", true)]);
        // The largest frame there can be needs no more memory than what came of it.
        assert_eq!(frames(&mut reader, &[0, 0, 0, 5, 0, 255, 255, 255, 1]).unwrap(), [data(5, &[1], false)]);
    }

    #[test]
    fn frames_that_cannot_be_right_end_the_connection() {
        assert_eq!(read(&[0x80, 2, 0, 1, 0, 0, 0, 0]), Err(SpdyError::Version(2)));
        assert_eq!(read(&[0x80, 3, 0, 1, 0, 255, 0, 0]), Err(SpdyError::Length { kind: 1, length: 0xff_0000 }));
        assert_eq!(read(&control(PING, &[&[1]])), Err(SpdyError::Length { kind: PING, length: 1 }));
        assert_eq!(read(&control(SYN_STREAM, &[&[1; 9]])), Err(SpdyError::Length { kind: SYN_STREAM, length: 9 }));
        assert_eq!(read(&control(SYN_STREAM, &[&[1; 16]])), Err(SpdyError::Compression));
    }

    #[test]
    fn garbage_breaks_nothing() {
        let good = [open(1), FrameWriter::data(1, b"hello", false), FrameWriter::pong(7)].concat();
        for place in 0..good.len() {
            for change in [1_u8, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[place] ^= change;
                drop(read(&bad));
            }
        }
    }
}
