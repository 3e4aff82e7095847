//! SHA-256 of what passes through.

use std::fmt;
use std::io::{self, Read, Write};
use std::str::FromStr;

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A SHA-256; lowercase hexadecimal as text and in JSON.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

/// A text that is not a [`Digest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a SHA-256 is 64 lowercase hexadecimal digits")]
pub struct InvalidDigest;

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::default();
        hasher.update(bytes);
        hasher.finish().0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        unhex(text).and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or(InvalidDigest)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

/// Of lowercase digits only: one value has one text.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let half = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(half(*high)? << 4 | half(*low)?)).collect()
}

/// SHA-256 and length of bytes that arrive in pieces.
#[derive(Clone)]
pub struct Hasher {
    context: Context,
    bytes: u64,
}

impl Default for Hasher {
    fn default() -> Self {
        Self { context: Context::new(&SHA256), bytes: 0 }
    }
}

impl Hasher {
    pub fn update(&mut self, bytes: &[u8]) {
        self.context.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// The digest and the number of bytes.
    pub fn finish(self) -> (Digest, u64) {
        let mut digest = [0; 32];
        digest.copy_from_slice(self.context.finish().as_ref());
        (Digest(digest), self.bytes)
    }
}

/// Computes the digest of what is read through it.
pub struct HashingReader<R> {
    inner: R,
    hasher: Hasher,
}

impl<R: Read> HashingReader<R> {
    pub fn new(inner: R) -> Self {
        Self { inner, hasher: Hasher::default() }
    }

    /// The digest and the number of bytes that were read.
    pub fn finish(self) -> (Digest, u64) {
        self.hasher.finish()
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        Ok(read)
    }
}

/// Computes the digest of what is written through it.
pub struct HashingWriter<W> {
    inner: W,
    hasher: Hasher,
}

impl<W: Write> HashingWriter<W> {
    pub fn new(inner: W) -> Self {
        Self { inner, hasher: Hasher::default() }
    }

    /// The digest and the number of bytes that were written.
    pub fn finish(self) -> (Digest, u64) {
        self.hasher.finish()
    }
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Why copied bytes are not the expected ones.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error("the bytes end after {found} of {expected}")]
    Short { expected: u64, found: u64 },
    #[error("there are more than the expected {expected} bytes")]
    Long { expected: u64 },
    #[error("the SHA-256 of the bytes is {found} and must be {expected}")]
    Digest { expected: Digest, found: Digest },
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Copies until the end of `from`, which must be `bytes` bytes with this digest. Never writes more.
pub fn copy_verified(
    from: &mut impl Read,
    to: &mut impl Write,
    expected: &Digest,
    bytes: u64,
) -> Result<(), VerifyError> {
    let mut writer = HashingWriter::new(to);
    io::copy(&mut from.by_ref().take(bytes), &mut writer)?;
    writer.flush()?;
    let (digest, found) = writer.finish();
    if found < bytes {
        return Err(VerifyError::Short { expected: bytes, found });
    }
    if io::copy(&mut from.take(1), &mut io::sink())? > 0 {
        return Err(VerifyError::Long { expected: bytes });
    }
    if digest != *expected {
        return Err(VerifyError::Digest { expected: *expected, found: digest });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_digest_is_lowercase_hexadecimal() {
        assert_eq!(Digest::of(b"abc").to_string(), ABC);
        assert_eq!(ABC.parse(), Ok(Digest::of(b"abc")));
        let json = serde_json::to_string(&Digest::of(b"abc")).unwrap();
        assert_eq!(json, format!("\"{ABC}\""));
        assert_eq!(serde_json::from_str::<Digest>(&json).unwrap(), Digest::of(b"abc"));
        for wrong in [&ABC[1..], &ABC.to_uppercase(), "", &"g".repeat(64), &format!("{ABC}00")] {
            assert_eq!(wrong.parse::<Digest>(), Err(InvalidDigest), "{wrong}");
        }
    }

    #[test]
    fn readers_and_writers_hash_what_passes() {
        let mut reader = HashingReader::new(&b"abc"[..]);
        let mut writer = HashingWriter::new(Vec::new());
        io::copy(&mut reader, &mut writer).unwrap();
        assert_eq!(reader.finish(), (Digest::of(b"abc"), 3));
        assert_eq!(writer.finish(), (Digest::of(b"abc"), 3));
    }

    #[test]
    fn only_the_expected_bytes_are_copied_without_an_error() {
        let copy = |from: &[u8], bytes: u64| {
            let mut to = Vec::new();
            let result = copy_verified(&mut &*from, &mut to, &Digest::of(b"abc"), bytes);
            (result, to)
        };
        let (result, to) = copy(b"abc", 3);
        assert!(result.is_ok());
        assert_eq!(to, b"abc");
        assert!(matches!(copy(b"ab", 3).0, Err(VerifyError::Short { expected: 3, found: 2 })));
        assert!(matches!(copy(b"abd", 3).0, Err(VerifyError::Digest { .. })));
        let (result, to) = copy(b"abcd", 3);
        assert!(matches!(result, Err(VerifyError::Long { expected: 3 })));
        assert_eq!(to, b"abc", "what is too much is not written");
    }
}
