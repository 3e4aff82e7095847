//! One file, or a part of it, from a range of the archive.
//!
//! No I/O: a server asks where the bytes are, fetches them from wherever the archive is stored, and decodes what arrives.

use std::io;
use std::ops::Range;

use zstd::stream::raw::{Decoder, InBuffer, Operation as _, OutBuffer};
use zstd::zstd_safe::DParameter;

use crate::digest::{Digest, Hasher};
use crate::manifest::{Entry, FRAME_LOG, Kind, Manifest};

/// Where a part of a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The bytes of the archive to fetch: whole frames. Empty if the part is.
    pub archive: Range<u64>,
    /// Bytes of tar in these frames before the part.
    skip: u64,
    /// Length of the part.
    bytes: u64,
    /// If the part is the whole file.
    sha256: Option<Digest>,
}

/// Why a part of a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PartError {
    #[error("\"{0}\" is not a file")]
    NotAFile(crate::Name),
    #[error("\"{path}\" has {bytes} bytes, so {wanted:?} is not a range of it")]
    Range { path: crate::Name, bytes: u64, wanted: Range<u64> },
    #[error("the manifest lists no frames for \"{0}\"")]
    NoFrames(crate::Name),
    #[error("the archive cannot be decompressed: {0}")]
    Decompress(#[from] io::Error),
    #[error("the content has the SHA-256 {found}, and {expected} in the manifest")]
    Digest { expected: Digest, found: Digest },
    #[error("the archive ends {0} bytes before the end of the content")]
    Short(u64),
}

impl Manifest {
    /// Where the bytes `content` of a file are. Of an entry of this manifest, which must be valid.
    pub fn part(&self, entry: &Entry, content: Range<u64>) -> Result<Part, PartError> {
        let Kind::File { bytes, sha256, at, .. } = entry.kind else {
            return Err(PartError::NotAFile(entry.path.clone()));
        };
        if content.start > content.end || content.end > bytes {
            return Err(PartError::Range { path: entry.path.clone(), bytes, wanted: content });
        }
        let sha256 = (content == (0..bytes)).then_some(sha256);
        if content.is_empty() {
            return Ok(Part { archive: 0..0, skip: 0, bytes: 0, sha256 });
        }
        let no_frames = || PartError::NoFrames(entry.path.clone());
        let (from, to) = at.checked_add(content.start).zip(at.checked_add(content.end)).ok_or_else(no_frames)?;
        let first = self.frames.partition_point(|frame| frame.at <= from).checked_sub(1);
        let first = first.and_then(|index| self.frames.get(index)).ok_or_else(no_frames)?;
        let end = self.frames.get(self.frames.partition_point(|frame| frame.at < to));
        let end = end.map_or(self.bytes, |frame| frame.offset);
        Ok(Part { archive: first.offset..end, skip: from - first.at, bytes: to - from, sha256 })
    }
}

impl Part {
    /// Length of the part in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Decodes the fetched bytes.
    pub fn decoder(&self) -> Result<PartDecoder, PartError> {
        let mut decoder = Decoder::new()?;
        // No frame needs a larger window, whatever it claims.
        decoder.set_parameter(DParameter::WindowLogMax(FRAME_LOG))?;
        let Self { skip, bytes, sha256, .. } = *self;
        let check = sha256.map(|sha256| (Hasher::default(), sha256));
        Ok(PartDecoder { decoder, skip, left: bytes, check, pending: false })
    }
}

/// Turns the fetched bytes into the part, in pieces of any size. Needs about 2 MiB.
pub struct PartDecoder {
    decoder: Decoder<'static>,
    skip: u64,
    left: u64,
    check: Option<(Hasher, Digest)>,
    /// Whether the decoder may hold bytes that it had no room for.
    pending: bool,
}

