//! `retrovane dump` on traces written by hand.

mod synthetic;

use std::io::Read;
use std::process::Stdio;

use events::{
    BEFORE_CALL, DETECTED, ENDS_THREAD, EVENT_BYTES_MAX, FATAL, FILTERED, Instruction, Kind, MORE, REFUSED,
    SETS_REGISTERS, StopReason, Tag,
};
use synthetic::{Home, birth, blob, call, event, exit, first_return, flagged_call, fork, output, wait};
use trace_store::{FileEntry, LaneEnd};

const PID: i32 = 100;

/// A home with one trace of one process.
fn home_of(events: &[Vec<u8>], end: Option<LaneEnd>) -> Home {
    let home = Home::new();
    let mut trace = home.trace("prog-0");
    trace.lane(0, None, PID, events, end);
    trace.finish(end.unwrap_or(LaneEnd::Unknown));
    home
}

/// What dump shows of these events, without the pids.
fn lines_of(events: &[Vec<u8>]) -> Vec<String> {
    let text = home_of(events, Some(LaneEnd::Exited(0))).prints(&["dump", "prog-0"]);
    let pid = format!("{PID:<5} ");
    text.lines().map(|line| line.strip_prefix(&pid).expect("every line has its pid").to_owned()).collect()
}

fn first_line(event: Vec<u8>) -> String {
    lines_of(&[event]).remove(0)
}

