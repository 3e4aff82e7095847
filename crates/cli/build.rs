//! How the program is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Every address in the program's tables is corrected at its start. As a bitmap these corrections are some kilobytes
    // to read; as the list that linkers write otherwise they are megabytes, which stay in memory.
    println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
}
