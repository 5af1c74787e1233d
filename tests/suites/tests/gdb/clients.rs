//! Debuggers that are started by something else: gdb as an IDE drives it, and lldb.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use suites::{RUN_TIME_MAX, Scratch, TestResult, Tool, User, have_program, run};

use super::super::{compare, recorded};
use super::Served;

/// `replay --server` of a recording of the program. It is killed in the end.
struct Server {
    child: Child,
    socket: PathBuf,
}

impl Server {
    fn start(tool: &Tool, scratch: &Scratch, trace: &Path) -> Result<Server, String> {
        let socket = scratch.join("socket");
        let args: [OsString; 5] =
            ["replay".into(), "-q".into(), "--server".into(), socket.clone().into(), trace.into()];
        let mut command = tool.command(User::Current, &scratch.join("home"), &args);
        let child = command.stdout(Stdio::null()).spawn().map_err(|error| error.to_string())?;
        let deadline = Instant::now() + RUN_TIME_MAX;
        while !socket.exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Server { child, socket })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// gdb under the commands of its machine interface.
struct Machine {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Machine {
    fn start() -> Result<Machine, String> {
        let mut command = Command::new("timeout");
        command.arg(RUN_TIME_MAX.as_secs().to_string());
        command.args(["gdb", "-q", "-nx", "--interpreter=mi"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let input = child.stdin.take().ok_or("no input")?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        Ok(Machine { child, input, output })
    }

    /// What it says from the command on, up to a line that begins so.
    fn ask(&mut self, command: &str, last: &str) -> Result<String, String> {
        writeln!(self.input, "{command}").map_err(|error| error.to_string())?;
        let mut said = String::new();
        loop {
            let start = said.len();
            if self.output.read_line(&mut said).map_err(|error| error.to_string())? == 0 {
                return Err(format!("{command}: gdb ended\n{said}"));
            }
            let line = &said[start..];
            if line.starts_with("^error") {
                return Err(format!("{command}: {line}"));
            }
            if line.starts_with(last) {
                return Ok(said);
            }
        }
    }

    /// The same of a command that moves.
    fn moves(&mut self, command: &str, expected: &[&str]) -> TestResult {
        let said = self.ask(command, "*stopped")?;
        compare(&said, expected, &[]).map_err(|error| format!("{command}: {error}"))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What VS Code's C/C++ extension says to gdb for `miDebuggerServerAddress`, and its buttons
/// for going on and back.
fn check_machine_interface(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("machine_interface")?;
    let trace = recorded(tool, &scratch, "use_after_free", &["-O0"])?;
    let server = Server::start(tool, &scratch, &trace)?;
    let mut gdb = Machine::start()?;
    let done = "^done";
    for setting in ["mi-async on", "pagination off", "print frame-arguments all"] {
        gdb.ask(&format!("-gdb-set {setting}"), done)?;
    }
    gdb.ask("-interpreter-exec console \"set sysroot /\"", done)?;
    gdb.ask("-enable-pretty-printing", done)?;
    gdb.ask(&format!("-file-exec-and-symbols {}", scratch.join("program").display()), done)?;
    gdb.ask(&format!("-target-select remote {}", server.socket.display()), "^connected")?;
    let features = gdb.ask("-list-target-features", done)?;
    compare(&features, &["\"reverse\""], &[])?;
    gdb.ask("-break-insert -f reuse", done)?;
    gdb.moves("-exec-continue", &["reason=\"breakpoint-hit\"", "func=\"reuse\""])?;
    compare(&gdb.ask("-thread-info", done)?, &["state=\"stopped\""], &[])?;
    compare(&gdb.ask("-stack-list-frames 0 5", done)?, &["func=\"reuse\"", "func=\"main\""], &[])?;
    compare(&gdb.ask("-data-evaluate-expression list->value", done)?, &["value=\"4\""], &[])?;
    compare(&gdb.ask("-var-create - * list", done)?, &["struct node *"], &[])?;
    gdb.moves("-exec-next", &["reason=\"end-stepping-range\"", "line=\"35\""])?;
    gdb.moves("-exec-next --reverse", &["func=\"reuse\"", "line=\"34\""])?;
    gdb.ask("-break-delete", done)?;
    gdb.moves("-exec-finish --reverse", &["func=\"main\"", "line=\"46\""])?;
    gdb.ask("-break-watch list", done)?;
    gdb.moves("-exec-continue --reverse", &["reason=\"watchpoint-trigger\"", "func=\"add\""])?;
    gdb.ask("-break-delete", done)?;
    gdb.moves("-exec-continue --reverse", &["*stopped"])?;
    gdb.moves("-exec-continue", &["signal-name=\"SIGSEGV\"", "func=\"total\""])?;
    gdb.ask("-target-detach", done)?;
    gdb.ask("-gdb-exit", "^exit").map(drop)
}

/// lldb finds the program, its libraries, its frames and its variables, goes forward, and
/// back by commands of the server.
fn check_lldb(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("lldb")?;
    let trace = recorded(tool, &scratch, "use_after_free", &["-O0"])?;
    let server = Server::start(tool, &scratch, &trace)?;
    let mut lldb = Command::new("lldb");
    lldb.args(["--no-lldbinit", "--batch", "--source-quietly"]).arg(scratch.join("program"));
    let connect = format!("process connect --plugin gdb-remote unix-connect://{}", server.socket.display());
    for command in [
        connect.as_str(),
        "breakpoint set --name reuse",
        "continue",
        "image list",
        "thread backtrace",
        "frame variable",
        "thread step-over",
        "target variable list->value",
        "watchpoint set variable list",
        "memory region $pc",
        "process plugin packet monitor mark here",
        "breakpoint delete --force",
        "watchpoint delete --force",
        "thread step-over",
        "process plugin packet monitor seek here",
        "thread step-inst",
        "thread backtrace --count 1",
        // Behind a crash it takes no more commands.
        "continue",
    ] {
        lldb.args(["--one-line", command]);
    }
    let text = run(lldb, RUN_TIME_MAX)?.stdout_text();
    let expected = [
        "reuse at use_after_free.c:34",
        "libc.so.6",
        "main at use_after_free.c:46",
        "text = ",
        "reuse at use_after_free.c:35",
        "list->value = 4",
        "Watchpoint created",
        "r-x",
        "here is ",
        "reuse at use_after_free.c:36",
        "reuse at use_after_free.c:35",
        "total at use_after_free.c:28",
    ];
    compare(&text, &expected, &["lost connection"])
}

/// What lldb asks is answered, for a live program too.
fn check_queries(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("lldb_queries")?;
    let mut served = Served::start(tool, &scratch)?;
    served.client.expect("?", "T05")?;
    served.client.expect("qHostInfo", "triple:7838365f36342d")?;
    served.client.expect("qProcessInfo", "pid:")?;
    // The program's stack, and what nothing is at.
    let registers = served.client.ask("p7")?;
    let bytes: Vec<&str> = (0..8).rev().filter_map(|at| registers.get(2 * at..2 * at + 2)).collect();
    let region = served.client.ask(&format!("qMemoryRegionInfo:{}", bytes.concat()))?;
    compare(&region, &["start:", "size:", "permissions:rw;", "name:5b737461636b5d;"], &[])?;
    served.client.expect("qMemoryRegionInfo:0", "start:0;size:")?;
    served.client.expect("qMemoryRegionInfo:x", "E")?;
    served.client.expect("vKill;1", "OK")
}

/// The gdb whose own debug adapter is tried.
fn gdb_with_adapter() -> String {
    std::env::var("RETROVANE_DAP_GDB").unwrap_or_else(|_| "gdb".to_owned())
}

/// Why it cannot be tried.
fn missing_adapter() -> Option<String> {
    let mut command = Command::new(gdb_with_adapter());
    command.args([
        "-batch",
        "-ex",
        "python from gdb.dap.events import exec_and_expect_stop; print('is there')",
    ]);
    let said = command.stderr(Stdio::null()).output().map(|output| output.stdout).unwrap_or_default();
    let is_there = String::from_utf8_lossy(&said).contains("is there");
    (!is_there).then(|| "needs a gdb with its own debug adapter (RETROVANE_DAP_GDB)".to_owned())
}

/// An editor goes on and back by gdb's own debug adapter.
fn check_adapter(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("adapter")?;
    let trace = recorded(tool, &scratch, "live_rounds", super::THREADS)?;
    let server = Server::start(tool, &scratch, &trace)?;
    let mut editor = Command::new("python3");
    let folder = super::super::workloads();
    editor.arg(folder.join("adapter.py")).arg(gdb_with_adapter()).arg(folder.join("../../gdb/dap.py"));
    editor.arg(scratch.join("program")).arg(folder.join("live_rounds.c")).arg("15").arg(&server.socket);
    let text = run(editor, RUN_TIME_MAX)?.stdout_text();
    let expected = [
        "goes back: True",
        "continue: tell round = 1",
        "continue: tell round = 2",
        "continue: tell round = 3",
        "reverseContinue: tell round = 2",
        "stepBack: work ",
        "reverseContinue: tell round = 1",
        "next: tell round = 1",
    ];
    compare(&text, &expected, &[])
}

pub fn trials(tool: &Arc<Tool>) -> Vec<Trial> {
    type Check = fn(&Tool) -> TestResult;
    let own = Arc::clone(tool);
    let adapter = Trial::test("debug_adapter", move || check_adapter(&own).map_err(Failed::from));
    let adapter = match missing_adapter() {
        Some(kind) => adapter.with_kind(kind).with_ignored_flag(true),
        None => adapter,
    };
    let cases: [(&str, Check, Option<&str>); 3] = [
        ("machine_interface", check_machine_interface, None),
        ("lldb_queries", check_queries, None),
        ("lldb", check_lldb, Some("lldb")),
    ];
    let one = |(name, check, needed): (&str, Check, Option<&str>)| {
        let own = Arc::clone(tool);
        let trial = Trial::test(name, move || check(&own).map_err(Failed::from));
        match needed.filter(|program| !have_program(program)) {
            Some(program) => trial.with_kind(format!("needs {program}")).with_ignored_flag(true),
            None => trial,
        }
    };
    cases.into_iter().map(one).chain([adapter]).collect()
}
