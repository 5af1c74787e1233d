//! Small traces written by hand, and the command to look at them.
#![allow(dead_code, reason = "each test file uses the part that it needs")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use events::{BLOB_HEADER_BYTES, HEADER_BYTES, Header, Kind, MORE, Tag, padded};
use tempfile::TempDir;
use trace_store::{LaneEnd, Meta, NO_PARENT, Summary, TraceWriter};

/// A home directory for traces, and the command that uses it.
pub struct Home {
    dir: TempDir,
    path: PathBuf,
}

impl Home {
    pub fn new() -> Home {
        let dir = tempfile::tempdir().expect("a temporary directory");
        Home { path: dir.path().to_owned(), dir }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// From now on a folder in it, which does not exist yet, is the home.
    pub fn use_folder(&mut self, name: &str) {
        self.path = self.dir.path().join(name);
    }

    /// Runs `retrovane` with these arguments.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Output {
        self.command().args(arguments).output().expect("the command starts")
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_retrovane"));
        command.env("RETROVANE_HOME", self.path()).env_remove("HOME");
        command
    }

    /// What a successful command prints.
    pub fn prints(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?} failed: {errors}");
        String::from_utf8(output.stdout).expect("it prints text")
    }

    /// Exit code and message of a command that fails.
    pub fn fails(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.run(arguments);
        let code = output.status.code().expect("it ends by itself");
        assert_ne!(code, 0, "{arguments:?} succeeded");
        (code, String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Starts a trace with this name.
    pub fn trace(&self, name: &str) -> Writing {
        Writing::new(self.path().join(name))
    }
}

/// A trace that is being written.
pub struct Writing {
    pub writer: TraceWriter,
    pub dir: PathBuf,
}

impl Writing {
    fn new(dir: PathBuf) -> Writing {
        let meta = Meta {
            started: "2024-03-01T12:30:00.000Z".to_owned(),
            started_unix_ns: 1_709_296_200_000_000_000,
            kernel: "6.12.0".to_owned(),
            cpu: "a processor".to_owned(),
            ..Meta::now(vec!["prog".into(), "an argument".into()], "/tmp".into(), "user-dispatch")
        };
        Writing { writer: TraceWriter::create(&dir, &meta).expect("the trace is created"), dir }
    }

    /// Writes a whole lane as one chunk.
    pub fn lane(
        &mut self,
        lane: u32,
        parent: Option<u32>,
        pid: i32,
        events: &[Vec<u8>],
        end: Option<LaneEnd>,
    ) {
        self.writer.begin_lane(lane, parent.unwrap_or(NO_PARENT), pid).expect("the lane begins");
        let count = events.iter().filter(|bytes| bytes[0] != Kind::Data as u8).count() as u64;
        self.writer.append(lane, count, &events.concat()).expect("the events are written");
        if let Some(end) = end {
            self.writer.end_lane(lane, end).expect("the lane ends");
        }
    }

    pub fn finish(self, exit: LaneEnd) {
        let summary = Summary { exit, duration_ns: 1_500_000, notes: Vec::new() };
        self.writer.finish(&summary).expect("the trace is finished");
    }
}

/// A blob: address, tag, bytes.
pub type Blob<'a> = (u64, Tag, &'a [u8]);

/// Encodes an event.
pub fn event(kind: Kind, flags: u8, code: u16, body: &[u64], blobs: &[Blob<'_>]) -> Vec<u8> {
    let mut rest: Vec<u8> = body.iter().flat_map(|word| word.to_le_bytes()).collect();
    for (address, tag, data) in blobs {
        rest.extend(blob(*address, *tag as u32, data));
    }
    let len_bytes = HEADER_BYTES + rest.len();
    let mut bytes = Header::new(kind, flags, code, len_bytes as u32).to_le_bytes().to_vec();
    bytes.extend(rest);
    bytes
}

/// Encodes a blob whose tag's word is given.
pub fn blob(address: u64, tag_word: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = address.to_le_bytes().to_vec();
    bytes.extend((data.len() as u32).to_le_bytes());
    bytes.extend(tag_word.to_le_bytes());
    bytes.extend(data);
    bytes.resize(BLOB_HEADER_BYTES + padded(data.len()), 0);
    bytes
}

/// Encodes a system call.
pub fn call(name: &str, result: i64, args: &[u64], blobs: &[Blob<'_>]) -> Vec<u8> {
    flagged_call(name, 0, result, args, blobs)
}

/// Encodes a system call with flags.
pub fn flagged_call(name: &str, flags: u8, result: i64, args: &[u64], blobs: &[Blob<'_>]) -> Vec<u8> {
    let number = syscall_model::by_name(name).expect("the model has the call").nr;
    let body: Vec<u64> = std::iter::once(result as u64).chain(args.iter().copied()).collect();
    event(Kind::Syscall, flags | args.len() as u8, number, &body, blobs)
}

/// Encodes the birth of an image with these arguments on its stack.
pub fn birth(path: &str, arguments: &[&str]) -> Vec<u8> {
    const STACK: u64 = 0x7ffc_0000_0000;
    let pointers = arguments.len() + 4;
    let mut strings = Vec::new();
    let mut words = vec![arguments.len() as u64];
    for argument in arguments {
        words.push(STACK + 8 * pointers as u64 + strings.len() as u64);
        strings.extend_from_slice(argument.as_bytes());
        strings.push(0);
    }
    // The end of the arguments, one variable, the end of the environment.
    words.extend([0, STACK, 0]);
    assert_eq!(words.len(), pointers);
    let mut stack: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    stack.extend(strings);
    let mut body = vec![0x40_1000, STACK, 0x50_0000, (path.len() as u64) << 32];
    let mut name = path.as_bytes().to_vec();
    name.resize(padded(path.len()), 0);
    body.extend(name.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))));
    // As the recorder has it: the memory comes in an event of its own.
    let mut bytes = event(Kind::Birth, MORE, 0, &body, &[]);
    bytes.extend(event(
        Kind::Data,
        0,
        0,
        &[],
        &[(0x50_0000, Tag::Memory, b""), (STACK, Tag::Memory, &stack)],
    ));
    bytes
}

/// Encodes the end of a process.
pub fn exit(code: u64) -> Vec<u8> {
    event(Kind::Exit, 0, 0, &[code], &[])
}

/// Encodes the return of the call that made this process.
pub fn first_return() -> Vec<u8> {
    call("clone", 0, &[], &[])
}

/// Encodes a fork that made this lane.
pub fn fork(lane: u32, pid: i64) -> Vec<u8> {
    let child = [lane.to_le_bytes(), [0; 4]].concat();
    call("fork", pid, &[], &[(0, Tag::Child, &child)])
}

/// Encodes a wait that reports the end of this child.
pub fn wait(pid: i64, status: u32) -> Vec<u8> {
    let args = [u64::MAX, 0x1000, 0, 0];
    call("wait4", pid, &args, &[(0x1000, Tag::Memory, &status.to_le_bytes())])
}

/// Encodes a write to the recorded standard output.
pub fn output(text: &str, order: u64) -> Vec<u8> {
    let note = [1u64.to_le_bytes(), order.to_le_bytes()].concat();
    let blobs: [Blob<'_>; 2] = [(0x2000, Tag::Sent, text.as_bytes()), (0, Tag::Output, &note)];
    call("write", text.len() as i64, &[1, 0x2000, text.len() as u64], &blobs)
}
