//! A recorder that is killed leaves all that it appended.
//!
//! The test runs its own executable again as the recorder, and kills that.

mod sample;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use sample::{Sample, read_lane};
use trace_store::{CutWhy, NO_PARENT, TraceReader, TraceWriter};

const DIR_VARIABLE: &str = "TRACE_STORE_TEST_RECORD_INTO";

#[test]
fn a_killed_recorder_leaves_what_it_appended() {
    if let Some(dir) = std::env::var_os(DIR_VARIABLE) {
        record_forever(Path::new(&dir));
    }
    let (_home, dir) = Sample::small().directory();
    let mut recorder = Command::new(std::env::current_exe().expect("it runs"))
        .args(["--exact", "a_killed_recorder_leaves_what_it_appended", "--nocapture"])
        .env(DIR_VARIABLE, &dir)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs again");
    let lines = BufReader::new(recorder.stdout.take().expect("it is a pipe")).lines();
    let told = lines.map_while(Result::ok).filter(|line| line == "appended").take(20).count();
    recorder.kill().expect("it runs until it is killed");
    recorder.wait().expect("it is our child");
    assert_eq!(told, 20);

    let reader = TraceReader::open(&dir).expect("a cut trace opens");
    let why = reader.cut().expect("it was never finished").why;
    assert!(matches!(why, CutWhy::NotFinished | CutWhy::Incomplete), "nobody records any more: {why:?}");
    let chunks = read_lane(&reader, 0).expect("what was appended is whole");
    assert!(chunks.len() >= told, "all that was told is there");
    for (number, chunk) in (0..).zip(&chunks) {
        assert!(*chunk == forever(number), "chunk {number} is as it was written");
    }
}

fn forever(number: u64) -> (u64, Vec<u8>) {
    (number + 1, number.to_le_bytes().repeat(10_000))
}

fn record_forever(dir: &Path) -> ! {
    let mut writer = TraceWriter::create(dir, &Sample::small().meta).expect("it is created");
    writer.begin_lane(0, NO_PARENT, 1).expect("it begins");
    for number in 0.. {
        let (events, bytes) = forever(number);
        writer.append(0, events, &bytes).expect("it is written");
        println!("\nappended");
    }
    unreachable!("there are enough numbers")
}
