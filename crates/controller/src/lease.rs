//! The leader lease: of many controllers that run, one works.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, api::PostParams};
use tokio::sync::watch;

use crate::fence::Fence;

/// Name of the lease.
const NAME: &str = "kubeopencode.io";
/// Others wait this long after the last sign of life.
const DURATION: Duration = Duration::from_secs(15);
/// A sign of life is given this often.
const RENEW: Duration = Duration::from_secs(4);
/// We stop writing this long before others may start, to be safe from slow requests and skewed clocks.
const MARGIN: Duration = Duration::from_secs(5);
/// A request for the lease that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(4);

/// Seeks the lease in `namespace` and keeps it.
///
/// `fence` is open while it is held. `led` becomes true when it is held for the first time, and the future ends when it
/// is lost: the process should end then, as everything in memory may be stale.
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
    let mut held_until: Option<Instant> = None;
    loop {
        let asked = Instant::now();
        let answer = tokio::time::timeout(PATIENCE, take(&leases, identity)).await;
        match answer {
            Ok(Ok(true)) => {
                let until = asked + DURATION.saturating_sub(MARGIN);
                held_until = Some(until);
                fence.open_until(until);
                led.send_replace(true);
            }
            Ok(Ok(false)) if held_until.is_some() => {
                tracing::error!("another process took the lease");
                break;
            }
            Ok(Ok(false)) => tracing::debug!("another process leads"),
            Ok(Err(error)) => tracing::warn!(%error, "the lease could not be asked for"),
            Err(_) => tracing::warn!("the API server does not answer about the lease"),
        }
        if held_until.is_some_and(|until| Instant::now() >= until) {
            tracing::error!("the lease could not be renewed in time");
            break;
        }
        tokio::select! {
            () = tokio::time::sleep(RENEW) => {}
            () = &mut stop => {
                if held_until.is_some() {
                    release(&leases, identity).await;
                    fence.close();
                }
                return;
            }
        }
    }
    fence.close();
}

/// Takes or renews the lease. `false` if somebody else holds it.
async fn take(leases: &Api<Lease>, identity: &str) -> kube::Result<bool> {
    let now = Timestamp::now();
    let Some(current) = leases.get_opt(NAME).await? else {
        let fresh = Lease {
            metadata: ObjectMeta { name: Some(NAME.into()), ..ObjectMeta::default() },
            spec: Some(spec(identity, now, None)),
        };
        return won(leases.create(&PostParams::default(), &fresh).await);
    };
    let spec_now = current.spec.clone().unwrap_or_default();
    let mine = spec_now.holder_identity.as_deref() == Some(identity);
    let free = spec_now.holder_identity.as_deref().unwrap_or_default().is_empty() || expired(&spec_now, now);
    if !mine && !free {
        return Ok(false);
    }
    // The resource version in the metadata makes this a compare-and-swap.
    let next = Lease { spec: Some(spec(identity, now, Some(&spec_now))), ..current };
    won(leases.replace(NAME, &PostParams::default(), &next).await)
}

fn won(result: kube::Result<Lease>) -> kube::Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
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

fn expired(spec: &LeaseSpec, now: Timestamp) -> bool {
    let Some(renewed) = &spec.renew_time else { return true };
    let duration = i64::from(spec.lease_duration_seconds.unwrap_or(0));
    now.as_second() - renewed.0.as_second() > duration
}

/// Gives the lease back, so that another process need not wait for it to expire.
async fn release(leases: &Api<Lease>, identity: &str) {
    if !matches!(tokio::time::timeout(PATIENCE, give_back(leases, identity)).await, Ok(Ok(()))) {
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
