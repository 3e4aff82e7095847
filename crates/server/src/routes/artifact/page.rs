//! Pages of the files of an artefact.

use fileset::Entry;
use serde::Deserialize;

use crate::{
    error::{Answer, ApiError},
    wire::{ArtifactFile, ArtifactFiles, bytes_of},
};

/// Files of a page, unless the request names a number.
const PAGE: usize = 200;
const LARGEST_PAGE: usize = 1000;
/// Which files of an artefact.
#[derive(Clone, Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct FilesQuery {
    /// Which run, the first being 1; the newest one that has it when unset.
    #[param(minimum = 1)]
    pub(super) epoch: Option<i64>,
    /// Only names that begin with this, such as `dist/`.
    prefix: Option<String>,
    /// Only names after this one: `next` of the previous page.
    after: Option<String>,
    /// Size of the page; 200 when unset.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Which entries of a manifest.
pub(super) struct Page {
    prefix: Vec<u8>,
    after: Option<Vec<u8>>,
    limit: usize,
}

impl Page {
    pub(super) fn read(query: &FilesQuery) -> Answer<Self> {
        let bytes = |name: &'static str, text: Option<&String>| match text {
            Some(text) => bytes_of(text)
                .map(Some)
                .ok_or_else(|| ApiError::bad_parameter(name, format!("{name} has invalid digits"))),
            None => Ok(None),
        };
        let limit = query.limit.unwrap_or(PAGE);
        if !(1..=LARGEST_PAGE).contains(&limit) {
            return Err(ApiError::bad_parameter("limit", format!("limit is between 1 and {LARGEST_PAGE}")));
        }
        let prefix = bytes("prefix", query.prefix.as_ref())?.unwrap_or_default();
        Ok(Self { prefix, after: bytes("after", query.after.as_ref())?, limit })
    }

    /// The page of sorted entries.
    pub(super) fn of(&self, entries: &[Entry]) -> ArtifactFiles {
        let first = entries.partition_point(|entry| entry.path.as_bytes() < &self.prefix[..]);
        let with_prefix = &entries[first..];
        let end = with_prefix.partition_point(|entry| entry.path.as_bytes().starts_with(&self.prefix));
        let with_prefix = &with_prefix[..end];
        let rest = match &self.after {
            Some(after) => &with_prefix[with_prefix.partition_point(|entry| entry.path.as_bytes() <= &after[..])..],
            None => with_prefix,
        };
        let page = &rest[..rest.len().min(self.limit)];
        let files: Vec<_> = page.iter().map(ArtifactFile::from).collect();
        let next = files.last().filter(|_| page.len() < rest.len()).map(|file| file.path.clone());
        ArtifactFiles { files, total: with_prefix.len(), next }
    }
}

#[cfg(test)]
mod tests {
    use fileset::{Digest, Kind, Modified, Name};

    use super::*;

    fn entries(names: &[&[u8]]) -> Vec<Entry> {
        let kind = || Kind::File { bytes: 1, sha256: Digest::of(b"x"), executable: false, at: 0 };
        let entry =
            |name: &&[u8]| Entry { path: Name::new(*name).unwrap(), modified: Modified::default(), kind: kind() };
        names.iter().map(entry).collect()
    }

    #[test]
    fn pages_cover_every_entry_once_whatever_its_name() {
        let entries =
            entries(&[b"a", b"a/b\nc", b"dist/1", b"dist/2", b"dist/\xfe", b"dist/\xff", b"dist2", "é".as_bytes()]);
        for limit in 1..=9 {
            let mut names = Vec::new();
            let mut after = None;
            for _ in 0..=entries.len() {
                let query = FilesQuery { after: after.clone(), limit: Some(limit), ..FilesQuery::default() };
                let page = Page::read(&query).unwrap().of(&entries);
                assert_eq!(page.total, 8);
                names.extend(page.files.into_iter().map(|file| file.path));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            let all: Vec<_> = entries.iter().map(|entry| ArtifactFile::from(entry).path).collect();
            assert_eq!(names, all, "{limit}");
        }
        let below = Page { prefix: b"dist/".to_vec(), after: None, limit: 3 }.of(&entries);
        assert_eq!((below.total, below.files.len(), below.next.as_deref()), (4, 3, Some("/hex/646973742ffe")));
        let none = Page { prefix: b"zzz\xff".to_vec(), after: None, limit: 3 }.of(&entries);
        assert_eq!((none.total, none.next), (0, None));
    }

    #[test]
    fn limits_of_a_page_are_checked() {
        for limit in [0, 1001] {
            assert!(Page::read(&FilesQuery { limit: Some(limit), ..FilesQuery::default() }).is_err(), "{limit}");
        }
        assert!(Page::read(&FilesQuery { after: Some("/hex/x".to_owned()), ..FilesQuery::default() }).is_err());
    }
}
