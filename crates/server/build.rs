//! The web page is part of the binary: when it is built anew, so is the binary.

fn main() {
    // Without the page there is nothing to watch; a path that does not exist would mean "always changed".
    let watched = if std::path::Path::new("../../ui/dist").exists() { "../../ui/dist" } else { "build.rs" };
    println!("cargo::rerun-if-changed={watched}");
}
