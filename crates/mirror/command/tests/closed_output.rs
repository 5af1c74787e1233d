//! The command with an output that nobody reads, as in `retrovane-mirror bench | head`.

use std::process::{Command, Stdio};

/// It ends quietly, and leaves nothing behind but its results.
#[test]
fn a_closed_pipe_is_no_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = Command::new(env!("CARGO_BIN_EXE_retrovane-mirror"))
        .args(["bench", "--quick", "--only", "kills", "--dir"])
        .arg(folder.path())
        .current_dir(folder.path())
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .expect("it can be started");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success(), "it ended with {}", output.status);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}
