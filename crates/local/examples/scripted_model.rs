//! Runs the scripted model until it is interrupted, and prints how OpenCode is told to use it.
#![allow(clippy::print_stdout, reason = "an example's output is what it is for")]

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let model = kubeopencode_local::scripted_model::ScriptedModel::start().await?;
    println!("{}", model.opencode_config());
    tokio::signal::ctrl_c().await
}
