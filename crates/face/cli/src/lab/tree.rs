//! `retrovane lab tree`: runs, the branches of each, and their checkpoints.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use lab::read_checkpoints;
use serde::{Deserialize, Serialize};

use crate::exit;
use crate::lab::futures;
use crate::lab::kept::read_json;
use crate::lab::running::{self, Listed};
use crate::settings::Settings;

/// In a branch's folder: of what it is another future.
pub const PARENT: &str = "parent.json";

#[derive(Args, Debug)]
pub struct TreeArguments {
    /// As JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Parent {
    dir: PathBuf,
    /// Until when both are the same; `None`: to the end.
    parted_at_ns: Option<u64>,
}

/// Notes of what a run is another future.
pub fn note_parent(dir: &Path, parent: &Path, parted_at_ns: Option<u64>) {
    let parent = std::path::absolute(parent).unwrap_or_else(|_| parent.to_owned());
    let text = serde_json::to_string(&Parent { dir: parent, parted_at_ns }).unwrap_or_default();
    // A branch whose parent is not known is shown as a run of its own.
    let _ = std::fs::write(dir.join(PARENT), text);
}

#[derive(Debug, Serialize)]
struct Checkpoint {
    number: usize,
    at_ns: u64,
}

#[derive(Debug, Serialize)]
struct Branch {
    #[serde(flatten)]
    run: Listed,
    parted_at_ns: Option<u64>,
    checkpoints: Vec<Checkpoint>,
    branches: Vec<Branch>,
}

fn grow(dir: &Path, parted_at_ns: Option<u64>, all: &[(PathBuf, Option<Parent>)]) -> Option<Branch> {
    let is_child =
        |(_, parent): &&(PathBuf, Option<Parent>)| parent.as_ref().is_some_and(|one| one.dir == dir);
    let branches = all.iter().filter(is_child).filter_map(|(child, parent)| {
        grow(child, parent.as_ref().and_then(|parent| parent.parted_at_ns), all)
    });
    let checkpoints = read_checkpoints(dir).into_iter();
    let checkpoints = checkpoints.map(|taken| Checkpoint { number: taken.number, at_ns: taken.at_ns });
    Some(Branch {
        run: running::look_at(dir)?,
        parted_at_ns,
        checkpoints: checkpoints.collect(),
        branches: branches.collect(),
    })
}

fn show(branch: &Branch, depth: usize) {
    let seconds = |at_ns: u64| format!("{:.6} s", at_ns as f64 / 1e9);
    let indent = "    ".repeat(depth);
    let parted = match (depth, branch.parted_at_ns) {
        (0, _) => String::new(),
        (_, Some(at_ns)) => format!("from {} on: ", seconds(at_ns)),
        (_, None) => "the same: ".to_owned(),
    };
    let until = branch.run.now_ns.map_or(String::new(), |at_ns| format!(", until {}", seconds(at_ns)));
    println!("{indent}{parted}{} ({}{until})", branch.run.run, branch.run.state);
    for &Checkpoint { number, at_ns } in &branch.checkpoints {
        println!("{indent}    checkpoint {number} at {}", seconds(at_ns));
    }
    for child in &branch.branches {
        show(child, depth + 1);
    }
}

pub fn run(arguments: &TreeArguments, settings: &Settings) -> ExitCode {
    let home = match settings.home() {
        Ok(home) => home,
        Err(error) => return exit::failure(error.code(), &error),
    };
    let runs = running::all(&home).into_iter().flat_map(|dir| {
        let others = futures::others(&dir);
        std::iter::once(dir).chain(others)
    });
    let all: Vec<(PathBuf, Option<Parent>)> = runs
        .map(|dir| {
            let parent = read_json::<Parent>(&dir.join(PARENT)).ok();
            (dir, parent)
        })
        .collect();
    let is_known = |parent: &Parent| all.iter().any(|(dir, _)| *dir == parent.dir);
    let roots = all.iter().filter(|(_, parent)| !parent.as_ref().is_some_and(is_known));
    let trees: Vec<Branch> = roots.filter_map(|(dir, _)| grow(dir, None, &all)).collect();
    if arguments.json {
        println!("{}", serde_json::to_string(&trees).unwrap_or_default());
    } else {
        trees.iter().for_each(|tree| show(tree, 0));
    }
    ExitCode::SUCCESS
}
