//! Live sessions: how they end.

mod bench;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bench::Bench;

/// A process that was attached to goes on alone at once when the session is asked to end, however it is asked.
#[test]
fn a_process_is_let_go_at_once() {
    // Processes that have room in their logs look whether it is over every two seconds at best.
    const AT_ONCE: Duration = Duration::from_millis(1500);
    let bench = Bench::new();
    let program = bench.build("tests/dap/naps.c", "-O1");
    for asks in [&["kill", "-INT"] as &[&str], &["kill", "-TERM"], &["ctl"]] {
        let mut running = Command::new(&program).stdout(Stdio::null()).spawn().expect("it runs");
        let pid = running.id().to_string();
        let mut live = bench.retrovane(&["live", "--attach", &pid]);
        let mut live = live.stderr(Stdio::piped()).spawn().expect("it runs");
        let mut said = BufReader::new(live.stderr.take().expect("piped")).lines();
        let first = said.next().expect("it says something").expect("text");
        assert!(first.contains("attached to process"), "{first}");
        let begin = Instant::now();
        let mut ask = match asks {
            ["ctl"] => bench.retrovane(&["ctl", &pid, "detach"]),
            words => {
                let mut kill = Command::new(words[0]);
                kill.args(&words[1..]).arg(live.id().to_string());
                kill
            }
        };
        assert!(ask.stdout(Stdio::null()).status().expect("it runs").success());
        let ended = live.wait().expect("it ends");
        let took = begin.elapsed();
        assert!(ended.success() && took < AT_ONCE, "{asks:?}: {ended} after {took:?}");
        assert!(running.try_wait().expect("it is ours").is_none(), "{asks:?}: it goes on");
        running.kill().expect("it is ours");
        running.wait().expect("it ends");
    }
}
