//! As much of SPDY/3.1 as it takes to talk to kubectl: many streams in one connection, each with headers.
//!
//! The protocol died in browsers, but kubectl still forwards ports with it, and ran commands with it before 1.31. Reading
//! and writing are pure here; [`super::wire`] moves the bytes.
//!
//! Flow control is not served. The other side, client-go, has none: it ignores windows and never opens one, so obeying
//! them would stop every stream after 64 KiB. What bounds memory instead is that nothing is read while a Pod is slow.

mod dictionary;
mod frame;
mod headers;

pub(super) use frame::{Cause, Frame, FrameReader, FrameWriter};
pub(super) use headers::Headers;

/// Why a connection cannot go on. There is no way back: both sides share the state of the compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SpdyError {
    #[error("a frame of SPDY version {0}, only 3 is spoken here")]
    Version(u16),
    #[error("a frame of type {kind} has {length} bytes, which is too many or too few")]
    Length { kind: u16, length: usize },
    #[error("headers cannot be decompressed")]
    Compression,
    #[error("headers are longer than {0} bytes")]
    TooLong(usize),
    #[error("headers cannot be read")]
    Headers,
}
