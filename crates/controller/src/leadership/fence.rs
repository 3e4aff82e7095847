//! The fence: no write leaves this process unless it leads. Every write is counted and timed.
//!
//! The fence is below the client, so no reconciler can forget it. It stops a process that was paused for longer than
//! its lease and still assumes that it leads.

use std::{
    error::Error,
    future::Future,
    ops::Add,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, RwLock},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use kube::client::Body;
use rustix::time::{ClockId, clock_gettime};
use tower::{BoxError, Layer, Service};

use crate::shared::metrics::Metrics;

/// A moment of a clock that advances while the machine is suspended. [`Instant`] does not: after a suspension, a lease
/// that ran out would still seem valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        Self(Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or_default()))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0 + duration)
    }
}

/// Until when this process may write, and when it wrote last. Clones share the fence.
#[derive(Clone, Debug, Default)]
pub struct Fence(Arc<State>);

#[derive(Debug)]
struct State {
    open: RwLock<Open>,
    wrote: Mutex<Option<Instant>>,
    clock: fn() -> Moment,
}

impl Default for State {
    fn default() -> Self {
        Self { open: RwLock::default(), wrote: Mutex::default(), clock: Moment::now }
    }
}

#[derive(Clone, Copy, Debug, Default)]
enum Open {
    /// There is only one process, and no lease to hold.
    #[default]
    Always,
    No,
    Until(Moment),
}

/// The error of a write that the fence refused.
#[derive(Debug, thiserror::Error)]
#[error("not written: another process leads")]
pub struct NotLeading;

impl Fence {
    /// A fence that is closed until the lease is held.
    pub fn closed() -> Self {
        Self(Arc::new(State { open: RwLock::new(Open::No), ..State::default() }))
    }

    pub fn open_until(&self, moment: Moment) {
        self.set(Open::Until(moment));
    }

    pub fn close(&self) {
        self.set(Open::No);
    }

    /// Whether a write may leave now.
    pub fn is_open(&self) -> bool {
        match *self.0.open.read().unwrap_or_else(PoisonError::into_inner) {
            Open::Always => true,
            Open::No => false,
            Open::Until(moment) => (self.0.clock)() < moment,
        }
    }

    /// Time of the last write, events excluded.
    pub fn last_write(&self) -> Option<Instant> {
        *self.0.wrote.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a write.
    pub(crate) fn wrote(&self, at: Instant) {
        *self.0.wrote.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
    }

    fn set(&self, open: Open) {
        *self.0.open.write().unwrap_or_else(PoisonError::into_inner) = open;
    }

    /// Whether the error of a client comes from the fence.
    pub fn refused(error: &kube::Error) -> bool {
        let mut cause: Option<&(dyn Error + 'static)> = Some(error);
        while let Some(error) = cause {
            if error.is::<NotLeading>() {
                return true;
            }
            cause = error.source();
        }
        false
    }
}

/// Adds the fence to a client's service.
#[derive(Clone)]
pub struct FenceLayer {
    pub fence: Fence,
    /// Counts the writes.
    pub metrics: Arc<Metrics>,
}

impl<S> Layer<S> for FenceLayer {
    type Service = Fenced<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Fenced { inner, fence: self.fence.clone(), metrics: Arc::clone(&self.metrics) }
    }
}

/// A client's service behind the fence.
#[derive(Clone)]
pub struct Fenced<S> {
    inner: S,
    fence: Fence,
    metrics: Arc<Metrics>,
}

impl<S, R> Service<http::Request<Body>> for Fenced<S>
where
    S: Service<http::Request<Body>, Response = R>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    R: Send + 'static,
{
    type Response = R;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<R, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        if request.method().is_safe() {
            let answer = self.inner.call(request);
            return Box::pin(async move { answer.await.map_err(Into::into) });
        }
        if !self.fence.is_open() {
            return Box::pin(std::future::ready(Err(NotLeading.into())));
        }
        let resource = resource(request.uri().path());
        if resource != "events" {
            self.fence.wrote(Instant::now());
        }
        self.metrics.wrote(request.method().as_str(), resource);
        let answer = self.inner.call(request);
        Box::pin(async move { answer.await.map_err(Into::into) })
    }
}

