//! Objects that our definitions make an API server accept and refuse, on a real one and on the embedded one.

mod admission;
mod derived;
mod docs;
mod examples;
mod hostile;
mod kubectl;
mod manifests;
mod rules;
mod suite;
mod task_secrets;
