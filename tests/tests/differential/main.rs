//! Generated sequences of requests, to the embedded API server and to a real kube-apiserver: the same codes, reasons,
//! sentences, objects and events.
//!
//! A real server is too slow to be asked about all of them in every run. Its answers are recorded as a number a
//! sequence in `answers.bin`; the embedded server is compared with that, and every so manieth sequence is played on both,
//! so that the record cannot become untrue without being noticed.
//!
//! - `RECORD_ANSWERS=10000 cargo test -p blackbox --test differential recorded` asks a real server about so many sequences
//!   again, as is needed when the sequences change or a definition does.
//! - `SEQUENCES=100..200 cargo test -p blackbox --test differential both` plays these on both and shows the differences.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where the two servers differ")]

mod dice;
mod difference;
mod generate;
mod kinds;
mod pieces;
mod plain;
mod play;
mod reads;
mod record;
mod steps;
mod writes;

use std::ops::Range;

use anyhow::Context as _;
use blackbox::{install, server::Remote};
use difference::difference;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use generate::sequence;
use kube::Client;
use play::{Exchange, play};
use testenv::{Cluster, Options};

/// Fewer are recorded only by mistake.
const LEAST: usize = 10_000;
/// Of so many, one is played on both servers. Prime, so that every kind has its turn.
const STRIDE: usize = 53;
/// Sequences under way at once, on a server in this process and on one of its own.
const AT_ONCE: usize = 8;
const AT_ONCE_REAL: usize = 16;
/// So many differences are shown.
const SHOWN: usize = 12;

/// The embedded server, without sockets.
async fn embedded() -> anyhow::Result<Client> {
    let client = apiserver::ApiServer::open(apiserver::Options::default()).await?.client();
    install::install(&Remote::new(client.clone())).await?;
    Ok(client)
}

/// A real server without controllers: objects are stored as they were sent. It does not protect claims that
/// are in use, because only a controller could end that ("Claims that are in use" in docs/local-differences.md).
async fn real() -> anyhow::Result<(Cluster, Client)> {
    let cluster = testenv::start(options()).await?;
    let client = cluster.client().await?;
    install::install(&Remote::new(client.clone())).await?;
    Ok((cluster, client))
}

fn options() -> Options {
    let unprotected = "--disable-admission-plugins=StorageObjectInUseProtection".to_owned();
    Options { apiserver_flags: vec![unprotected], ..Options::api_only() }
}

async fn play_all(
    client: &Client,
    numbers: impl IntoIterator<Item = u64>,
    at_once: usize,
) -> anyhow::Result<Vec<(u64, Vec<Exchange>)>> {
    let plays = numbers.into_iter().map(|number| {
        let client = client.clone();
        async move { tokio::spawn(async move { Ok((number, play(&client, &sequence(number)).await?)) }).await? }
    });
    stream::iter(plays).buffered(at_once).try_collect().await
}