impl PartDecoder {
    /// Takes bytes from the front of `input` and returns how many bytes of the part it wrote to `output`, which must not
    /// be empty. 0 means that more input is needed, or that the part [is complete](Self::is_complete); `input` is empty
    /// then. The last bytes of a whole file are returned only if its digest is right.
    pub fn decode(&mut self, input: &mut &[u8], output: &mut [u8]) -> Result<usize, PartError> {
        while self.left > 0 && !output.is_empty() && (self.pending || !input.is_empty()) {
            let mut from = InBuffer::around(input);
            let mut to = OutBuffer::around(output);
            self.decoder.run(&mut from, &mut to)?;
            let (read, written) = (from.pos(), to.pos());
            *input = &input[read..];
            self.pending = written == output.len();
            let skipped = usize::try_from(self.skip).unwrap_or(usize::MAX).min(written);
            self.skip -= skipped as u64;
            let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(written - skipped);
            if length == 0 {
                continue;
            }
            output.copy_within(skipped..skipped + length, 0);
            self.left -= length as u64;
            self.hash(&output[..length])?;
            return Ok(length);
        }
        if self.left == 0 {
            // The rest of the last frame.
            *input = &[];
        }
        Ok(0)
    }

    fn hash(&mut self, content: &[u8]) -> Result<(), PartError> {
        if let Some((hasher, _)) = &mut self.check {
            hasher.update(content);
        }
        if self.left == 0
            && let Some((hasher, expected)) = self.check.take()
        {
            let (found, _) = hasher.finish();
            if found != expected {
                return Err(PartError::Digest { expected, found });
            }
        }
        Ok(())
    }

    pub fn is_complete(&self) -> bool {
        self.left == 0
    }

    /// To be called when no more bytes arrive.
    pub fn finish(self) -> Result<(), PartError> {
        if self.left == 0 { Ok(()) } else { Err(PartError::Short(self.left)) }
    }
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "sizes are small, and noise is cut to bytes")]
mod tests {
    use super::*;
    use crate::{FRAME_BYTES, Limits, Name, Patterns, pack};

    struct Case {
        archive: Vec<u8>,
        manifest: Manifest,
    }

