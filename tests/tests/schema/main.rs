//! What our definitions make an API server accept and refuse, tried on a real one and on our own.

mod admission;
mod derived;
mod examples;
mod hostile;
mod kubectl;
mod manifests;
mod rules;
mod suite;
