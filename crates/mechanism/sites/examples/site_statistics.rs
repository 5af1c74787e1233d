//! Prints what the analysis finds in files, and in all files below folders.
//!
//! `cargo run --release -p sites --example site_statistics -- [-v] path...`
//! With `-v` every file that has sites gets a line; else slow ones and the total.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lane_protocol::{Recipe, site_kind};

const KIND_NAMES: [&str; 14] = [
    "",
    "syscall",
    "rdtsc",
    "rdtscp",
    "rdrand",
    "rdseed",
    "cpuid",
    "unsure",
    "xsavec",
    "gs",
    "spin",
    "rdpid",
    "vsyscall",
    "idle loop",
];

#[derive(Default)]
struct Statistics {
    files: usize,
    bytes: usize,
    unresolved: usize,
    found: [usize; KIND_NAMES.len()],
    rewritten: [usize; KIND_NAMES.len()],
    ahead: usize,
    time: Duration,
}

impl Statistics {
    fn add(&mut self, other: &Statistics) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.unresolved += other.unresolved;
        for kind in 1..8 {
            self.found[kind] += other.found[kind];
            self.rewritten[kind] += other.rewritten[kind];
        }
        self.ahead += other.ahead;
        self.time += other.time;
    }

    fn print(&self, name: &str) {
        print!("{name}: {} files, {:.1} MB, {:.1?}", self.files, self.bytes as f64 / 1e6, self.time);
        for (kind, kind_name) in KIND_NAMES.iter().enumerate() {
            if self.found[kind] > 0 {
                print!(", {kind_name} {}/{}", self.rewritten[kind], self.found[kind]);
            }
        }
        println!(", ahead {}, unresolved {}", self.ahead, self.unresolved);
    }
}

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_verbose = arguments.first().is_some_and(|argument| argument == "-v");
    if is_verbose {
        arguments.remove(0);
    }
    let mut files = Vec::new();
    for argument in &arguments {
        collect(Path::new(argument), &mut files);
    }
    let mut total = Statistics::default();
    for path in &files {
        let Some(statistics) = examine(path, is_verbose) else {
            continue;
        };
        let has_sites = statistics.found.iter().sum::<usize>() + statistics.unresolved > 0;
        if (is_verbose && has_sites) || statistics.time > Duration::from_millis(500) {
            statistics.print(&path.display().to_string());
        }
        total.add(&statistics);
    }
    total.print("total");
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return;
    };
    if metadata.is_dir() {
        let Ok(entries) = std::fs::read_dir(path) else {
            return;
        };
        entries.flatten().for_each(|entry| collect(&entry.path(), files));
    } else if metadata.is_file() {
        files.push(path.to_path_buf());
    }
}

fn examine(path: &Path, is_verbose: bool) -> Option<Statistics> {
    use std::io::Read;
    let mut file = std::fs::File::open(path).ok()?;
    let mut content = Vec::new();
    file.by_ref().take(4).read_to_end(&mut content).ok()?;
    if content != b"\x7fELF" {
        return None;
    }
    file.read_to_end(&mut content).ok()?;
    let begun = Instant::now();
    let analysis = sites::analyse(&content);
    let mut statistics = Statistics {
        files: 1,
        bytes: content.len(),
        unresolved: usize::from(analysis.unresolved_time_sites),
        time: begun.elapsed(),
        ..Statistics::default()
    };
    for recipe in &analysis.recipes {
        let kind = usize::from(recipe.kind);
        statistics.found[kind] += 1;
        statistics.rewritten[kind] += usize::from(is_rewritten(recipe));
        statistics.ahead += usize::from(recipe.before > 0);
        if is_verbose && !is_rewritten(recipe) && recipe.kind == site_kind::SYSCALL {
            println!("  {}: no recipe at {:#x}", path.display(), recipe.site_offset);
        }
    }
    Some(statistics)
}

fn is_rewritten(recipe: &Recipe) -> bool {
    recipe.before > 0 || recipe.after > 0
}
