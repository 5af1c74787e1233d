//! Clients that send nonsense, hang up, or are killed: the server ends, and says nothing that
//! is not so.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use suites::{Leftovers, RUN_TIME_MAX, Scratch, TestResult, Tool, User};

use super::{STATIC, built, recorded};

/// Between two looks at something that ends by itself.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// Packets with right checksums and odd contents, the same ones each time.
fn odd_packets(seed: u64, count: usize) -> Vec<u8> {
    const STARTS: [&str; 28] = [
        "?",
        "g",
        "G",
        "p",
        "P",
        "m",
        "M",
        "X",
        "H",
        "T",
        "z",
        "Z",
        "c",
        "s",
        "bc",
        "bs",
        "vCont;",
        "qXfer:",
        "qRcmd,",
        "QCatchSyscalls",
        "qSupported:",
        "vFile:",
        "qfThreadInfo",
        "Z0,",
        "Z2,",
        "qC",
        "J",
        "!",
    ];
    const REST: &[u8] = b"0123456789abcdef,;:=-*$#}rcst \x00\xff";
    let mut state = seed;
    let mut draw = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut all = Vec::new();
    for _ in 0..count {
        let mut body = STARTS[draw(STARTS.len())].as_bytes().to_vec();
        for _ in 0..draw(40) {
            match REST[draw(REST.len())] {
                byte @ (b'$' | b'#' | b'}' | b'*') => body.extend([b'}', byte ^ 0x20]),
                byte => body.push(byte),
            }
        }
        let sum = body.iter().fold(0u8, |sum, &byte| sum.wrapping_add(byte));
        all.push(b'$');
        all.extend(&body);
        all.extend(format!("#{sum:02x}").bytes());
    }
    all
}

/// Clients that send nonsense, or vanish, harm nobody: the server says so, or ends.
fn check_bad_clients(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("bad_clients")?;
    let trace = recorded(tool, &scratch, "steps", STATIC)?;
    let long = vec![b'a'; 300_000];
    let odd: Vec<Vec<u8>> = (0..6).map(|seed| odd_packets(seed, 400)).collect();
    let clients: [&[u8]; 10] = [
        b"",
        b"$",
        b"\xff\x00\x03$#$#00+++---",
        b"$g#67$p999#d3$mffffffffffffffff,ffffffffffffffff#00$m0,1#fa",
        b"$Z0,zz,1#11$Z9,0,0#00$vCont;;;#00$vCont;r:#00$bs#d5",
        b"$qXfer:features:read:target.xml:ffffffffffffffff,ffffffffffffffff#00",
        b"$qRcmd,7#00$qRcmd,7365656b20393939393939393939393939393939393939#4d$bc#c5",
        &[&b"$"[..], &long].concat(),
        // It goes away while the program runs.
        b"$vCont;c#a8",
        // The runtime's own memory.
        b"$Z0,6a0000000000,1#8a$vCont;c#a8$bc#c5",
    ];
    for (index, bytes) in clients.into_iter().chain(odd.iter().map(|bytes| &bytes[..])).enumerate() {
        let socket = scratch.join(format!("socket{index}"));
        let mut server = serving(tool, &scratch, &socket, &["replay".into(), trace.clone().into()])?;
        let talked = talk(&socket, bytes);
        let (code, said) = end_of(&mut server)?;
        talked?;
        // Whatever it thinks of its client, it has not panicked.
        if !matches!(code, Some(0 | 125)) {
            return Err(format!("after client {index} the server ended with {code:?}:\n{said}"));
        }
    }
    Ok(())
}

fn talk(socket: &Path, bytes: &[u8]) -> TestResult {
    let mut stream = UnixStream::connect(socket).map_err(|error| format!("cannot connect: {error}"))?;
    let mut sending = stream.try_clone().map_err(|error| error.to_string())?;
    let bytes = bytes.to_vec();
    let sender = std::thread::spawn(move || {
        // A server that is offended may have hung up before all was sent.
        let _ = sending.write_all(&bytes);
        let _ = sending.shutdown(std::net::Shutdown::Write);
    });
    let mut answers = Vec::new();
    let _ = stream.read_to_end(&mut answers);
    sender.join().map_err(|_| "the client failed".to_owned())
}

