//! Downloads: ranges, validators, and headers that make files of agents harmless in a browser.
//!
//! What an agent leaves may be a page with scripts. So a file is shown by the browser only as text or as one of few image
//! types, by what its first bytes are and never by its name; everything else is downloaded. The policy of the response
//! forbids scripts even if a browser ignored all of that.

use std::ops::Range;

use axum::{
    Json,
    body::{Body, Bytes},
    response::{IntoResponse as _, Response},
};
use futures::Stream;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use crate::wire::{ErrorBody, ErrorReason};

/// Scripts of a file from an agent never run, whatever the browser takes it for.
const POLICY: &str = "sandbox; default-src 'none'";
/// Bytes at the beginning of a file that decide on its type.
pub const HEAD: u64 = 4096;
/// Maximum length of a file name in a header, in bytes.
const LONGEST_NAME: usize = 150;
const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

/// Bytes that never change, under their SHA-256.
#[derive(Clone, Debug)]
pub struct Download<'a> {
    /// Number of all bytes.
    pub bytes: u64,
    /// SHA-256 in hexadecimal.
    pub digest: &'a str,
    pub media: Media,
    /// Name for the file on the caller's machine.
    pub name: &'a str,
    /// The browser saves it, even if it could show it.
    pub attachment: bool,
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The caller has it already.
    Unchanged,
    Whole,
    Part(Range<u64>),
    /// There are no such bytes.
    Unsatisfiable,
}

impl Wanted {
    /// What a request wants of `bytes` bytes with this digest. A range that cannot be read, and a list of several, is
    /// ignored.
    pub fn of(headers: &HeaderMap, bytes: u64, digest: &str) -> Self {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let tag = tag(digest);
        let is_known = |known: &str| {
            let known = known.trim();
            let known = known.strip_prefix("W/").unwrap_or(known);
            known == tag || known == "*"
        };
        if text(header::IF_NONE_MATCH).is_some_and(|known| known.split(',').any(is_known)) {
            return Self::Unchanged;
        }
        // The first part is of something else: the caller needs all of this.
        if text(header::IF_RANGE).is_some_and(|known| known.trim() != tag) {
            return Self::Whole;
        }
        let Some(range) = text(header::RANGE).and_then(parse) else { return Self::Whole };
        match range {
            Asked::From(start, last) if start < bytes => {
                Self::Part(start..last.map_or(bytes, |last| last.saturating_add(1).min(bytes)))
            }
            Asked::Last(count) if count > 0 && bytes > 0 => Self::Part(bytes.saturating_sub(count)..bytes),
            Asked::From(..) | Asked::Last(_) => Self::Unsatisfiable,
        }
    }

    /// The bytes to send of `bytes` bytes; `None` if there is nothing to send.
    pub fn range(&self, bytes: u64) -> Option<Range<u64>> {
        match self {
            Self::Whole => Some(0..bytes),
            Self::Part(range) => Some(range.clone()),
            Self::Unchanged | Self::Unsatisfiable => None,
        }
    }
}

/// `bytes=…` of a Range header.
enum Asked {
    From(u64, Option<u64>),
    Last(u64),
}

fn parse(range: &str) -> Option<Asked> {
    let (unit, set) = range.split_once('=')?;
    let (first, last) = set.trim().split_once('-')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    // A number beyond 64 bits is beyond every file.
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().unwrap_or(u64::MAX))
    };
    match (first.is_empty(), last.is_empty()) {
        (true, _) => Some(Asked::Last(number(last)?)),
        (false, true) => Some(Asked::From(number(first)?, None)),
        (false, false) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(Asked::From(first, Some(last)))
        }
    }
}

/// What a file is, as far as a browser may know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    Text,
    Image(&'static str),
    Patch,
    Archive,
    Unknown,
}

impl Media {
    /// The type of a file that begins with `head` and has `bytes` bytes.
    pub fn of(head: &[u8], bytes: u64) -> Self {
        let is_webp = head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP");
        match head {
            _ if head.starts_with(b"\x89PNG\r\n\x1a\n") => Self::Image("image/png"),
            _ if head.starts_with(b"\xff\xd8\xff") => Self::Image("image/jpeg"),
            _ if head.starts_with(b"GIF87a") || head.starts_with(b"GIF89a") => Self::Image("image/gif"),
            _ if is_webp => Self::Image("image/webp"),
            _ if is_text(head, bytes) => Self::Text,
            _ => Self::Unknown,
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; charset=utf-8",
            Self::Image(kind) => kind,
            Self::Patch => "text/x-diff; charset=utf-8",
            Self::Archive => "application/zstd",
            Self::Unknown => "application/octet-stream",
        }
    }
}