#[test]
fn calls_look_like_strace_s() {
    let at_cwd = -100i64 as u64;
    let openat = |result: i64, flags: u64| {
        call("openat", result, &[at_cwd, 0x10, flags, 0o644], &[(0x10, Tag::Text, b"/etc/passwd")])
    };
    assert_eq!(
        first_line(openat(3, 0o2_000_000)),
        r#"openat(AT_FDCWD, "/etc/passwd", O_RDONLY|O_CLOEXEC) = 3"#
    );
    assert_eq!(
        first_line(openat(-2, 0o101)),
        r#"openat(AT_FDCWD, "/etc/passwd", O_WRONLY|O_CREAT, 0644) = -1 ENOENT (No such file or directory)"#
    );
    let text = b"root:x:0:0:root:/root:/bin/bash\nmore of it";
    let read = call("read", 42, &[3, 0x20, 4096], &[(0x20, Tag::Memory, text)]);
    assert_eq!(first_line(read), r#"read(3, "root:x:0:0:root:/root:/bin/bash\n"..., 4096) = 42"#);
    assert_eq!(first_line(call("read", 0, &[3, 0x20, 4096], &[])), r#"read(3, "", 4096) = 0"#);
    assert_eq!(
        first_line(call("read", -9, &[3, 0x20, 4096], &[])),
        "read(3, 0x20, 4096) = -1 EBADF (Bad file descriptor)"
    );
    let write = call("write", 100, &[1, 0x30, 100], &[(0x30, Tag::Sent, b"hi\n")]);
    assert_eq!(first_line(write), r#"write(1, "hi\n"..., 100) = 100"#);
    assert_eq!(
        first_line(call("mprotect", 0, &[0x1000, 4096, 0], &[])),
        "mprotect(0x1000, 4096, PROT_NONE) = 0"
    );
    assert_eq!(first_line(call("umask", 0o22, &[0o77], &[])), "umask(077) = 022");
    assert_eq!(first_line(call("kill", 0, &[7, 15], &[])), "kill(7, SIGTERM) = 0");
    assert_eq!(first_line(call("brk", 0x55_0000, &[0], &[])), "brk(NULL) = 0x550000");
    assert_eq!(
        first_line(call("fcntl", 0x8002, &[3, 3, 0], &[])),
        "fcntl(3, F_GETFL) = 0x8002 (flags O_RDWR|O_LARGEFILE)"
    );
}

#[test]
fn structures_are_shown_where_the_log_holds_them() {
    let time: Vec<u8> = [5u64, 7].iter().flat_map(|word| word.to_le_bytes()).collect();
    let clock = call("clock_gettime", 0, &[1, 0x10], &[(0x10, Tag::Memory, &time)]);
    assert_eq!(first_line(clock), "clock_gettime(CLOCK_MONOTONIC, {tv_sec=5, tv_nsec=7}) = 0");
    let address = [2, 0, 0x1f, 0x90, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let connect = call("connect", -111, &[3, 0x10, 16], &[(0x10, Tag::Sent, &address)]);
    assert_eq!(
        first_line(connect),
        "connect(3, {sa_family=AF_INET, sin_port=8080, sin_addr=127.0.0.1}, 16) = -1 ECONNREFUSED (Connection refused)"
    );
    let size = [24, 0, 80, 0, 0, 0, 0, 0];
    let ioctl = call("ioctl", 0, &[1, 0x5413, 0x10], &[(0x10, Tag::Memory, &size)]);
    assert_eq!(
        first_line(ioctl),
        "ioctl(1, TIOCGWINSZ, {ws_row=24, ws_col=80, ws_xpixel=0, ws_ypixel=0}) = 0"
    );
    let readv = call("readv", 5, &[3, 0x10, 2], &[(0x100, Tag::Memory, b"abc"), (0x200, Tag::Memory, b"de")]);
    assert_eq!(
        first_line(readv),
        r#"readv(3, [{iov_base="abc", 3 bytes}, {iov_base="de", 2 bytes}], 2) = 5"#
    );
    let writev = call("writev", 3, &[1, 0x10, 2], &[(0x100, Tag::Sent, b"abc")]);
    assert_eq!(first_line(writev), r#"writev(1, [{iov_base="abc"}, ...], 2) = 3"#);
}

#[test]
fn a_message_is_shown_with_the_descriptors_that_it_passes() {
    let header: Vec<u8> =
        [0u64, 0, 0x200, 1, 0x300, 24, 0x4000_0000].iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut control = 20u64.to_le_bytes().to_vec();
    control.extend([1, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    let blobs = [
        (0x100, Tag::Memory, b"data" as &[u8]),
        (0x300, Tag::Memory, &control),
        (0x10, Tag::Memory, &header),
    ];
    let line = first_line(call("recvmsg", 4, &[3, 0x10, 0], &blobs));
    assert_eq!(
        line,
        r#"recvmsg(3, {msg_name=NULL, msg_iov=[{iov_base="data"}], msg_control=[{SCM_RIGHTS [9]}], msg_flags=MSG_CMSG_CLOEXEC}, 0) = 4"#
    );
}

#[test]
fn every_kind_of_event_has_its_line() {
    let mut child_info = [0u8; 128];
    for (at, value) in [(0, 17u32), (8, 1), (16, 42), (20, 0), (24, 3)] {
        child_info[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    let words: Vec<u64> = child_info
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
        .collect();
    let mut pause = [0; 20];
    (pause[15], pause[19]) = (0x40_2000, 0xdef);
    let mut fault = vec![0x40_1234, 11, 1, 0];
    fault.resize(20, 0);
    let events = [
        birth("/bin/prog", &["prog", "an \"argument\""]),
        event(Kind::Trampoline, 0, 0, &[0x7000, 4096], &[]),
        event(Kind::Change, 0, 6, &[0x9000, 4096], &[(0x9000, Tag::Memory, &[1, 2, 3])]),
        event(Kind::Instruction, 0, Instruction::Rdtsc as u16, &[0, 0, 5, 0, 0, 1, 0], &[]),
        event(Kind::Instruction, 0, Instruction::Rdtscp as u16, &[0, 0, 5, 0, 2, 0, 0], &[]),
        event(Kind::Instruction, 0, Instruction::Cpuid as u16, &[1, 0, 10, 11, 12, 13, 0], &[]),
        event(Kind::Instruction, 0, Instruction::Rdrand as u16, &[0, 0, 255, 0, 0, 0, 1], &[]),
        event(Kind::Signal, BEFORE_CALL, 17, &words, &[]),
        event(Kind::Checksum, 0, 0, &[0xabc, 1000], &[]),
        event(Kind::Preemption, 0, 0, &pause, &[(0, Tag::Vectors, &[0; 512])]),
        event(Kind::Edit, 0, 0, &[], &[(0x7f00, Tag::Memory, &[5, 0, 0, 0])]),
        event(Kind::Edit, SETS_REGISTERS, 0, &pause[..18], &[]),
        event(Kind::Fault, 0, 11, &fault, &[]),
        event(Kind::Fault, FATAL, 11, &fault, &[]),
    ];
    let expected = [
        r#"execve("/bin/prog", ["prog", "an \"argument\""], [/* 1 vars */]) = 0"#,
        "=== an island of rewritten code: 4096 bytes at 0x7000 ===",
        "=== from here on allocations are filled with zeros, what is freed is kept for some time ===",
        "rdtsc() = 4294967301",
        "rdtscp() = 5 {processor=2}",
        "cpuid(0x1, 0x0) = {eax=0xa, ebx=0xb, ecx=0xc, edx=0xd}",
        "rdrand() = 0xff",
        "--- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=42, si_uid=0, si_status=3} ---",
        "=== checksum of memory 0x0000000000000abc after 1000 events ===",
        "=== paused at 0x402000, checksum of memory 0x0000000000000def ===",
        "=== the debugger changed 4 bytes at 0x7f00 ===",
        "=== the debugger changed the registers (to go on at 0x402000) ===",
        "--- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0x0} --- at 0x401234",
        "--- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0x0} --- at 0x401234",
        "+++ killed by SIGSEGV +++",
    ];
    assert_eq!(lines_of(&events), expected);
    assert_eq!(lines_of(&[exit(3)]), ["exit_group(3) = ?", "+++ exited with 3 +++"]);
    let stop =
        event(Kind::Stop, 0, StopReason::Thread as u16, &[], &[(0, Tag::Text, b"it created a thread")]);
    assert_eq!(lines_of(&[stop]), ["=== recording stopped: it created a thread ==="]);
    let stop = event(Kind::Stop, 0, StopReason::SharedMemory as u16, &[], &[]);
    assert_eq!(
        lines_of(&[stop]),
        ["=== recording stopped: it shares writable memory with another process ==="]
    );
}

#[test]
fn an_end_that_no_event_tells_is_told() {
    let shown = |end| home_of(&[call("getpid", 7, &[], &[])], end).prints(&["dump"]);
    assert_eq!(shown(Some(LaneEnd::Killed(9))), "100   getpid() = 7\n100   +++ killed by SIGKILL +++\n");
    assert_eq!(shown(Some(LaneEnd::Exited(1))), "100   getpid() = 7\n100   +++ exited with 1 +++\n");
    assert_eq!(
        shown(Some(LaneEnd::Unknown)),
        "100   getpid() = 7\n100   +++ nobody knows how it ended +++\n"
    );
}

#[test]
fn refused_detected_and_mapped_are_marked() {
    let refused = flagged_call("io_uring_setup", REFUSED, -38, &[8, 0x10], &[]);
    assert_eq!(
        first_line(refused),
        "io_uring_setup(8, 0x10) = -1 ENOSYS (Function not implemented) <refused>"
    );
    let filtered = flagged_call("getpgid", FILTERED, -1, &[0], &[]);
    assert_eq!(first_line(filtered), "getpgid(0) = -1 EPERM (Operation not permitted) <filtered>");
    let last = flagged_call("getpgid", FILTERED, ENDS_THREAD, &[0], &[]);
    assert_eq!(first_line(last), "getpgid(0) = ? <filtered>");
    let detected =
        flagged_call("ioctl", DETECTED, 0, &[3, 0x1234_5678, 0x10], &[(0x40, Tag::Memory, &[1; 12])]);
    assert_eq!(first_line(detected), "ioctl(3, 0x12345678, 0x10) = 0 <detected: 12 bytes at 0x40>");

    let home = Home::new();
    let mut trace = home.trace("prog-0");
    let file = FileEntry { hash: [7; 32], path: b"/lib/libc.so.6".to_vec(), size: 1, mode: 0o100_644 };
    trace.writer.add_file(5, &file).expect("the file is new");
    let reference = [5u64.to_le_bytes(), 0x1000u64.to_le_bytes()].concat();
    let mmap =
        call("mmap", 0x7f00_0000, &[0, 4096, 5, 2, 3, 0x1000], &[(0x7f00_0000, Tag::FileRef, &reference)]);
    trace.lane(0, None, PID, &[mmap], None);
    trace.finish(LaneEnd::Unknown);
    let expected =
        "100   mmap(NULL, 4096, PROT_READ|PROT_EXEC, MAP_PRIVATE, 3</lib/libc.so.6>, 0x1000) = 0x7f000000\n";
    assert!(home.prints(&["dump"]).starts_with(expected));
}

#[test]
fn what_is_longer_than_an_event_is_one_line() {
    let half = EVENT_BYTES_MAX / 2;
    let first = flagged_call(
        "read",
        MORE,
        3 * half as i64,
        &[3, 0x1_0000, 1 << 20],
        &[(0x1_0000, Tag::Memory, &vec![b'a'; half])],
    );
    let second = event(Kind::Data, MORE, 0, &[], &[(0x1_0000 + half as u64, Tag::Memory, &vec![b'b'; half])]);
    let third = event(Kind::Data, 0, 0, &[], &[(0x1_0000 + 2 * half as u64, Tag::Memory, &vec![b'c'; half])]);
    let home = home_of(&[first, second, third, exit(0)], Some(LaneEnd::Exited(0)));
    let text = home.prints(&["dump", "-s", "4"]);
    assert_eq!(
        text,
        "100   read(3, \"aaaa\"..., 1048576) = 196608\n100   exit_group(0) = ?\n100   +++ exited with 0 +++\n"
    );
}

#[test]
fn bytes_from_the_block_cache_are_found_again() {
    let number = syscall_model::by_name("read").expect("the model has read").nr;
    let read = |blobs: Vec<u8>| {
        let mut bytes = event(Kind::Syscall, 3, number, &[4, 3, 0x10, 64], &[]);
        bytes.extend(blobs);
        let len_bytes = bytes.len() as u32;
        bytes[4..8].copy_from_slice(&len_bytes.to_le_bytes());
        bytes
    };
    let cached = [9u32.to_le_bytes(), 4u32.to_le_bytes()].concat();
    let lines = lines_of(&[
        read(blob(0x10, Tag::MemoryToCache as u32 | 9 << 16, b"same")),
        read(blob(0x10, Tag::Cached as u32, &cached)),
    ]);
    assert_eq!(lines[0], r#"read(3, "same", 64) = 4"#);
    assert_eq!(lines[1], lines[0]);
}

/// A shell that makes two children, of which the second writes first, and waits.
fn family() -> Home {
    let home = Home::new();
    let mut trace = home.trace("sh-0");
    let shell = [
        birth("/bin/sh", &["sh"]),
        fork(1, 201),
        fork(2, 202),
        wait(202, 0),
        wait(201, 0),
        output("end\n", 2),
        exit(0),
    ];
    trace.lane(0, None, 200, &shell, Some(LaneEnd::Exited(0)));
    trace.lane(1, Some(0), 201, &[first_return(), output("late\n", 1), exit(0)], Some(LaneEnd::Exited(0)));
    trace.lane(2, Some(0), 202, &[first_return(), output("early\n", 0), exit(0)], Some(LaneEnd::Exited(0)));
    trace.finish(LaneEnd::Exited(0));
    home
}

#[test]
fn lanes_are_merged_by_what_is_known_of_their_order() {
    let expected = r#"
200   execve("/bin/sh", ["sh"], [/* 1 vars */]) = 0
200   fork() = 201
200   fork() = 202
202   clone(...) = 0
202   write(1, "early\n", 6) = 6
202   exit_group(0) = ?
202   +++ exited with 0 +++
200   wait4(-1, [{WIFEXITED(s) && WEXITSTATUS(s) == 0}], 0, NULL) = 202
201   clone(...) = 0
201   write(1, "late\n", 5) = 5
201   exit_group(0) = ?
201   +++ exited with 0 +++
200   wait4(-1, [{WIFEXITED(s) && WEXITSTATUS(s) == 0}], 0, NULL) = 201
200   write(1, "end\n", 4) = 4
200   exit_group(0) = ?
200   +++ exited with 0 +++
"#;
    assert_eq!(family().prints(&["dump"]), expected.trim_start());
}

#[test]
fn processes_can_be_shown_one_by_one() {
    let text = family().prints(&["dump", "--by-process", "--call", "write,exit"]);
    let expected = r#"
# process 200, lane 0, 7 events
200   write(1, "end\n", 4) = 4
200   exit_group(0) = ?
200   +++ exited with 0 +++

# process 201, lane 1, 3 events, made by 200
201   write(1, "late\n", 5) = 5
201   exit_group(0) = ?
201   +++ exited with 0 +++

# process 202, lane 2, 3 events, made by 200
202   write(1, "early\n", 6) = 6
202   exit_group(0) = ?
202   +++ exited with 0 +++
"#;
    assert_eq!(text, expected.trim_start());
}

#[test]
fn outputs_that_are_missing_do_not_stop_the_others() {
    let home = Home::new();
    let mut trace = home.trace("sh-0");
    trace.lane(0, None, 1, &[fork(1, 2), output("b", 7), wait(2, 0), exit(0)], Some(LaneEnd::Exited(0)));
    trace.lane(
        1,
        Some(0),
        2,
        &[first_return(), output("a", 5), wait(1, 0), exit(0)],
        Some(LaneEnd::Exited(0)),
    );
    trace.lane(2, Some(9), 3, &[first_return(), exit(0)], Some(LaneEnd::Exited(0)));
    trace.finish(LaneEnd::Exited(0));
    let text = home.prints(&["dump"]);
    assert_eq!(text.lines().count(), 13, "{text}");
    assert!(text.find("\"a\"").expect("it is shown") < text.find("\"b\"").expect("it is shown"));
}

#[test]
fn filters_select_by_pid_call_and_path() {
    let home = family();
    assert_eq!(
        home.prints(&["dump", "--pid", "202", "--call", "write"]),
        "202   write(1, \"early\\n\", 6) = 6\n"
    );
    assert_eq!(home.prints(&["dump", "--pid", "201,202", "--call", "exit"]).lines().count(), 4);
    assert_eq!(home.prints(&["dump", "--path", "bin/s"]).lines().count(), 1);
    assert_eq!(home.fails(&["dump", "--pid", "999"]).0, 121);
    assert_eq!(home.fails(&["dump", "--call", "wirte"]).0, 2);
}

#[test]
fn json_has_an_object_a_line() {
    let text = family().prints(&["dump", "--json"]);
    let objects: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("every line is JSON")).collect();
    assert_eq!(objects.len(), 13);
    let fork = &objects[1];
    assert_eq!((&fork["pid"], &fork["lane"], &fork["event"]), (&200.into(), &0.into(), &1.into()));
    assert_eq!(fork["child"], serde_json::json!({ "pid": 201, "lane": 1 }));
    let write = &objects[4];
    assert_eq!(write["text"], r#"write(1, "early\n", 6) = 6"#);
    assert_eq!(write["output"], serde_json::json!({ "stream": "stdout", "order": 0 }));
    assert_eq!(
        write["arguments"][1],
        serde_json::json!({ "name": "buf", "raw": "0x2000", "text": "\"early\\n\"" })
    );
    assert_eq!(objects[0]["kind"], "birth");
    assert_eq!(objects[0]["command"], serde_json::json!(["sh"]));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let home = home_of(&vec![call("getpid", 100, &[], &[]); 100_000], Some(LaneEnd::Exited(0)));
    let mut child =
        home.command().arg("dump").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut start = [0; 16];
    child.stdout.take().expect("it is piped").read_exact(&mut start).expect("it prints");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_cut_trace_is_shown_as_far_as_it_goes() {
    let home = Home::new();
    let mut trace = home.trace("prog-0");
    // The last event is not whole: its data never came.
    let half = flagged_call("read", MORE, 1, &[3, 0x10, 1], &[]);
    trace.lane(0, None, PID, &[call("getpid", 100, &[], &[]), half], None);
    drop(trace);
    let output = home.run(&["dump", "prog-0"]);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "100   getpid() = 100\n100   +++ the trace is cut here +++\n"
    );
    assert!(String::from_utf8_lossy(&output.stderr).contains("does not say how the program ended"));
    assert_eq!(output.status.code(), Some(119));
}

#[test]
fn who_was_killed_may_leave_half_an_event() {
    let half = flagged_call("execve", MORE, 0, &[0x10, 0x20, 0x30], &[]);
    let events = [call("getpid", 100, &[], &[]), half];
    let killed = home_of(&events, Some(LaneEnd::Killed(15)));
    assert_eq!(killed.prints(&["dump"]), "100   getpid() = 100\n100   +++ killed by SIGTERM +++\n");
    let exited = home_of(&events, Some(LaneEnd::Exited(0))).run(&["dump"]);
    assert_eq!(exited.status.code(), Some(121));
    assert!(String::from_utf8_lossy(&exited.stderr).contains("damaged after 1 events"));
}

#[test]
fn a_log_that_is_no_sequence_of_events_is_refused_after_what_is_good() {
    let home = home_of(&[call("getpid", 100, &[], &[]), vec![0xff; 16]], Some(LaneEnd::Exited(0)));
    let output = home.run(&["dump"]);
    assert_eq!(output.status.code(), Some(121));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "100   getpid() = 100\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("damaged after 1 events"));
}

#[test]
fn threads_are_counted_from_one_and_times_are_left_out_where_nobody_knows_them() {
    let getpid = || call("getpid", 7, &[], &[]);
    let events = [
        getpid(),
        event(Kind::Token, 0, 1, &[], &[]),
        getpid(),
        event(Kind::Token, 0, 0, &[], &[]),
        getpid(),
    ];
    let home = home_of(&events, Some(LaneEnd::Exited(0)));
    assert_eq!(
        home.prints(&["dump", "prog-0"]).lines().take(5).collect::<Vec<_>>(),
        [
            "100   getpid() = 7",
            "100/2 === thread 2 ===",
            "100/2 getpid() = 7",
            "100   === thread 1 ===",
            "100   getpid() = 7"
        ]
    );
    let timed = home.prints(&["dump", "--times", "prog-0"]);
    assert_eq!(timed.lines().next(), Some("100                getpid() = 7"));
    let json = home.prints(&["dump", "--json", "prog-0"]);
    let threads: Vec<_> = json.lines().take(5).filter_map(|line| line.split("\"thread\":").nth(1)).collect();
    assert!(threads.iter().map(|rest| &rest[..1]).eq(["1", "2", "2", "1", "1"]), "{json}");
}
