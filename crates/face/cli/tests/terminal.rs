//! What people see on a terminal: where a recording begins and ends.

mod bench;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use bench::{Bench, RETROVANE};

struct Terminal {
    bench: Bench,
}

impl Terminal {
    fn new() -> Terminal {
        Terminal { bench: Bench::new() }
    }

    fn build(&self, source: &str) -> PathBuf {
        self.bench.build(source, "-O0")
    }

    fn command(&self, program: &str) -> Command {
        self.bench.command(program)
    }

    /// What a terminal shows of this, with this typed.
    fn shows(&self, words: &str, typed: &str) -> String {
        let mut script = self.command("script");
        script.arg("-qec").arg(format!("{RETROVANE} {words}")).arg("/dev/null");
        let mut running = script
            .env("TERM", "dumb")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script is installed");
        let mut keyboard = running.stdin.take().expect("piped");
        std::io::Write::write_all(&mut keyboard, typed.as_bytes()).expect("it is read");
        let ended = running.wait_with_output().expect("it ends");
        drop(keyboard);
        String::from_utf8_lossy(&ended.stdout).replace('\r', "")
    }
}

#[test]
fn recording_ends_with_what_comes_next() {
    let terminal = Terminal::new();
    let said = terminal.shows("record true", "");
    let mut lines = said.lines();
    let first = lines.next().unwrap_or_default();
    assert!(
        first.starts_with("retrovane: recorded ") && first.ends_with(" of 1 process as true-0"),
        "{said}"
    );
    let next = "retrovane: next: retrovane replay true-0, or retrovane dump true-0";
    assert_eq!((lines.next(), lines.next()), (Some(next), None), "{said}");
    let died = terminal.shows("record -- sh -c 'kill -SEGV $$'", "");
    let next = "retrovane: next: retrovane replay sh-0 --at crash, or retrovane bt sh-0";
    assert!(died.lines().any(|line| line == next), "{died}");
    // Programs that read it see the program's output alone.
    let piped = terminal.command(RETROVANE).args(["record", "echo", "x"]).output().expect("it runs");
    assert_eq!((piped.stdout.as_slice(), piped.stderr.as_slice()), (b"x\n" as &[u8], b"" as &[u8]));
    assert_eq!(terminal.shows("record -q true", ""), "");
}

#[test]
fn a_hunt_ends_with_the_place_of_the_crash() {
    let terminal = Terminal::new();
    let program = terminal.build("demo/sessions.c");
    let hunt = terminal.command(RETROVANE).args(["hunt", "--tries", "2000", "--"]).arg(program).output();
    let said = String::from_utf8_lossy(&hunt.expect("it runs").stderr).into_owned();
    let last = said.lines().last().unwrap_or_default();
    let (start, line) = last.split_once(" in main at sessions.c:").unwrap_or_else(|| panic!("{said}"));
    assert!(start.starts_with("retrovane: it died") && line.parse::<u32>().is_ok(), "{said}");
    assert!(said.lines().any(|line| line.ends_with(" --at crash")), "{said}");
}

#[test]
fn gdb_opens_with_what_can_be_done() {
    let terminal = Terminal::new();
    let recorded = terminal.command(RETROVANE).args(["record", "-q", "true"]).status();
    assert!(recorded.expect("it runs").success());
    let said = terminal.shows("replay", "quit\n");
    let begin = said.find("This runs backwards, too").unwrap_or_else(|| panic!("{said}"));
    let greeting: Vec<&str> = said[begin..].lines().take(3).collect();
    assert!(greeting[1].contains("last-write") && greeting[2].contains("help retrovane"), "{said}");
    // Whoever gives it commands wants their answers.
    let batch = terminal.command(RETROVANE).args(["replay", "--batch", "--ex", "when"]).output();
    let batch = String::from_utf8_lossy(&batch.expect("it runs").stdout).into_owned();
    assert!(!batch.contains("This runs backwards"), "{batch}");
}

/// `sender go` leads to another process, and `inferior 1` back.
#[test]
fn gdb_goes_to_who_sent_what_was_read() {
    let terminal = Terminal::new();
    let program = terminal.build("tests/senders/meets.c");
    let recorded =
        terminal.command(RETROVANE).args(["record", "-q", "-o", "trace", "--"]).arg(program).output();
    assert!(recorded.expect("it runs").status.success());
    let commands = [
        "break show if text[3] == 'i' && text[4] == 'n'",
        "continue",
        "when",
        "sender go",
        "print client",
        "up 2",
        "print name",
        "reverse-finish",
        "inferior 1",
        "when",
        "sender",
    ];
    let mut replay = terminal.command(RETROVANE);
    replay.args(["replay", "--batch", "trace"]);
    for command in commands {
        replay.args(["--ex", command]);
    }
    let ran = replay.output().expect("it runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    let lines: Vec<&str> = said.lines().collect();
    let positions: Vec<&&str> = lines
        .iter()
        .filter(|line| line.chars().all(|char| "0123456789+".contains(char)) && line.contains('+'))
        .collect();
    assert!(positions.len() == 2 && positions[0] == positions[1], "{said}");
    assert!(said.contains("inferior 2 is process "), "{said}");
    let sent: Vec<&&str> = lines.iter().filter(|line| line.starts_with("sent by process ")).collect();
    assert!(sent.len() == 2 && sent[0] == sent[1] && sent[0].contains("\"by inet "), "{said}");
    assert!(said.contains("in connections (") && said.contains("\"inet\""), "{said}");
}