fn is_text(head: &[u8], bytes: u64) -> bool {
    let printable = |byte: &u8| !matches!(byte, 0..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f);
    let whole = match std::str::from_utf8(head) {
        Ok(_) => true,
        // The last character may be cut.
        Err(error) => error.error_len().is_none() && (head.len() as u64) < bytes,
    };
    whole && head.iter().all(printable)
}

impl Download<'_> {
    /// The response to a request for `wanted`, whose bytes are `body`.
    pub fn respond<S, E>(&self, wanted: &Wanted, body: Option<S>) -> Response
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
    {
        let body = body.map_or_else(Body::empty, Body::from_stream);
        let status = match wanted {
            Wanted::Whole => StatusCode::OK,
            Wanted::Part(_) => StatusCode::PARTIAL_CONTENT,
            Wanted::Unchanged => StatusCode::NOT_MODIFIED,
            Wanted::Unsatisfiable => return unsatisfiable(self.bytes),
        };
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        let mut set = |name: HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        set(header::ETAG, &tag(self.digest));
        // The bytes under a digest stay, the right to read them may not.
        set(header::CACHE_CONTROL, "private, no-cache");
        set(header::CONTENT_SECURITY_POLICY, POLICY);
        set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
        if let Some(range) = wanted.range(self.bytes) {
            let shown = matches!(self.media, Media::Text | Media::Image(_)) && !self.attachment;
            set(header::CONTENT_TYPE, self.media.content_type());
            set(header::CONTENT_DISPOSITION, &disposition(if shown { "inline" } else { "attachment" }, self.name));
            set(header::ACCEPT_RANGES, "bytes");
            set(header::CONTENT_LENGTH, &(range.end - range.start).to_string());
            if matches!(wanted, Wanted::Part(_)) {
                let last = range.end.saturating_sub(1);
                set(header::CONTENT_RANGE, &format!("bytes {}-{last}/{}", range.start, self.bytes));
            }
        }
        response
    }
}

fn unsatisfiable(bytes: u64) -> Response {
    let message = format!("the range is outside of the {bytes} bytes");
    let code = StatusCode::RANGE_NOT_SATISFIABLE;
    let body = ErrorBody { error: ErrorReason::BadRequest, message, code: code.as_u16(), field: None, fields: None };
    (code, [(header::CONTENT_RANGE, format!("bytes */{bytes}"))], Json(body)).into_response()
}

fn tag(digest: &str) -> String {
    format!("\"{digest}\"")
}

/// A Content-Disposition header for the last component of `path`. Older clients read a name of few ASCII characters.
fn disposition(kind: &str, path: &str) -> String {
    let name = last_bytes(path.rsplit(['/', '\\']).next().unwrap_or_default(), LONGEST_NAME);
    // A hidden file, or the directory itself.
    let name = match name.trim_start_matches('.') {
        "" => "file".to_owned(),
        visible if visible.len() < name.len() => format!("_{visible}"),
        visible => visible.to_owned(),
    };
    let plain = |char: char| if char.is_ascii_alphanumeric() || "._-+".contains(char) { char } else { '_' };
    let ascii: String = name.chars().map(plain).collect();
    if ascii == name {
        return format!("{kind}; filename=\"{ascii}\"");
    }
    let is_attr = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(&byte);
    let mut encoded = String::new();
    for byte in name.bytes() {
        if is_attr(byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.extend([byte >> 4, byte & 15].map(|half| char::from(DIGITS[usize::from(half)])));
        }
    }
    format!("{kind}; filename=\"{ascii}\"; filename*=UTF-8''{encoded}")
}

