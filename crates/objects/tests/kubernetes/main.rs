//! The same bodies to this crate and to a real kube-apiserver: verdicts, sentences and stored objects must be the same.

mod builtin;
mod cases;
mod definitions;
mod foreign;
mod oracle;
mod selectors;
mod tables;