/// The numbers of all answers. Those of the slowest and largest plays are not held longer than needed.
async fn numbers_of(client: &Client, count: u64, at_once: usize) -> anyhow::Result<Vec<u64>> {
    let plays = (0..count).map(|number| {
        let client = client.clone();
        async move {
            tokio::spawn(async move { anyhow::Ok(record::number(&play(&client, &sequence(number)).await?)) }).await?
        }
    });
    stream::iter(plays).buffered(at_once).try_collect().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_sequences_get_the_answers_of_a_real_api_server() -> anyhow::Result<()> {
    if let Ok(count) = std::env::var("RECORD_ANSWERS") {
        let (_cluster, client) = real().await?;
        record::write(&numbers_of(&client, count.parse()?, AT_ONCE_REAL).await?)?;
    }
    let recorded = record::read()?;
    anyhow::ensure!(recorded.len() >= LEAST, "only {} sequences are recorded", recorded.len());
    let ours = numbers_of(&embedded().await?, recorded.len() as u64, AT_ONCE).await?;
    let different: Vec<u64> =
        (0..).zip(ours.iter().zip(&recorded)).filter(|(_, (a, b))| a != b).map(|(n, _)| n).collect();
    if different.is_empty() {
        return Ok(());
    }
    // On servers that know nothing of the plays before.
    let shown = explain(different.iter().copied().take(SHOWN)).await?;
    anyhow::bail!("{} sequences differ:\n{}", different.len(), shown.join("\n"));
}

/// Plays sequences on both servers and reports the differences.
async fn explain(numbers: impl IntoIterator<Item = u64> + Clone) -> anyhow::Result<Vec<String>> {
    let ours = play_all(&embedded().await?, numbers.clone(), AT_ONCE).await?;
    let (_cluster, client) = real().await?;
    let real = play_all(&client, numbers, AT_ONCE_REAL).await?;
    let pairs = ours.iter().zip(&real);
    Ok(pairs
        .map(|((number, ours), (_, real))| {
            difference(*number, ours, real)
                .unwrap_or_else(|| format!("sequence {number}: both answer the same now; record the answers again"))
        })
        .collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slice_of_them_gets_the_same_answers_from_both() -> anyhow::Result<()> {
    let chosen: Option<Range<u64>> = std::env::var("SEQUENCES").ok().map(|text| range(&text)).transpose()?;
    let numbers: Vec<u64> = match chosen.clone() {
        Some(range) => range.collect(),
        None => (0..record::read()?.len() as u64).step_by(STRIDE).collect(),
    };
    let (ours, (_cluster, real)) = (embedded().await?, real().await?);
    let (ours, real) =
        tokio::try_join!(play_all(&ours, numbers.clone(), AT_ONCE), play_all(&real, numbers.clone(), AT_ONCE_REAL))?;
    let differences: Vec<String> =
        ours.iter().zip(&real).filter_map(|((number, ours), (_, real))| difference(*number, ours, real)).collect();
    let shown = differences.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join("\n");
    anyhow::ensure!(differences.is_empty(), "{} of {} differ:\n{shown}", differences.len(), numbers.len());
    if chosen.is_none() {
        check_variety(&real)?;
        let recorded = record::read()?;
        for (number, real) in real {
            let expected = recorded.get(usize::try_from(number)?).context("a sequence is not recorded")?;
            anyhow::ensure!(record::number(&real) == *expected, "the record of sequence {number} is not true any more");
        }
    }
    Ok(())
}

/// Sequences that only make requests that are refused would prove nothing.
fn check_variety(plays: &[(u64, Vec<Exchange>)]) -> anyhow::Result<()> {
    let exchanges: Vec<&Exchange> = plays.iter().flat_map(|(_, play)| play).collect();
    let granted: Vec<&str> = exchanges
        .iter()
        .filter(|exchange| (200..300).contains(&exchange.answer.code))
        .map(|exchange| exchange.request.as_str())
        .collect();
    anyhow::ensure!(granted.len() * 2 > exchanges.len(), "{} of {} are granted", granted.len(), exchanges.len());
    for (method, text) in [
        ("POST", ""),
        ("PUT", ""),
        ("PATCH", "/json-patch"),
        ("PATCH", "/merge-patch"),
        ("PATCH", "/strategic-merge-patch"),
        ("PATCH", "/apply-patch"),
        ("PATCH", "force=true"),
        ("DELETE", ""),
        ("GET", "continue="),
        ("WATCH", "resourceVersion="),
        ("", "/status"),
        ("", "dryRun=All"),
        ("", "generateName"),
    ] {
        let count = granted.iter().filter(|request| request.starts_with(method) && request.contains(text)).count();
        anyhow::ensure!(count >= 5, "{method} {text}: {count} granted");
    }
    Ok(())
}

/// `17` or `100..200`.
fn range(text: &str) -> anyhow::Result<Range<u64>> {
    let (from, to) = text.split_once("..").unwrap_or((text, ""));
    let from: u64 = from.parse()?;
    Ok(from..if to.is_empty() { from + 1 } else { to.parse()? })
}