/// Starts a server with these words and a socket; it can be connected to.
fn serving(tool: &Tool, scratch: &Scratch, socket: &Path, words: &[OsString]) -> Result<Child, String> {
    let (verb, rest) = words.split_first().ok_or("no words")?;
    let mut args: Vec<OsString> =
        vec![verb.clone(), "-q".into(), "--server".into(), socket.to_owned().into()];
    args.extend_from_slice(rest);
    let mut command = tool.command(User::Current, &scratch.join("home"), &args);
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut server = spawned.map_err(|error| error.to_string())?;
    let deadline = Instant::now() + RUN_TIME_MAX;
    while !socket.exists() {
        if Instant::now() > deadline {
            let _ = server.kill();
            return Err("the server made no socket".to_owned());
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    Ok(server)
}

/// The exit code of what ends by itself, and what it said.
fn end_of(server: &mut Child) -> Result<(Option<i32>, String), String> {
    let deadline = Instant::now() + RUN_TIME_MAX;
    let status = loop {
        match server.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if Instant::now() > deadline => {
                let _ = server.kill();
                return Err("the server did not end after its client was gone".to_owned());
            }
            None => std::thread::sleep(LOOK_INTERVAL),
        }
    };
    let mut said = String::new();
    if let Some(error) = &mut server.stderr {
        error.read_to_string(&mut said).map_err(|error| error.to_string())?;
    }
    Ok((status.code(), said))
}

/// Asks for more than a socket holds, and hangs up without having read any of it.
fn hang_up(socket: &Path) -> TestResult {
    let mut stream = UnixStream::connect(socket).map_err(|error| format!("cannot connect: {error}"))?;
    // By then the server waits for somebody to read, and does not read itself any more.
    const FULL_FOR: Duration = Duration::from_millis(500);
    stream.set_write_timeout(Some(FULL_FOR)).map_err(|error| error.to_string())?;
    let packet = b"$qXfer:features:read:target.xml:0,8000#13";
    while stream.write_all(packet).is_ok() {}
    Ok(())
}

/// A client that hangs up while the server sends is gone like any other: nothing has failed.
fn check_hanging_up(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("client_hangs_up")?;
    let trace = recorded(tool, &scratch, "steps", STATIC)?;
    let program = built(&scratch, "live_echo", &["-O0"])?;
    let servers: [&[OsString]; 2] =
        [&["replay".into(), trace.into()], &["debug".into(), "--".into(), program.into()]];
    for (index, words) in servers.into_iter().enumerate() {
        let socket = scratch.join(format!("socket{index}"));
        let mut server = serving(tool, &scratch, &socket, words)?;
        let hung_up = hang_up(&socket);
        let (code, said) = end_of(&mut server)?;
        hung_up?;
        // A live program is killed then, and its end is that of who ran it.
        if code != [Some(0), None][index] || !said.is_empty() {
            return Err(format!("{words:?} ended with {code:?} and said\n{said}"));
        }
    }
    Ok(())
}

/// What gdb is told to say when it begins to move.
const GOING: &str = "going";

/// Kills who opened gdb, or gdb, once the server is there; how long that takes to end then.
fn is_given_up(
    tool: &Tool,
    scratch: &Scratch,
    words: &[OsString],
    has_gdb: bool,
) -> Result<Duration, String> {
    let folder = scratch.fresh_directory("temporary")?;
    let mut command = tool.command(User::Current, &scratch.join("home"), words);
    command.env("TMPDIR", &folder).current_dir(scratch.path());
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = spawned.map_err(|error| error.to_string())?;
    if has_gdb {
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut lines = output.lines().map_while(Result::ok);
        if !lines.any(|line| line.contains(GOING)) {
            return Err(format!("{words:?}: gdb did not come to its commands"));
        }
    }
    let left = Leftovers::of(scratch.path());
    // The opener or gdb, its server, and the process that replays or is live.
    let deadline = Instant::now() + RUN_TIME_MAX;
    while left.pids().len() < 3 {
        if Instant::now() > deadline || child.try_wait().map_err(|error| error.to_string())?.is_some() {
            let _ = child.kill();
            return Err(format!("{words:?}: nobody served it"));
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    child.kill().map_err(|error| error.to_string())?;
    child.wait().map_err(|error| error.to_string())?;
    let since = Instant::now();
    left.are_none()?;
    match std::fs::read_dir(&folder).map(Iterator::count) {
        Ok(0) => Ok(since.elapsed()),
        other => Err(format!("{words:?}: the server left its folder: {other:?}")),
    }
}

/// A server whose gdb is killed ends, wherever it is, and leaves nothing.
fn check_killed_gdb(tool: &Tool) -> TestResult {
    let scratch = Scratch::new("gdb_is_killed")?;
    let program = built(&scratch, "long_computation", &["-O1"])?;
    let trace: OsString = scratch.join("trace").into();
    let args: [OsString; 5] =
        ["record".into(), "-q".into(), "-o".into(), trace.clone(), program.clone().into()];
    let since = Instant::now();
    suites::run(tool.command(User::Current, &scratch.fresh_directory("home")?, &args), RUN_TIME_MAX)?;
    let recorded_in = since.elapsed();
    let word = OsString::from;
    // On the way to the end, before gdb is opened: it is not gone to the end of that.
    let way = [word("replay"), word("--gdb"), word("--at"), word("end"), trace.clone()];
    let given_up_in = is_given_up(tool, &scratch, &way, false)?;
    if given_up_in > recorded_in / 2 {
        return Err(format!("recording took {recorded_in:?}, giving up the way to its end {given_up_in:?}"));
    }
    let commands = ["--ex", "echo going\\n", "--ex", "continue"].map(word);
    let running = [&[word("replay"), word("--gdb")], &commands[..], &[trace]].concat();
    is_given_up(tool, &scratch, &running, true)?;
    let live = [&[word("debug")], &commands[..], &[word("--"), program.into()]].concat();
    is_given_up(tool, &scratch, &live, true).map(drop)
}

pub fn trials(tool: &Arc<Tool>) -> Vec<Trial> {
    type Check = fn(&Tool) -> TestResult;
    let cases: [(&str, Check); 3] = [
        ("bad_clients", check_bad_clients),
        ("client_hangs_up", check_hanging_up),
        ("gdb_is_killed", check_killed_gdb),
    ];
    let one = |(name, check): (&str, Check)| {
        let own = Arc::clone(tool);
        Trial::test(name, move || check(&own).map_err(Failed::from))
    };
    cases.into_iter().map(one).collect()
}
