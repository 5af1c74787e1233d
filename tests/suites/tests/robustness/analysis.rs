//! The analysis of a program's code takes as long as it takes: nothing of the program runs
//! before it is known, since some instructions do not trap.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use suites::{Live, TestResult, Tool, compare};

use crate::bench::{Bench, check, path};

/// Called without arguments it prints what the processor says of itself. Called with a file it
/// takes a lease of it (fcntl(2)): whoever opens the file waits, for longer than any patience
/// with a quick analysis.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <cpuid.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static void asked(int signal) { (void)signal; }
int main(int count, char **arguments)
{
	if (count == 1) {
		unsigned a, b, c, d;
		__cpuid(1, a, b, c, d);
		printf("%x %x %x %x\n", a, b, c, d);
		return 0;
	}
	int fd = open(arguments[1], O_RDWR);
	signal(SIGIO, asked);
	if (fd == -1 || fcntl(fd, F_SETLEASE, F_WRLCK) == -1) {
		perror("a lease of the file");
		return 1;
	}
	printf("held\n");
	fflush(stdout);
	alarm(60);
	pause();
	sleep(3);
	return 0;
}
"#;

pub fn analysis_takes_long(tool: &Tool) -> TestResult {
    let bench = Bench::new(tool, "analysis")?;
    let source = bench.run.join("asks.c");
    fs::write(&source, SOURCE).map_err(|error| error.to_string())?;
    let program = bench.compiled("asks", &source, &["-O1"])?;
    let record = ["record", "-q", "-o", path(&bench.trace), "--", path(&program)];
    let first = bench.call(&record)?;
    check(first.code == 0, "the first recording", &first)?;
    fs::remove_dir_all(&bench.trace).map_err(|error| error.to_string())?;

    let kept = kept_content(&bench.scratch.join("home"), &program)?;
    let mut holder = Command::new(&program);
    holder.arg(&kept).current_dir(&bench.run);
    let mut holder = Live::start(holder)?;
    holder.wait_for_line("held")?;
    let recorded = bench.call(&record)?;
    compare("known code", &first, "code not known yet", &recorded)?;
    compare("recorded", &recorded, "replayed", &bench.replay()?)
}

/// Where the content of this file is kept; what is known of its code is forgotten.
fn kept_content(home: &Path, program: &Path) -> Result<PathBuf, String> {
    let content = fs::read(program).map_err(|error| error.to_string())?;
    let mut kept = None;
    for file in crate::bench::trace_files(home)? {
        let is_analysis = file.extension().is_some();
        if !is_analysis && fs::read(&file).is_ok_and(|found| found == content) {
            kept = Some(file);
        }
    }
    let kept = kept.ok_or("the program's file is not kept")?;
    for file in crate::bench::trace_files(home)? {
        if file.extension().is_some() && file.with_extension("") == kept {
            fs::remove_file(&file).map_err(|error| error.to_string())?;
        }
    }
    Ok(kept)
}
