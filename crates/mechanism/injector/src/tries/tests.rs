//! What a copy that stays puts back, by a program that shows what it finds.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::{Readiness, StdinKind, TryEnd, TryInput, TryLimits, TryProgram, TryServer};
use crate::process::ExitReport;

/// Each first byte of the input is another way to change something, or to end.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int count = 7;
static char zeros[1 << 16];
static char text[64];

static int deep(int depth)
{
	volatile char frame[1 << 12];
	frame[0] = (char)depth;
	return depth ? deep(depth - 1) + frame[0] : 0;
}

int main(void)
{
	char *volatile heap = malloc(100000);
	strcpy(heap, "heap");
	double volatile half = 0.5;
	if (read(0, text, sizeof(text) - 1) < 0)
		return 9;
	char *more = malloc(1 << 18);
	char *much = sbrk(1 << 16);
	if (count != 7 || zeros[5000] || strcmp(heap, "heap") || more[8000] || much[9000] || half != 0.5)
		return 10;
	count++;
	zeros[5000] = heap[0] = more[8000] = much[9000] = 1;
	half = 2;
	switch (text[0]) {
	case 'a':
		abort();
	case 'c':
		close(0);
		return read(0, text, 1) == -1 ? 0 : 11;
	case 'd':
		return deep(20) == 0;
	case 'D':
		return deep(2000) == 0;
	case 'e':
		write(2, "error\n", 6);
		return 3;
	case 'f':
		return fork() == 0 ? 0 : 4;
	case 'l':
		for (;;)
			;
	case 'o': {
		int fd = open("/proc/self/maps", O_RDONLY);
		return fd == 3 && read(fd, text, 5) == 5 ? 5 : 12;
	}
	case 's':
		*(volatile int *)16 = 1;
	}
	return 0;
}
"#;

fn built(folder: &Path) -> PathBuf {
    let (source, program) = (folder.join("tried.c"), folder.join("tried"));
    std::fs::write(&source, PROGRAM).expect("the folder can be written to");
    let built = Command::new("cc").args(["-O1", "-w", "-o"]).arg(&program).arg(&source).status();
    assert!(built.is_ok_and(|status| status.success()), "cc builds it");
    program
}

fn server(stdin_kind: StdinKind) -> TryServer {
    static FOLDERS: AtomicU32 = AtomicU32::new(0);
    let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("retrovane-tries-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let program = TryProgram {
        command: vec![built(&folder).into()],
        environment: Vec::new(),
        directory: folder.clone(),
        stdin_kind,
        stdin: b"x".to_vec(),
        answers: super::RecordedAnswers::default(),
        connections: Vec::new(),
    };
    let limits = TryLimits { time: Duration::from_millis(500) };
    let server = TryServer::start(&program, &TryInput::Stdin, Readiness::BeforeReading, &limits);
    std::fs::remove_dir_all(&folder).expect("the folder is there");
    server.expect("it stands before its input")
}

const fn code(code: i32) -> TryEnd {
    TryEnd::Ended(ExitReport::Exited(code))
}

const fn killed(signal: i32) -> TryEnd {
    TryEnd::Ended(ExitReport::Killed(signal))
}

#[test]
fn tries_of_a_copy_that_stays_are_as_the_first() {
    for kind in [StdinKind::File, StdinKind::Pipe] {
        let mut server = server(kind);
        let inputs: [&[u8]; 9] = [b"x", b"s", b"x", b"a", b"c", b"d", b"e", b"o", b"x"];
        let ends = [code(0), killed(11), code(0), killed(6), code(0), code(0), code(3), code(5), code(0)];
        for _ in 0..20 {
            assert_eq!(server.run(&inputs, None).expect("tries can be made"), ends, "{kind:?}");
        }
        assert!(server.has_copy_that_stays(), "left for call {:?}", server.left_for_call());
        let first = server.run(&inputs, Some(ExitReport::Exited(3))).expect("tries can be made");
        assert_eq!(first, ends[..7]);
        assert_eq!(server.outputs().expect("outputs can be read").1, b"error\n");
    }
}

#[test]
fn a_copy_that_cannot_go_on_leaves_its_tries_to_forks() {
    for (kind, input, end, call) in [
        (StdinKind::File, b"f", code(4), Some(libc::SYS_clone as u32)),
        (StdinKind::Pipe, b"D", code(0), None),
    ] {
        let mut server = server(kind);
        let inputs: [&[u8]; 4] = [b"s", input, b"x", b"s"];
        let ends = server.run(&inputs, None).expect("tries can be made");
        assert_eq!(ends, [killed(11), end, code(0), killed(11)]);
        assert!(!server.has_copy_that_stays());
        assert_eq!(server.left_for_call(), call);
    }
}

#[test]
fn a_try_that_does_not_end_is_killed_and_a_watched_one_is_a_fork() {
    let mut server = server(StdinKind::File);
    let ends = server.run(&[b"s", b"l", b"x"], None).expect("tries can be made");
    assert_eq!(ends, [killed(11), TryEnd::Expired, code(0)]);
    let mut seen = Vec::new();
    let end = server.observe(b"s", &mut |stopping| seen.push(stopping.signal)).expect("it can be traced");
    assert_eq!((end, seen), (killed(11), vec![11]));
    let end = server.observe(b"l", &mut |_| {}).expect("it can be traced");
    assert_eq!(end, TryEnd::Expired, "who ends it is not the program");
    assert_eq!(server.run(&[b"x", b"s"], None).expect("tries can be made"), [code(0), killed(11)]);
    assert!(server.has_copy_that_stays());
}
