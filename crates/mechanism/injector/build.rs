//! Builds the runtime, which lives in every traced process, for its own target.
//!
//! The runtime is a package apart from the workspace, so that its profile and
//! its target are its own. What cargo tells this script about the outer build
//! must not reach the inner one.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What the runtime is made of, relative to this package.
const SOURCES: [&str; 12] = [
    "../../in-tracee/runtime",
    "../../in-tracee/bytecode/Cargo.toml",
    "../../in-tracee/bytecode/src",
    "../../in-tracee/logic/Cargo.toml",
    "../../in-tracee/logic/src",
    "../../in-tracee/translator/Cargo.toml",
    "../../in-tracee/translator/src",
    "../../vocabulary/events",
    "../../vocabulary/lane-protocol",
    "../../vocabulary/linux-abi",
    "../../vocabulary/syscall-model",
    "build.rs",
];

fn main() {
    let package = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    for source in SOURCES {
        watch(&package.join(source));
    }
    let target_dir = target_of_all(&out).unwrap_or(&out).join("runtime");
    let runtime = package.join("../../in-tracee/runtime");
    let cargo = std::env::var_os("CARGO").expect("cargo sets it");
    let mut build = Command::new(cargo);
    build
        .current_dir(&runtime)
        .args(["build", "--release", "--target", "x86_64-unknown-none", "--target-dir"])
        .arg(&target_dir);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if leaks(&text) {
            build.env_remove(&name);
        }
    }
    let status = build.status().expect("cargo, which runs this script, can be run");
    assert!(status.success(), "the runtime does not build: {status}");
    // Another profile's build may build it anew at any time.
    let image = out.join("rv-runtime");
    std::fs::copy(target_dir.join("x86_64-unknown-none/release/rv-runtime"), &image)
        .expect("the runtime was built");
    println!("cargo:rustc-env=RETROVANE_RUNTIME={}", image.display());
}

/// The target folder of the workspace, from `[TRIPLE/]PROFILE/build/PACKAGE/out` in it: every profile
/// and target of the tools embeds the same runtime, which is built once for all.
fn target_of_all(out: &Path) -> Option<&Path> {
    let folder = out.ancestors().nth(4)?;
    let triple = std::env::var_os("TARGET").expect("cargo sets it");
    if folder.file_name() == Some(&triple) { folder.parent() } else { Some(folder) }
}

/// True for variables that would change the inner build.
fn leaks(name: &str) -> bool {
    let kept = ["CARGO_HOME", "CARGO_NET_OFFLINE", "CARGO_TERM_COLOR"];
    let kept =
        kept.contains(&name) || name.starts_with("CARGO_REGISTRIES_") || name.starts_with("CARGO_HTTP_");
    (name.starts_with("CARGO") && !kept)
        || [
            "RUSTFLAGS",
            "RUSTDOCFLAGS",
            "RUSTC",
            "RUSTC_WRAPPER",
            "RUSTC_WORKSPACE_WRAPPER",
            "TARGET",
            "HOST",
            "OUT_DIR",
            "OPT_LEVEL",
            "PROFILE",
            "DEBUG",
            "NUM_JOBS",
        ]
        .contains(&name)
}

/// Names the sources one by one: a folder as a whole would count its target too.
fn watch(path: &Path) {
    if path.is_file() {
        println!("cargo:rerun-if-changed={}", path.display());
        return;
    }
    let Ok(entries) = std::fs::read_dir(path) else { return };
    for entry in entries.flatten() {
        if entry.file_name() != "target" {
            watch(&entry.path());
        }
    }
    // A file that is added shows in its folder's time. A name that does not exist
    // would make every build a new one.
    if path.iter().any(|part| part == "src") {
        println!("cargo:rerun-if-changed={}", path.display());
    }
}
