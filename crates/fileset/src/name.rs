//! Names as the kernel has them: bytes, of which only some are text.

use std::fmt::{self, Write as _};

use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes of a path: what one system call accepts.
pub const MOST_NAME_BYTES: usize = 4095;
/// Components of a path. Each can cost an open directory.
pub const MOST_DEPTH: usize = 128;
/// Bytes of one component, by the kernel.
const MOST_COMPONENT_BYTES: usize = 255;

/// The path of an entry relative to the root of its file set: components separated by single `/`, none of them `.` or
/// `..`. Any other byte may occur, newlines too.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<[u8]>);

/// Why bytes are not a [`Name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("a path is empty")]
    Empty,
    #[error("a path is absolute")]
    Absolute,
    #[error("a path contains `.`, `..`, an empty component or a NUL byte")]
    Component,
    #[error("a path is longer than {MOST_NAME_BYTES} bytes or {MOST_DEPTH} components")]
    Long,
}

impl Name {
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, NameError> {
        let bytes = bytes.into();
        if bytes.is_empty() {
            return Err(NameError::Empty);
        }
        if bytes.starts_with(b"/") {
            return Err(NameError::Absolute);
        }
        let mut depth = 0;
        for component in bytes.split(|byte| *byte == b'/') {
            if matches!(component, b"" | b"." | b"..") || component.contains(&0) {
                return Err(NameError::Component);
            }
            if component.len() > MOST_COMPONENT_BYTES {
                return Err(NameError::Long);
            }
            depth += 1;
        }
        if bytes.len() > MOST_NAME_BYTES || depth > MOST_DEPTH {
            return Err(NameError::Long);
        }
        Ok(Self(bytes.into()))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether this is `above` or below it.
    pub fn is_within(&self, above: &Self) -> bool {
        self.0.strip_prefix(above.as_bytes()).is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
    }
}

/// What a symbolic link contains.
#[derive(Clone, PartialEq, Eq)]
pub struct LinkTarget(Box<[u8]>);

impl LinkTarget {
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, NameError> {
        let bytes = bytes.into();
        if bytes.is_empty() {
            return Err(NameError::Empty);
        }
        if bytes.len() > MOST_NAME_BYTES {
            return Err(NameError::Long);
        }
        if bytes.contains(&0) {
            return Err(NameError::Component);
        }
        Ok(Self(bytes.into()))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether a link at `link` leads to something in its file set, whatever other links of the set are on the way.
    ///
    /// `..` is allowed only in front: the parent of a link is a real directory, so these steps are what they seem,
    /// while `..` behind a name leads to the parent of whatever a link of that name points to.
    pub fn stays_within(&self, link: &Name) -> bool {
        if self.0.starts_with(b"/") {
            return false;
        }
        let mut above = link.as_bytes().split(|byte| *byte == b'/').skip(1).count();
        let mut named = false;
        for component in self.0.split(|byte| *byte == b'/') {
            match component {
                b"" | b"." => {}
                b".." if named || above == 0 => return false,
                b".." => above -= 1,
                _ => named = true,
            }
        }
        true
    }
}

/// For people: bytes that are not UTF-8 are replaced, control characters are escaped.
fn display(bytes: &[u8], formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    String::from_utf8_lossy(bytes).chars().try_for_each(|char| {
        if char.is_control() { write!(formatter, "{}", char.escape_default()) } else { formatter.write_char(char) }
    })
}

/// As JSON: a string if the bytes are one, otherwise `{"hex": "…"}`.
fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return serializer.serialize_str(text);
    }
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry("hex", &crate::digest::hex(bytes))?;
    map.end()
}

struct Bytes;

impl<'de> Visitor<'de> for Bytes {
    type Value = Vec<u8>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a path as a string or as {\"hex\": \"…\"}")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Vec<u8>, E> {
        Ok(text.as_bytes().to_vec())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<u8>, A::Error> {
        let Some((key, hex)) = map.next_entry::<String, String>()? else { return Err(A::Error::missing_field("hex")) };
        if key != "hex" || map.next_key::<String>()?.is_some() {
            return Err(A::Error::unknown_field(&key, &["hex"]));
        }
        crate::digest::unhex(&hex).ok_or_else(|| A::Error::custom("a path is not hexadecimal"))
    }
}

macro_rules! as_bytes {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                display(&self.0, formatter)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "\"{}\"", self.0.escape_ascii())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serialize(&self.0, serializer)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let bytes = deserializer.deserialize_any(Bytes)?;
                let shown = String::from_utf8_lossy(&bytes).into_owned();
                Self::new(bytes).map_err(|error| D::Error::custom(format!("{error}: {shown:?}")))
            }
        }
    };
}

