//! Static programs of Go behind nginx.

use std::fs;
use std::process::Command;

use suites::{Mode, Scratch, TestResult, Tool, in_workspace};

use crate::{call, failed, text};

/// A server and a client without a C library, and nginx with two processes that share a port between them: the
/// same each time, and from the middle of the requests on.
pub fn behind_nginx(tool: &Tool) -> TestResult {
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let scratch = Scratch::new("lab-go")?;
    let program = scratch.join("pages");
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(in_workspace("tests/lab/pages.go"))
        .env("CGO_ENABLED", "0")
        .env("GOCACHE", in_workspace("target/go-cache"))
        .output()
        .map_err(|error| format!("go: {error}"))?;
    if !built.status.success() {
        return Err(format!("pages.go cannot be built: {}", text(&built.stderr)));
    }
    let description = format!(
        r#"
        [node.server]
        command = ["nginx", "-p", "/mnt", "-c", "nginx.conf"]
        files = {{ "nginx.conf" = "{}" }}
        [node.pages]
        command = ["{program}"]
        [node.client]
        command = ["{program}", "client"]
        [[lan]]
        delay = "5ms"
        "#,
        in_workspace("tests/lab/nginx.conf").display(),
        program = program.display()
    );
    let file = scratch.join("lab.toml");
    fs::write(&file, description).map_err(|error| error.to_string())?;
    let [file, dir, next] = ["lab.toml", "run", "next"].map(|name| scratch.join(name).display().to_string());
    let outcome = call(tool, scratch.path(), &["run", "-o", &dir, &file])?;
    let said = text(&outcome.stdout);
    let says = ["client | /2 3", "took 120 ms", "[10.0.0.1 fd00::1]", "client | * ended with 0"];
    if outcome.code != 0 || !says.iter().all(|words| said.contains(words)) {
        return Err(failed(&format!("it should say {says:?}"), &outcome));
    }
    let again = call(tool, scratch.path(), &["check", "--twice", &file])?;
    if again.code != 0 {
        return Err(failed("two runs should be the same", &again));
    }
    let back = call(tool, scratch.path(), &["back", "160ms", "--run", &dir, "-o", &next])?;
    let rest: Vec<&str> = said.lines().skip_while(|line| !line.contains("/1 2")).collect();
    let shown = text(&back.stdout);
    let went_on: Vec<&str> = shown.lines().skip(1).collect();
    if back.code != 0 || rest.is_empty() || went_on != rest {
        return Err(failed(&format!("from 0.16 s on it should be {rest:?}"), &back));
    }
    Ok(())
}
