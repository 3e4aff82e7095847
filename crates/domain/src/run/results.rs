//! What a run left in the store, as its status shows it.

use std::collections::BTreeMap;

use api::{kinds::task::CacheStatus, run::Values};

use crate::contract::collect::{CollectReport, FetchReport, FetchedCache};

/// Bytes of one output in a status. Longer ones are in the record only.
const MOST_VALUE: usize = 1 << 10;
/// Bytes of all outputs in a status.
const MOST_VALUES: usize = 8 << 10;

/// The outputs that fit a status, in the order of their keys. The record has all of them.
pub fn small_outputs(outputs: &BTreeMap<String, String>) -> Option<Values> {
    let mut room = MOST_VALUES;
    let mut small = Values::new();
    for (key, value) in outputs {
        let size = key.len() + value.len();
        if value.len() <= MOST_VALUE && size <= room {
            room -= size;
            small.insert(key.clone(), value.clone());
        }
    }
    (!small.is_empty()).then_some(small)
}

/// What became of the caches of a run.
pub fn caches(fetched: Option<&FetchReport>, collected: Option<&CollectReport>) -> Option<Vec<CacheStatus>> {
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let saved = |name: &str| collected.is_some_and(|report| report.saved_caches.iter().any(|saved| saved == name));
    let fetched = fetched.map(|report| report.caches.as_slice()).unwrap_or_default();
    let status = |FetchedCache { name, hit, bytes, seconds }: &FetchedCache| CacheStatus {
        name: name.clone(),
        hit: *hit,
        bytes: Some(count(*bytes)).filter(|bytes| *bytes > 0),
        seconds: Some(count(*seconds)).filter(|_| *bytes > 0),
        saved: saved(name).then_some(true),
    };
    let all: Vec<CacheStatus> = fetched.iter().map(status).collect();
    (!all.is_empty()).then_some(all)
}

#[cfg(test)]
mod tests {
    use api::kinds::task::CacheHit;

    use super::*;

    #[test]
    fn a_status_has_the_outputs_that_are_small() {
        let all =
            |pairs: &[(&str, usize)]| pairs.iter().map(|(key, size)| ((*key).to_owned(), "x".repeat(*size))).collect();
        let keys = |pairs: &[(&str, usize)]| {
            small_outputs(&all(pairs)).unwrap_or_default().into_keys().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(keys(&[]), "");
        assert_eq!(keys(&[("a", 3), ("b", MOST_VALUE + 1), ("c", MOST_VALUE)]), "a c");
        let many: Vec<String> = (0..20).map(|number| format!("k{number:02}")).collect();
        let many: Vec<(&str, usize)> = many.iter().map(|key| (key.as_str(), MOST_VALUE)).collect();
        assert_eq!(keys(&many).split(' ').count(), 7);
    }

    #[test]
    fn a_cache_was_restored_and_saved() {
        let found = |name: &str, hit, bytes| FetchedCache { name: name.into(), hit, bytes, seconds: 2 };
        let fetched = FetchReport {
            caches: vec![found("npm", Some(CacheHit::Prefix), 7), found("go", Some(CacheHit::Miss), 0)],
            notes: Vec::new(),
        };
        let collected = CollectReport { saved_caches: vec!["npm".into()], ..CollectReport::default() };
        let json = serde_json::to_value(caches(Some(&fetched), Some(&collected))).unwrap();
        let expected = serde_json::json!([
            {"name": "npm", "hit": "Prefix", "bytes": 7, "seconds": 2, "saved": true}, {"name": "go", "hit": "Miss"},
        ]);
        assert_eq!(json, expected);
        assert_eq!(caches(None, Some(&collected)), None);
    }
}
