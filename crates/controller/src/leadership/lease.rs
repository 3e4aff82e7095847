//! The leader lease: of several controllers, one is active.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use domain::lease::{Contender, DURATION, Move};
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, api::PostParams};
use tokio::sync::watch;

use crate::leadership::fence::{Fence, Moment};

const NAME: &str = "kubeopencode.io";
/// Interval of renewals.
const RENEW: Duration = Duration::from_secs(4);
/// This process stops writing this long before another may start, to allow for slow requests.
const MARGIN: Duration = Duration::from_secs(5);
/// Timeout of a request for the lease.
const TIMEOUT: Duration = Duration::from_secs(4);

/// Acquires the lease in `namespace` and renews it.
///
/// `fence` is open while the lease is held. `led` becomes true when the lease is first held. The future ends when the
/// lease is lost: the process should end then, because everything in memory may be stale.
pub async fn lead(
    client: Client,
    namespace: &str,
    identity: &str,
    fence: &Fence,
    led: &watch::Sender<bool>,
    stop: impl Future<Output = ()>,
) {
    let leases: Api<Lease> = Api::namespaced(client, namespace);
    tokio::pin!(stop);
    let mut contender = Contender::new(identity);
    let mut held_until: Option<Moment> = None;
    loop {
        let asked = Moment::now();
        let answer = tokio::time::timeout(TIMEOUT, seek(&leases, &mut contender)).await;
        let mut next = Instant::now() + RENEW;
        match answer {
            Ok(Ok(Answer::Ours)) => {
                let until = asked + DURATION.saturating_sub(MARGIN);
                held_until = Some(until);
                fence.open_until(until);
                led.send_replace(true);
            }
            Ok(Ok(Answer::Lost)) => {
                tracing::error!("another process took the lease");
                break;
            }
            Ok(Ok(Answer::Theirs(until))) => {
                tracing::debug!("another process leads");
                next = next.min(until);
            }
            Ok(Ok(Answer::Changed)) => {
                tracing::debug!("the lease changed meanwhile");
                if contender.has_held() {
                    // Perhaps only its labels changed.
                    next = Instant::now();
                }
            }
            Ok(Err(error)) => tracing::warn!(%error, "the lease could not be asked for"),
            Err(_) => tracing::warn!("the API server does not answer about the lease"),
        }
        if held_until.is_some_and(|until| Moment::now() >= until) {
            tracing::error!("the lease could not be renewed in time");
            break;
        }
        tokio::select! {
            () = tokio::time::sleep_until(next.into()) => {}
            () = &mut stop => {
                // In this order: the next holder starts after the last write of this one.
                fence.close();
                if contender.has_held() {
                    release(&leases, identity).await;
                }
                return;
            }
        }
    }
    fence.close();
}

/// Result of a request for the lease.
enum Answer {
    /// This process holds the lease.
    Ours,
    /// Another process holds it, at least until this moment.
    Theirs(Instant),
    /// Another process wrote the lease at the same time.
    Changed,
    /// This process held the lease and lost it.
    Lost,
}

/// Acquires or renews the lease, if possible.
async fn seek(leases: &Api<Lease>, contender: &mut Contender) -> kube::Result<Answer> {
    let current = leases.get_opt(NAME).await?;
    let record = current.as_ref().and_then(|lease| lease.spec.as_ref());
    match contender.decide(record, Instant::now()) {
        Move::Take | Move::Renew => {}
        Move::Wait(until) => return Ok(Answer::Theirs(until)),
        Move::Lost => return Ok(Answer::Lost),
    }
    let spec = Some(spec(contender.identity(), Timestamp::now(), record));
    let written = if let Some(current) = current {
        // The resource version in the metadata makes this a compare-and-swap.
        leases.replace(NAME, &PostParams::default(), &Lease { spec, ..current }).await
    } else {
        let metadata = ObjectMeta { name: Some(NAME.into()), ..ObjectMeta::default() };
        leases.create(&PostParams::default(), &Lease { metadata, spec }).await
    };
    match written {
        Ok(_) => {
            contender.won();
            Ok(Answer::Ours)
        }
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(Answer::Changed),
        Err(error) => Err(error),
    }
}

fn spec(identity: &str, now: Timestamp, before: Option<&LeaseSpec>) -> LeaseSpec {
    let same = before.filter(|spec| spec.holder_identity.as_deref() == Some(identity));
    let transitions = before.and_then(|spec| spec.lease_transitions).unwrap_or(0);
    LeaseSpec {
        holder_identity: Some(identity.into()),
        lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
        acquire_time: same.and_then(|spec| spec.acquire_time.clone()).or(Some(MicroTime(now))),
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(if same.is_some() || before.is_none() { transitions } else { transitions + 1 }),
        ..LeaseSpec::default()
    }
}

/// Releases the lease, so that another process does not wait for it to expire.
async fn release(leases: &Api<Lease>, identity: &str) {
    if !matches!(tokio::time::timeout(TIMEOUT, give_back(leases, identity)).await, Ok(Ok(()))) {
        tracing::info!("the lease was not given back; another process takes it when it expires");
    }
}

async fn give_back(leases: &Api<Lease>, identity: &str) -> kube::Result<()> {
    let Some(mut lease) = leases.get_opt(NAME).await? else { return Ok(()) };
    if let Some(spec) = &mut lease.spec
        && spec.holder_identity.as_deref() == Some(identity)
    {
        spec.holder_identity = None;
        spec.renew_time = None;
        leases.replace(NAME, &PostParams::default(), &lease).await?;
    }
    Ok(())
}
