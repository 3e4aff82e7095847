//! The platform on one machine.
//!
//! For now one part exists: [`scripted_model`], an OpenAI-compatible model that does what the prompt's markers say.
//! Tests run the real OpenCode against it and the demo needs neither a key nor the internet.

pub mod scripted_model;
