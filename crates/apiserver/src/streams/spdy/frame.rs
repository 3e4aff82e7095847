//! SPDY frames.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use super::SpdyError;
use super::headers::{HeaderReader, HeaderWriter, Headers, MAX_HEADERS};

const VERSION: u16 = 3;
/// The first bit of a control frame.
const CONTROL: u8 = 0x80;
/// Length of the frame header.
const FRAME_HEADER: usize = 8;
/// Maximum length of a control frame: compressed headers are at most slightly longer than plain ones.
const MAX_CONTROL: usize = MAX_HEADERS + 1024;
/// The FIN flag.
const LAST: u8 = 1;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;

/// A received frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A new stream; `last` if the peer will send no data on it.
    Open { stream: u32, headers: Headers, last: bool },
    /// Data of a stream: a whole frame, or a part of one.
    Data { stream: u32, bytes: Bytes, last: bool },
    /// Both directions of a stream are closed.
    Reset { stream: u32 },
    /// Must be echoed.
    Ping(u32),
    /// The peer opens no more streams.
    GoAway,
    /// Ignored: settings, windows, replies, unknown types.
    Ignored,
}

/// A data frame that is received in part.
struct PartialData {
    stream: u32,
    left: usize,
    last: bool,
}

/// Parses frames from chunks of any size.
pub(crate) struct FrameReader {
    buffer: BytesMut,
    partial: Option<PartialData>,
    headers: HeaderReader,
}

impl FrameReader {
    pub(crate) fn new() -> Self {
        Self { buffer: BytesMut::new(), partial: None, headers: HeaderReader::new() }
    }

    /// Adds bytes. Call [`Self::next`] until it returns `None`, so that frames do not accumulate.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next frame, if it is complete.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, SpdyError> {
        if let Some(partial) = self.partial.take() {
            return Ok(self.data(partial));
        }
        let Some((prologue, _)) = self.buffer.split_first_chunk::<FRAME_HEADER>() else { return Ok(None) };
        let [first, second, third, fourth, flags, length @ ..] = *prologue;
        let length = usize::from(length[0]) << 16 | usize::from(length[1]) << 8 | usize::from(length[2]);
        if first & CONTROL == 0 {
            self.buffer.advance(FRAME_HEADER);
            let stream = u32::from_be_bytes([first, second, third, fourth]);
            return Ok(self.data(PartialData { stream, left: length, last: flags & LAST != 0 }));
        }
        let version = u16::from_be_bytes([first & !CONTROL, second]);
        if version != VERSION {
            return Err(SpdyError::Version(version));
        }
        let kind = u16::from_be_bytes([third, fourth]);
        if length > MAX_CONTROL {
            return Err(SpdyError::Length { kind, length });
        }
        if self.buffer.len() < FRAME_HEADER + length {
            return Ok(None);
        }
        self.buffer.advance(FRAME_HEADER);
        let body = self.buffer.split_to(length).freeze();
        self.control(kind, flags, body).map(Some)
    }

    /// The received part of a data frame, if any.
    fn data(&mut self, partial: PartialData) -> Option<Frame> {
        let PartialData { stream, left, last } = partial;
        if left > 0 && self.buffer.is_empty() {
            self.partial = Some(partial);
            return None;
        }
        let bytes = self.buffer.split_to(left.min(self.buffer.len())).freeze();
        let left = left - bytes.len();
        if left > 0 {
            self.partial = Some(PartialData { stream, left, last });
        }
        Some(Frame::Data { stream, bytes, last: last && left == 0 })
    }

    fn control(&mut self, kind: u16, flags: u8, mut body: Bytes) -> Result<Frame, SpdyError> {
        let length = body.len();
        let number = |body: &mut Bytes| body.try_get_u32().map_err(|_| SpdyError::Length { kind, length });
        match kind {
            SYN_STREAM => {
                let stream = number(&mut body)? & !(1 << 31);
                // Associated stream, priority and slot are not used.
                let _ = (number(&mut body)?, body.try_get_u16().map_err(|_| SpdyError::Length { kind, length })?);
                Ok(Frame::Open { stream, headers: self.headers.read(&body)?, last: flags & LAST != 0 })
            }
            SYN_REPLY | HEADERS => {
                let stream = number(&mut body)? & !(1 << 31);
                // Decompressed even if unused: the compression is stateful.
                self.headers.read(&body)?;
                let ends = flags & LAST != 0;
                Ok(if ends { Frame::Data { stream, bytes: Bytes::new(), last: true } } else { Frame::Ignored })
            }
            RST_STREAM => Ok(Frame::Reset { stream: number(&mut body)? & !(1 << 31) }),
            PING => Ok(Frame::Ping(number(&mut body)?)),
            GOAWAY => Ok(Frame::GoAway),
            _ => Ok(Frame::Ignored),
        }
    }
}

/// The status code of a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Protocol = 1,
    /// The stream does not exist.
    Invalid = 2,
    /// The stream was rejected before it was processed.
    Refused = 3,
}

#[derive(Default)]
pub(crate) struct FrameWriter {
    headers: HeaderWriter,
}

impl FrameWriter {
    pub(crate) fn accept(&mut self, stream: u32) -> Bytes {
        control(SYN_REPLY, &[&stream.to_be_bytes(), &self.headers.none()])
    }

    pub(crate) fn reset(stream: u32, cause: Cause) -> Bytes {
        control(RST_STREAM, &[&stream.to_be_bytes(), &(cause as u32).to_be_bytes()])
    }

    pub(crate) fn pong(id: u32) -> Bytes {
        control(PING, &[&id.to_be_bytes()])
    }

    /// Data of a stream, split into frames of at most 16 MiB.
    pub(crate) fn data(stream: u32, bytes: &[u8], last: bool) -> Bytes {
        let bytes = bytes.get(..(1 << 24) - 1).unwrap_or(bytes);
        let mut frame = BytesMut::with_capacity(FRAME_HEADER + bytes.len());
        frame.put_u32(stream & !(1 << 31));
        frame.put_u8(u8::from(last));
        frame.put_uint(bytes.len() as u64, 3);
        frame.put_slice(bytes);
        frame.freeze()
    }
}

fn control(kind: u16, parts: &[&[u8]]) -> Bytes {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut frame = BytesMut::with_capacity(FRAME_HEADER + length);
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
            Frame::Ignored,
            Frame::Ignored,
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
        // The largest possible frame needs no more memory than its received part.
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
