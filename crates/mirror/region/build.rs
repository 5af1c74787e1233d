//! The shared library uses its own control block, which programs find by its name: without this
//! the linker would make room for another one in its place, and refuse the library's addresses.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-cdylib=-Wl,-Bsymbolic");
}