    /// Cheap bytes that do not compress to nothing.
    fn content(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|index| (index.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
    }

    impl Case {
        fn new(files: &[(&str, usize)]) -> Self {
            let root = tempfile::tempdir().unwrap();
            for (path, bytes) in files {
                std::fs::write(root.path().join(path), content(*bytes)).unwrap();
            }
            let limits = Limits { files: 100, bytes: 1 << 30 };
            let mut archive = Vec::new();
            let packed = pack(root.path(), &Patterns::parse(&["."]).unwrap(), &[], limits, &mut archive).unwrap();
            Self { archive, manifest: packed.manifest }
        }

        fn entry(&self, path: &str) -> &Entry {
            self.manifest.find(&Name::new(path).unwrap()).unwrap()
        }

        fn read(&self, path: &str, range: Range<u64>, pieces: usize, room: usize) -> Result<Vec<u8>, PartError> {
            let part = self.manifest.part(self.entry(path), range.clone())?;
            assert_eq!(part.bytes(), range.end - range.start);
            let fetched = &self.archive[part.archive.start as usize..part.archive.end as usize];
            let mut decoder = part.decoder()?;
            let (mut read, mut buffer) = (Vec::new(), vec![0; room]);
            for mut input in fetched.chunks(pieces) {
                loop {
                    let length = decoder.decode(&mut input, &mut buffer)?;
                    if length == 0 {
                        break;
                    }
                    read.extend_from_slice(&buffer[..length]);
                }
                assert!(input.is_empty());
            }
            decoder.finish()?;
            Ok(read)
        }
    }

    const FRAME: u64 = FRAME_BYTES as u64;

    #[test]
    fn any_range_of_a_file_is_read_from_whole_frames() {
        // `b` begins 1536 bytes into the first frame and ends in the third.
        let length = 2 * FRAME + 1000;
        let case = Case::new(&[("a", 100), ("b", length as usize), ("c", 5), ("d", 0)]);
        let border = FRAME - 1536;
        let expected = content(length as usize);
        let ranges = [
            0..length,
            0..1,
            0..border,
            border - 1..border,
            border - 1..border + 1,
            border..border + 1,
            border..border + FRAME,
            border + FRAME..length,
            length - 1..length,
            7..7,
            length..length,
        ];
        for range in ranges {
            let read = case.read("b", range.clone(), 65_536, 100_000).unwrap();
            assert!(read == expected[range.start as usize..range.end as usize], "{range:?}");
        }
        let frames = |range: Range<u64>| case.manifest.part(case.entry("b"), range).unwrap().archive;
        let offset = |frame: usize| case.manifest.frames[frame].offset;
        assert_eq!(frames(0..border), 0..offset(1));
        assert_eq!(frames(0..border + 1), 0..offset(2));
        assert_eq!(frames(border..border + FRAME), offset(1)..offset(2));
        assert_eq!(frames(length - 1..length), offset(2)..case.manifest.bytes);
        assert_eq!(frames(5..5), 0..0);
        assert_eq!(case.read("a", 0..100, 1, 1).unwrap(), content(100), "byte by byte");
        assert_eq!(case.read("c", 0..5, 10, 3).unwrap(), content(5));
        assert_eq!(case.read("d", 0..0, 10, 3).unwrap(), b"");
    }

    #[test]
    fn a_long_run_of_zeros_is_decoded_into_small_buffers() {
        let root = tempfile::tempdir().unwrap();
        std::fs::File::create(root.path().join("zeros")).unwrap().set_len(3 * FRAME).unwrap();
        let mut archive = Vec::new();
        let limits = Limits { files: 1, bytes: 3 * FRAME };
        let packed = pack(root.path(), &Patterns::parse(&["."]).unwrap(), &[], limits, &mut archive).unwrap();
        let case = Case { archive, manifest: packed.manifest };
        assert!(case.archive.len() < 2000);
        let zeros = case.read("zeros", 0..3 * FRAME, 1 << 20, 4096).unwrap();
        assert!(zeros.len() as u64 == 3 * FRAME && zeros.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn damage_is_an_error_before_the_end() {
        let mut case = Case::new(&[("a", 10), ("b", 300_000)]);
        assert!(matches!(case.read("b", 0..300_001, 100, 100), Err(PartError::Range { bytes: 300_000, .. })));
        #[expect(clippy::reversed_empty_ranges)]
        let reversed = case.read("b", 2..1, 100, 100);
        assert!(matches!(reversed, Err(PartError::Range { .. })));
        let whole = case.archive.clone();
        case.archive.truncate(whole.len() / 2);
        case.manifest.bytes = case.archive.len() as u64;
        assert!(matches!(case.read("b", 0..300_000, 100, 100), Err(PartError::Short(_))));
        case.archive = vec![b'x'; whole.len()];
        assert!(matches!(case.read("b", 0..300_000, 100, 100), Err(PartError::Decompress(_))));
        case.archive = whole;
        case.manifest.bytes = case.archive.len() as u64;
        let Kind::File { sha256, .. } = &mut case.manifest.entries[1].kind else { panic!() };
        *sha256 = Digest([7; 32]);
        assert!(matches!(case.read("b", 0..300_000, 100, 100), Err(PartError::Digest { .. })));
        assert_eq!(case.read("b", 1..300_000, 100, 100).unwrap().len(), 299_999, "a part has no digest");
    }

    #[test]
    fn a_frame_that_asks_for_much_memory_is_refused() {
        let case = Case::new(&[("a", 10)]);
        let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
        encoder.set_parameter(zstd::zstd_safe::CParameter::WindowLog(27)).unwrap();
        encoder.include_contentsize(false).unwrap();
        io::Write::write_all(&mut encoder, &[0; 2000]).unwrap();
        let hostile = Case { archive: encoder.finish().unwrap(), ..case };
        let part = hostile.manifest.part(hostile.entry("a"), 0..10).unwrap();
        let decoded = part.decoder().unwrap().decode(&mut &hostile.archive[..], &mut [0; 10]);
        assert!(matches!(decoded, Err(PartError::Decompress(_))));
    }

    #[test]
    fn only_files_have_content() {
        let entry = Entry { path: Name::new("d").unwrap(), modified: crate::Modified(0, 0), kind: Kind::Directory };
        let case = Case::new(&[]);
        assert!(matches!(case.manifest.part(&entry, 0..0), Err(PartError::NotAFile(_))));
    }
}
