//! Caches: what runs of the same template or Agent leave to each other.

use std::{ops::Range, sync::Arc};

use axum::{
    body::Body,
    extract::{RawQuery, State},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{HeaderMap, StatusCode, header};
use store::{CacheHit, CacheScope, NewCache, Published};

use crate::{
    caller::{Caller, CallerOf},
    content::content,
    inputs::Head,
    publication::{Checked, InMemory, missing, receive},
    refused::{Answer, Refused},
    routes::Segments,
    state::Shared,
};

/// The schema of Tasks allows this many.
const MOST_PREFIXES: usize = 16;

/// `POST /v1/caches/{name}?key=KEY`
pub(crate) async fn save(
    State(shared): State<Arc<Shared>>,
    CallerOf(caller): CallerOf,
    Segments([name]): Segments<1>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Answer<StatusCode> {
    caller.may_save(&name)?;
    let Keys { key, .. } = keys(query.as_deref())?;
    let InMemory { checked, room } = receive(&shared, &caller, &headers, body).await?;
    let Checked { digest, bytes, files, manifest } = checked;
    let entry = NewCache { key, digest, bytes, files, manifest };
    let saved = shared.store.put_cache(&scope(&caller), &name, entry).await;
    drop(room);
    match saved.map_err(|error| Refused::publication(&error))? {
        Published::New => {
            tracing::info!(run = caller.run.record(), scope = caller.scope, name, bytes, files, "cache saved");
            Ok(StatusCode::CREATED)
        }
        Published::Same | Published::Other => Ok(StatusCode::OK),
        Published::Closed => Err(Refused::conflict("the run is over")),
        Published::Missing => Err(missing()),
    }
}

/// `GET /v1/caches/{name}?key=KEY&prefix=PREFIX&prefix=…`
pub(crate) async fn find(
    State(shared): State<Arc<Shared>>,
    CallerOf(caller): CallerOf,
    Segments([name]): Segments<1>,
    RawQuery(query): RawQuery,
) -> Answer<Response> {
    caller.may_restore(&name)?;
    let Keys { key, prefixes } = keys(query.as_deref())?;
    let hit = hit(&shared, &caller, &name, &key, &prefixes).await?;
    let CacheHit { key, exact: _, digest, bytes, files: _, manifest } = hit;
    let manifest = shared.store.read_cache(&scope(&caller), &name, &key, &manifest).await;
    let manifest = manifest.map_err(|error| Refused::store(&error))?;
    let head = Head { key: Some(&key), digest: digest.as_str(), bytes }.open()?;
    let parts = stream::iter([Ok(head)]).chain(manifest).chain(stream::iter([Ok(Bytes::from_static(b"}"))]));
    Ok(([(header::CONTENT_TYPE, "application/json")], Body::from_stream(parts)).into_response())
}

/// `GET /v1/caches/{name}/content?key=KEY`
pub(crate) async fn content_of(
    State(shared): State<Arc<Shared>>,
    CallerOf(caller): CallerOf,
    Segments([name]): Segments<1>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Answer<Response> {
    caller.may_restore(&name)?;
    let Keys { key, .. } = keys(query.as_deref())?;
    let hit = hit(&shared, &caller, &name, &key, &[]).await?;
    content(&hit.digest, hit.bytes, &headers, async |range| match range {
        // The whole: what turns out to be damaged is saved anew by the next run.
        Range { start: 0, end } if end == hit.bytes => {
            shared.store.read_cache(&scope(&caller), &name, &hit.key, &hit.digest).await
        }
        part => shared.store.read_blob(&hit.digest, part).await,
    })
    .await
}

async fn hit(shared: &Shared, caller: &Caller, name: &str, key: &str, prefixes: &[String]) -> Answer<CacheHit> {
    let found = shared.store.find_cache(&scope(caller), name, key, prefixes).await;
    let found = found.map_err(|error| Refused::store(&error))?;
    found.ok_or_else(|| Refused::not_found(format!("the cache '{name}' has no entry of this key")))
}

fn scope(caller: &Caller) -> CacheScope {
    CacheScope { namespace: caller.namespace().to_owned(), scope: caller.scope.clone() }
}

#[derive(Debug, PartialEq, Eq)]
struct Keys {
    key: String,
    prefixes: Vec<String>,
}

fn keys(query: Option<&str>) -> Answer<Keys> {
    let (mut keys, mut prefixes) = (Vec::new(), Vec::new());
    for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        match &*name {
            "key" => keys.push(value.into_owned()),
            "prefix" => prefixes.push(value.into_owned()),
            _ => {}
        }
    }
    let only = <[String; 1]>::try_from(keys).map_err(|_| Refused::malformed("name one key: ?key=KEY"))?;
    let [key] = only;
    if [&key].into_iter().chain(&prefixes).any(String::is_empty) || prefixes.len() > MOST_PREFIXES {
        return Err(Refused::malformed(format!("a key and up to {MOST_PREFIXES} prefixes, none of them empty")));
    }
    Ok(Keys { key, prefixes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_one_key_and_some_prefixes() {
        let check = |query: &str, expected: Option<(&str, &[&str])>| {
            let expected = expected.map(|(key, prefixes)| Keys {
                key: key.to_owned(),
                prefixes: prefixes.iter().map(|&prefix| prefix.to_owned()).collect(),
            });
            assert_eq!(keys(Some(query)).ok(), expected, "{query}");
        };
        check("key=go-1", Some(("go-1", &[])));
        check("key=a%26b+c&prefix=a%25&prefix=b&other=1", Some(("a&b c", &["a%", "b"])));
        check("", None);
        check("key=", None);
        check("key=a&key=b", None);
        check("key=a&prefix=", None);
        check(&format!("key=a{}", "&prefix=p".repeat(17)), None);
        assert!(keys(None).is_err());
    }
}
