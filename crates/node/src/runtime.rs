//! What runs containers: this machine's kernel, or Podman or Docker. The rest of the node does not know which.

use std::{io, os::fd::OwnedFd};

use rustix::process::Signal;
use tokio::{process::Child, sync::mpsc};

use crate::{
    container::{Helper, Inside},
    engine::Engine,
    inside::Init,
    limits::Limits,
    logs::LogWriter,
    pod::Security,
};

/// What becomes of a container.
#[derive(Debug)]
pub(crate) enum Happened {
    /// Its command runs.
    Started { target: Target },
    /// It could not be started.
    Failed { message: String },
    /// It ended, and its log is complete.
    Exited { code: i32, signal: Option<i32>, out_of_memory: bool },
}

/// A container that was started. Dropping this does not end it.
#[derive(Clone, Debug)]
pub(crate) struct Running(mpsc::UnboundedSender<Signal>);

impl Running {
    /// With where its signals arrive.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Signal>) {
        let (signals, wanted) = mpsc::unbounded_channel();
        (Self(signals), wanted)
    }

    /// Sends a signal to all its processes.
    pub(crate) fn signal(&self, signal: Signal) {
        // Nobody takes it any more when the container is gone.
        let _ = self.0.send(signal);
    }
}

/// A running container, for commands in it.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// A process of this machine.
    Process(Inside),
    /// A container of an engine, by its name.
    Engine(String),
}

/// A container that is about to start.
#[derive(Debug)]
pub(crate) struct Ready {
    /// Its own on this machine.
    pub(crate) name: String,
    /// Its image, as the Pod names it.
    pub(crate) image: String,
    pub(crate) init: Init,
    pub(crate) limits: Limits,
    pub(crate) security: Security,
}

/// What runs containers.
#[derive(Clone, Debug)]
pub(crate) enum Runtime {
    /// Namespaces of this machine's kernel.
    Processes(Helper),
    /// Podman or Docker.
    Engine(Engine),
}

impl Runtime {
    /// Starts a container. What becomes of it is told through `tell`, the end last.
    pub(crate) fn start(
        &self,
        ready: Ready,
        log: LogWriter,
        tell: impl Fn(Happened) + Send + Sync + 'static,
    ) -> io::Result<Running> {
        match self {
            Self::Processes(helper) => helper.start(&ready.name, ready.init, &ready.limits, log, tell),
            Self::Engine(engine) => Ok(engine.start(ready, log, tell)),
        }
    }

    /// Starts a command in a container, with a terminal of this machine if one is given.
    pub(crate) async fn join(&self, target: &Target, words: Vec<String>, tty: Option<OwnedFd>) -> io::Result<Child> {
        match (self, target) {
            (Self::Processes(helper), Target::Process(inside)) => helper.join(inside, words, tty).await,
            (Self::Engine(engine), Target::Engine(name)) => engine.exec(name, words, tty),
            _ => Err(io::Error::new(io::ErrorKind::NotFound, "the container was started by another runtime")),
        }
    }

    /// The engine, if one runs the containers.
    pub(crate) fn engine(&self) -> Option<&Engine> {
        match self {
            Self::Processes(_) => None,
            Self::Engine(engine) => Some(engine),
        }
    }
}
