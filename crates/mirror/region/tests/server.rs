//! A server whose data are in a region: Redis, built with the pass, killed while it writes.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The library, which is built before this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("this program");
    test.parent().expect("it is in a folder of the target's").join("libretrovane_mirror.a")
}

/// Runs a command; its output, if it ended well.
fn run(command: &mut Command) -> String {
    let output = command.output().expect("it can be started");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} ended with {}:\n{text}", output.status);
    text
}

/// Every key is of one moment, which is not before the last one that was reported as durable.
#[test]
fn a_killed_server_is_back_at_its_last_checkpoint() {
    let demo = root().join("demo/mirror");
    let missing = run(Command::new(demo.join("build")).arg("--missing"));
    if !missing.is_empty() {
        println!("Skipped, since this is missing: {}", missing.trim().replace('\n', ", "));
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    run(Command::new(demo.join("build"))
        .arg(folder.path())
        .env("LIBRARY", library())
        .env("OPTIMIZATION", "-O1")
        .env("CXXFLAGS", "-O0"));
    let said = run(Command::new("python3")
        .arg(demo.join("session.py"))
        .arg(folder.path().join("redis-server-mirror"))
        .arg(folder.path())
        .args(["--keys", "20000", "--rounds", "5", "--size", "67108864"]));
    assert_eq!(said.matches("all 20000 keys right").count(), 5, "{said}");
}
