//! The table of what printing after the fact costs: a line that was executed a million
//! times, and a condition of gdb's that was false as often.

use std::path::Path;
use std::process::Command;

use crate::limited::{self, RUN_TIME_MAX};

/// The line with the mark in `micro/printing.c`.
const PLACE: &str = "printing.c:11";

/// Records the program and prints the times.
pub fn measure(tool: &Path) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("micro/printing.c");
    let program = folder.path().join("printing");
    let mut compiler = Command::new("gcc");
    compiler.args(["-O0", "-g", "-o"]).arg(&program).arg(source);
    timed("compiling", &mut compiler)?;
    let trace = folder.path().join("trace");
    let retrovane = || {
        let mut command = Command::new(tool);
        command.arg("--home").arg(folder.path()).current_dir(folder.path());
        command
    };
    let recording = timed("recording", retrovane().args(["record", "-q", "-o"]).arg(&trace).arg(&program))?;
    let plain = timed("replay", retrovane().args(["replay", "--run"]).arg(&trace))?;
    let print = timed("print", retrovane().args(["print", "--at", PLACE]).arg(&trace).arg("i, hash"))?;
    let condition = ["print", "--at", PLACE, "--if", "i == 999999"];
    let filtered = timed("print --if", retrovane().args(condition).arg(&trace).arg("i, hash"))?;
    println!("\nprinting after the fact, a line executed 1,000,000 times, in s");
    println!("  recorded {recording:.2}, replayed {plain:.2}");
    println!("  print --at, all rows (goal 5)       {print:.2}");
    println!("  print --at --if, one row            {filtered:.2}");
    if Command::new("gdb").arg("--version").output().is_ok() {
        let debugger = |break_at: &str| {
            let place = format!("break {break_at}");
            let mut command = retrovane();
            command.args(["replay", "--batch", "-ex", &place, "-ex", "continue"]).arg(&trace);
            timed("gdb", &mut command)
        };
        // What starting gdb takes is not the condition's.
        let start = debugger("main")?;
        let conditional = debugger(&format!("{PLACE} if i == 1000000"))?;
        println!("  gdb's condition, false (goal 1)     {:.2}", conditional - start);
    }
    Ok(())
}

/// The seconds that a command takes, of which nothing is shown.
fn timed(what: &str, command: &mut Command) -> Result<f64, String> {
    let ended = limited::run(command, RUN_TIME_MAX).map_err(|error| format!("{what}: {error}"))?;
    if ended.status.success() {
        Ok(ended.wall.as_secs_f64())
    } else {
        Err(format!("{what}: {}", ended.status))
    }
}