as_bytes!(Name);
as_bytes!(LinkTarget);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_plain_relative_path() {
        let check = |bytes: &[u8], expected: Result<(), NameError>| {
            assert_eq!(Name::new(bytes).map(|_| ()), expected, "{}", bytes.escape_ascii());
        };
        for fine in [&b"a"[..], b"a/b", b"...", b"..a/b..", b".git", b"line\nbreak", b"\xff\xfe", b"a b", b"\\"] {
            check(fine, Ok(()));
        }
        check(b"", Err(NameError::Empty));
        for absolute in [&b"/"[..], b"/etc/passwd", b"//a"] {
            check(absolute, Err(NameError::Absolute));
        }
        for wrong in [&b".."[..], b"../a", b"a/..", b"a/../b", b".", b"./a", b"a/./b", b"a//b", b"a/", b"a\0b"] {
            check(wrong, Err(NameError::Component));
        }
        check(&[b'a'; 256], Err(NameError::Long));
        check(&[b'a'; 255], Ok(()));
        check("a/".repeat(128).trim_end_matches('/').as_bytes(), Ok(()));
        check("a/".repeat(129).trim_end_matches('/').as_bytes(), Err(NameError::Long));
        check([[b'a'; 255].as_slice(); 17].join(&b'/').as_slice(), Err(NameError::Long));
    }

    #[test]
    fn a_name_survives_json_and_is_readable_for_people() {
        let check = |bytes: &[u8], json: &str, shown: &str| {
            let name = Name::new(bytes).unwrap();
            assert_eq!(serde_json::to_string(&name).unwrap(), json);
            assert_eq!(serde_json::from_str::<Name>(json).unwrap(), name);
            assert_eq!(name.to_string(), shown);
        };
        check("dist/é".as_bytes(), r#""dist/é""#, "dist/é");
        check(b"a\nb", r#""a\nb""#, r"a\nb");
        check(b"\x1b[31m", r#""\u001b[31m""#, r"\u{1b}[31m");
        check(b"a/\xff", r#"{"hex":"612fff"}"#, "a/\u{fffd}");
        for wrong in [r#""../a""#, r#"{"hex":"2f61"}"#, r#"{"hex":"6"}"#, r#"{"hex":"zz"}"#, r#"{"hex":"+1"}"#, "{}"] {
            assert!(serde_json::from_str::<Name>(wrong).is_err(), "{wrong}");
        }
        assert!(serde_json::from_str::<Name>(r#"{"hex":"61","hex":"62"}"#).is_err());
        assert!(serde_json::from_str::<Name>(r#"{"text":"61"}"#).is_err());
    }

    #[test]
    fn a_link_stays_within_its_set_or_is_refused() {
        let check = |link: &str, target: &str, stays: bool| {
            let link = Name::new(link).unwrap();
            assert_eq!(LinkTarget::new(target).unwrap().stays_within(&link), stays, "{link} -> {target}");
        };
        for (link, target) in [("a", "b"), ("a", "./b/"), ("x/y/a", "../../b"), ("x/a", ".."), ("a", "."), ("a", "..b")]
        {
            check(link, target, true);
        }
        for (link, target) in [("a", "/etc"), ("a", ".."), ("x/a", "../../b"), ("x/a", "./../.././b"), ("a", "/")] {
            check(link, target, false);
        }
        // With `x/r -> ..`, this is outside although it does not look so.
        check("x/m", "r/../b", false);
    }

    #[test]
    fn a_directory_contains_itself_and_what_is_below_it() {
        let within = |path: &str, above: &str| Name::new(path).unwrap().is_within(&Name::new(above).unwrap());
        assert!(within("a", "a") && within("a/b", "a"));
        assert!(!within("ab", "a") && !within("a", "a/b") && !within("a-b/c", "a"));
    }
}
