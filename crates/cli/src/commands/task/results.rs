//! What a run left and used, by the status of its Task.

use api::{
    TaskStatus,
    kinds::task::{ArtifactStatus, CacheHit, CacheStatus},
};
use jiff::Timestamp;

use super::stage::published;
use crate::commands::{
    screen::{Tone, line},
    size::size,
    span,
    table::{Cell, Table},
};

/// Its artefacts.
pub fn artifacts(status: &TaskStatus, now: Timestamp) -> Table {
    let mut table = Table::new(["ARTIFACT", "SIZE", "FILES", "EXPIRES"]);
    for ArtifactStatus { name, bytes, files, expires_at, .. } in status.artifacts.iter().flatten() {
        let expires = expires_at.as_ref().map(|at| match at.0.as_second() - now.as_second() {
            left @ 0.. => format!("in {}", span::age(left)),
            past => format!("{} ago", span::age(-past)),
        });
        table.push(vec![
            name.as_str().into(),
            bytes.map(bytes_text).unwrap_or_default().into(),
            files.map(|files| files.to_string()).unwrap_or_default().into(),
            expires.unwrap_or_else(|| "never".to_owned()).into(),
        ]);
    }
    table
}

/// The caches that it used.
pub fn caches(status: &TaskStatus) -> Table {
    let mut table = Table::new(["CACHE", "FOUND", "RESTORED", "TOOK", "SAVED"]);
    for CacheStatus { name, hit, bytes, seconds, saved } in status.caches.iter().flatten() {
        let found = match hit {
            Some(CacheHit::Exact) => Cell::new("hit", Tone::Good),
            Some(CacheHit::Prefix) => Cell::new("hit, of another key", Tone::Good),
            Some(CacheHit::Miss) => Cell::new("miss", Tone::Busy),
            None => "not restored".into(),
        };
        let restored = hit.is_some_and(|hit| hit != CacheHit::Miss);
        table.push(vec![
            name.as_str().into(),
            found,
            bytes.filter(|_| restored).map(bytes_text).unwrap_or_default().into(),
            seconds.filter(|_| restored).map(|seconds| format!("{seconds}s")).unwrap_or_default().into(),
            saved.map(|saved| if saved { "yes" } else { "no" }).unwrap_or_default().into(),
        ]);
    }
    table
}

/// Its outputs in the status.
pub fn outputs(status: &TaskStatus) -> Table {
    let mut table = Table::new(["OUTPUT", "VALUE"]);
    let outputs = status.result.as_ref().and_then(|result| result.outputs.as_ref());
    for (key, value) in outputs.into_iter().flat_map(|outputs| outputs.iter()) {
        table.push(vec![key.into(), value.into()]);
    }
    table
}

/// Where its changes were published.
pub fn publication(status: &TaskStatus) -> Option<String> {
    status.published.as_ref().and_then(published).map(|text| line(&text))
}

fn bytes_text(bytes: i64) -> String {
    size(u64::try_from(bytes).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::commands::screen::Screen;

    #[test]
    fn what_a_run_left_and_used_is_shown_in_tables() {
        let status: TaskStatus = serde_json::from_value(json!({
            "artifacts": [{ "name": "dist", "bytes": 2048, "files": 3, "expiresAt": "2026-01-02T00:00:00Z" },
                { "name": "old", "bytes": 1, "files": 1, "expiresAt": "2025-12-31T23:00:00Z" }, { "name": "plain" }],
            "caches": [{ "name": "npm", "hit": "Exact", "bytes": 104_857_600, "seconds": 3, "saved": false },
                { "name": "go", "hit": "Miss", "bytes": 0, "seconds": 0, "saved": true }, { "name": "push" }],
            "result": { "outputs": { "URL": "https://x\u{1b}[2J" } },
            "published": { "branch": "agents/fix", "commit": "0123456789abcdef0123", "url": "https://git.example/pulls/1" },
        }))
        .unwrap();
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let shown = |table: Table| table.show(&Screen::default());
        insta::assert_snapshot!(shown(artifacts(&status, now)), @r"
        ARTIFACT   SIZE      FILES   EXPIRES
        dist       2.0 KiB   3       in 24h
        old        1 B       1       60m ago
        plain      -         -       never
        ");
        insta::assert_snapshot!(shown(caches(&status)), @r"
        CACHE   FOUND          RESTORED   TOOK   SAVED
        npm     hit            100 MiB    3s     no
        go      miss           -          -      yes
        push    not restored   -          -      -
        ");
        insta::assert_snapshot!(shown(outputs(&status)), @r"
        OUTPUT   VALUE
        URL      https://x�[2J
        ");
        insta::assert_snapshot!(publication(&status).unwrap(), @"published branch agents/fix at 0123456789ab: https://git.example/pulls/1");
        let nothing = TaskStatus::default();
        assert!(artifacts(&nothing, now).is_empty() && caches(&nothing).is_empty() && publication(&nothing).is_none());
    }
}
