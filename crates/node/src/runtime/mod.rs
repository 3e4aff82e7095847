//! The container runtime: namespaces of this machine's kernel, or Podman or Docker.

pub(crate) mod engine;
pub(crate) mod images;

use std::{io, os::fd::OwnedFd};

use rustix::process::Signal;
use tokio::{process::Child, sync::mpsc};

use crate::{
    logs::LogWriter,
    pod::Security,
    process::{
        container::{ContainerProcess, Helper},
        helper::Init,
        limits::Limits,
    },
    runtime::engine::Engine,
};

/// An event of a container.
#[derive(Debug)]
pub(crate) enum ContainerEvent {
    /// The command runs.
    Started { target: Target },
    /// The container could not be started.
    Failed { message: String },
    /// The container exited, and its log is complete.
    Exited { code: i32, signal: Option<i32>, out_of_memory: bool },
}

/// A started container. Dropping the value does not stop it.
#[derive(Clone, Debug)]
pub(crate) struct Running(mpsc::UnboundedSender<Signal>);

impl Running {
    /// The handle, and the receiver of its signals.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Signal>) {
        let (signals, wanted) = mpsc::unbounded_channel();
        (Self(signals), wanted)
    }

    /// Sends a signal to all processes of the container.
    pub(crate) fn signal(&self, signal: Signal) {
        // The container may have exited.
        let _ = self.0.send(signal);
    }
}

/// A running container, for `exec` and probes.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Process(ContainerProcess),
    /// A container of an engine, by its name.
    Engine(String),
}

/// A container with all start parameters.
#[derive(Debug)]
pub(crate) struct Ready {
    /// Unique on this machine.
    pub(crate) name: String,
    /// The image as the Pod names it.
    pub(crate) image: String,
    pub(crate) init: Init,
    pub(crate) limits: Limits,
    pub(crate) security: Security,
}

#[derive(Clone, Debug)]
pub(crate) enum Runtime {
    Processes(Helper),
    Engine(Engine),
}

impl Runtime {
    /// Starts a container. Events are passed to `on_event`, the exit last.
    pub(crate) fn start(
        &self,
        ready: Ready,
        log: LogWriter,
        on_event: impl Fn(ContainerEvent) + Send + Sync + 'static,
    ) -> io::Result<Running> {
        match self {
            Self::Processes(helper) => helper.start(&ready.name, ready.init, &ready.limits, log, on_event),
            Self::Engine(engine) => Ok(engine.start(ready, log, on_event)),
        }
    }

    /// Starts a command in a container, with `tty` as its terminal if given.
    pub(crate) async fn join(&self, target: &Target, args: Vec<String>, tty: Option<OwnedFd>) -> io::Result<Child> {
        match (self, target) {
            (Self::Processes(helper), Target::Process(inside)) => helper.join(inside, args, tty).await,
            (Self::Engine(engine), Target::Engine(name)) => engine.exec(name, args, tty),
            _ => Err(io::Error::new(io::ErrorKind::NotFound, "the container was started by another runtime")),
        }
    }

    pub(crate) fn engine(&self) -> Option<&Engine> {
        match self {
            Self::Processes(_) => None,
            Self::Engine(engine) => Some(engine),
        }
    }
}