/// The resource of a path, with its subresource: `tasks/status` for
/// `/apis/kubeopencode.io/v1alpha1/namespaces/a/tasks/b/status`.
fn resource(path: &str) -> String {
    let mut parts = path.trim_start_matches('/').split('/');
    match parts.next() {
        Some("api") => drop(parts.next()),
        Some("apis") => drop((parts.next(), parts.next())),
        _ => return "other".into(),
    }
    let rest: Vec<&str> = parts.collect();
    let rest = match rest.as_slice() {
        ["namespaces", _, inner @ ..] if !inner.is_empty() => inner,
        all => all,
    };
    match rest {
        [kind, _name, sub, ..] => format!("{kind}/{sub}"),
        [kind, ..] => (*kind).to_owned(),
        [] => "other".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        process::{Command, Stdio},
        sync::atomic::{AtomicU64, Ordering},
    };

    use super::*;

    /// Set in a test that runs in a time namespace.
    const SUSPENDED: &str = "KUBEOPENCODE_TEST_SUSPENDED";

    #[test]
    fn a_path_names_its_resource() {
        for (path, expected) in [
            ("/api/v1/namespaces/a/pods", "pods"),
            ("/api/v1/namespaces/a/pods/b", "pods"),
            ("/api/v1/namespaces/a", "namespaces"),
            ("/apis/kubeopencode.io/v1alpha1/namespaces/a/tasks/b/status", "tasks/status"),
            ("/apis/coordination.k8s.io/v1/namespaces/a/leases/b", "leases"),
            ("/healthz", "other"),
        ] {
            assert_eq!(resource(path), expected, "{path}");
        }
    }

    #[test]
    fn a_lease_that_ran_out_closes_the_fence_by_itself() {
        let fence = Fence::closed();
        assert!(!fence.is_open());
        fence.open_until(Moment::now() + Duration::from_mins(1));
        assert!(fence.is_open());
        fence.open_until(Moment::now());
        assert!(!fence.is_open());
    }

    #[test]
    fn a_machine_that_was_suspended_does_not_write() {
        static SUSPENDED: AtomicU64 = AtomicU64::new(0);
        let clock = || Moment::now() + Duration::from_secs(SUSPENDED.load(Ordering::Relaxed));
        let fence = Fence(Arc::new(State { clock, ..State::default() }));
        fence.open_until(Moment::now() + Duration::from_mins(1));
        assert!(fence.is_open());
        SUSPENDED.store(3600, Ordering::Relaxed);
        assert!(!fence.is_open());
    }

    #[test]
    fn the_clock_of_the_fence_includes_suspensions() {
        // The kernel counts the time since the boot in the same way for this file, in hundredths of a second.
        let uptime = || -> f64 {
            let text = std::fs::read_to_string("/proc/uptime").unwrap();
            text.split(' ').next().unwrap().parse().unwrap()
        };
        let before = uptime();
        let Moment(now) = Moment::now();
        assert!((before - 0.02..=uptime() + 0.02).contains(&now.as_secs_f64()), "{before} {now:?}");
        // The same after a suspension of an hour, simulated by a time namespace, which only root can create.
        let suspended = || {
            let mut command = Command::new("unshare");
            command.args(["--time", "--boottime", "3600"]).env(SUSPENDED, "true").stdout(Stdio::null());
            command
        };
        if std::env::var_os(SUSPENDED).is_none() && suspended().arg("true").status().is_ok_and(|ended| ended.success())
        {
            let this = format!("{}::the_clock_of_the_fence_includes_suspensions", module_path!());
            let this = this.split_once("::").unwrap().1;
            let program = std::env::current_exe().unwrap();
            assert!(suspended().arg(program).args(["--exact", this]).status().unwrap().success());
        }
    }
}
