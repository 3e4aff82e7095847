//! What our definitions make an API server accept and refuse, tried on a real one.

mod derived;
mod hostile;
mod manifests;
mod rules;
mod suite;
mod tmp;