/// The end of a text, with its extension.
fn last_bytes(text: &str, most: usize) -> &str {
    let mut start = text.len().saturating_sub(most);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "ab12";

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn a_range_is_a_part_of_the_bytes_or_ignored() {
        let check = |range: &str, bytes: u64, expected: Wanted| {
            let found = Wanted::of(&headers(&[(header::RANGE, range)]), bytes, DIGEST);
            assert_eq!(found, expected, "{range} of {bytes}");
        };
        check("bytes=0-0", 10, Wanted::Part(0..1));
        check("bytes=2-", 10, Wanted::Part(2..10));
        check("Bytes=2-99", 10, Wanted::Part(2..10));
        check("bytes=0-99999999999999999999999", 10, Wanted::Part(0..10));
        check("bytes=-3", 10, Wanted::Part(7..10));
        check("bytes=-30", 10, Wanted::Part(0..10));
        for outside in ["bytes=10-", "bytes=99999999999999999999999-", "bytes=-0"] {
            check(outside, 10, Wanted::Unsatisfiable);
        }
        check("bytes=0-", 0, Wanted::Unsatisfiable);
        check("bytes=-1", 0, Wanted::Unsatisfiable);
        for ignored in
            ["bytes=5-2", "bytes=0-1,4-5", "lines=0-1", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=+1-2"]
        {
            check(ignored, 10, Wanted::Whole);
        }
    }

    #[test]
    fn validators_are_compared_with_the_digest() {
        let check = |pairs: &[(HeaderName, &str)], expected: Wanted| {
            assert_eq!(Wanted::of(&headers(pairs), 10, DIGEST), expected, "{pairs:?}");
        };
        check(&[], Wanted::Whole);
        check(&[(header::IF_NONE_MATCH, "\"ab12\"")], Wanted::Unchanged);
        check(&[(header::IF_NONE_MATCH, "\"x\", W/\"ab12\"")], Wanted::Unchanged);
        check(&[(header::IF_NONE_MATCH, "*")], Wanted::Unchanged);
        check(&[(header::IF_NONE_MATCH, "\"x\""), (header::RANGE, "bytes=1-2")], Wanted::Part(1..3));
        check(&[(header::IF_RANGE, "\"ab12\""), (header::RANGE, "bytes=1-2")], Wanted::Part(1..3));
        check(&[(header::IF_RANGE, "\"old\""), (header::RANGE, "bytes=1-2")], Wanted::Whole);
    }

    #[test]
    fn only_text_and_four_kinds_of_images_are_shown() {
        let check = |head: &[u8], expected: Media| {
            assert_eq!(Media::of(head, head.len() as u64), expected, "{}", head.escape_ascii());
        };
        check(b"", Media::Text);
        check(b"# Title\n\tcode\x1b[31m", Media::Text);
        check(b"<!doctype html><script>alert(1)</script>", Media::Text);
        check(b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", Media::Text);
        check(b"\x89PNG\r\n\x1a\n....", Media::Image("image/png"));
        check(b"\xff\xd8\xff\xe0", Media::Image("image/jpeg"));
        check(b"GIF89a", Media::Image("image/gif"));
        check(b"RIFF\0\0\0\0WEBPVP8 ", Media::Image("image/webp"));
        check(b"RIFF\0\0\0\0WAVE", Media::Unknown);
        check(b"%PDF-1.7\n\x80", Media::Unknown);
        check(b"\x7fELF", Media::Unknown);
        check(b"a\0b", Media::Unknown);
        check("ä".as_bytes(), Media::Text);
        // The beginning of a longer file may end within a character, a whole file may not.
        let cut = &"ä".as_bytes()[..1];
        assert_eq!((Media::of(cut, 2), Media::of(cut, 1)), (Media::Text, Media::Unknown));
        assert_eq!(Media::of(b"\xff", 2), Media::Unknown);
    }

    #[test]
    fn a_file_name_cannot_leave_its_header_or_the_directory_of_downloads() {
        let check = |path: &str, expected: &str| assert_eq!(disposition("attachment", path), expected, "{path:?}");
        check("dist/app.js", "attachment; filename=\"app.js\"");
        check("../../etc/passwd", "attachment; filename=\"passwd\"");
        check(
            "a\"; filename=\"x.exe",
            "attachment; filename=\"a___filename__x.exe\"; filename*=UTF-8''a%22%3B%20filename%3D%22x.exe",
        );
        check(
            "a\r\nSet-Cookie: x",
            "attachment; filename=\"a__Set-Cookie__x\"; filename*=UTF-8''a%0D%0ASet-Cookie%3A%20x",
        );
        check("é.txt", "attachment; filename=\"_.txt\"; filename*=UTF-8''%C3%A9.txt");
        check("c:\\x\\y.txt", "attachment; filename=\"y.txt\"");
        check(".bashrc", "attachment; filename=\"_bashrc\"");
        check("..", "attachment; filename=\"file\"");
        let long = format!("{}.tar", "ä".repeat(200));
        let found = disposition("attachment", &long);
        assert!(found.len() < 800 && found.ends_with("%A4.tar"), "{found}");
    }
}
