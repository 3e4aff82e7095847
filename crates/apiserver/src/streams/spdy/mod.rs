//! The subset of SPDY/3.1 that kubectl uses: many streams in one connection, each with headers.
//!
//! Browsers have dropped the protocol, but kubectl still forwards ports with it, and ran commands with it before 1.31.
//! Parsing and writing are pure here; [`super::transport`] does the I/O.
//!
//! Flow control is not implemented. client-go has none: it ignores windows and never opens one, so obeying them would
//! stop every stream after 64 KiB. Memory is bounded because nothing is read while a Pod is slow.

mod dictionary;
mod frame;
mod headers;

pub(super) use frame::{Cause, Frame, FrameReader, FrameWriter};
pub(super) use headers::Headers;

/// Errors of a connection. They are fatal: both sides share the state of the compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SpdyError {
    #[error("unsupported SPDY version {0}, expected 3")]
    Version(u16),
    #[error("invalid length {length} of a frame of type {kind}")]
    Length { kind: u16, length: usize },
    #[error("cannot decompress headers")]
    Compression,
    #[error("headers are longer than {0} bytes")]
    TooLong(usize),
    #[error("invalid headers")]
    Headers,
}
