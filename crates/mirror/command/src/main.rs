//! `retrovane-mirror`: measures the mirror beside other ways to take checkpoints.

mod bench;
mod measure;
mod plots;
mod rivals;
mod task;
mod write_protect;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "retrovane-mirror", version, about = "Checkpoints of memory without pauses")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compares the mirror with fork, copy-on-write (mprotect, userfaultfd) and stopping.
    ///
    /// A periodic task of high priority stores to 6,144 pages, while another thread does and
    /// takes checkpoints without pause: the experiment of Cunei and Vitek (VEE'06), section 7.
    #[command(
        after_help = "Examples:\n  retrovane-mirror bench --quick\n  retrovane-mirror bench --json bench-mirror.json --plots bench-plots"
    )]
    Bench(Bench),
}

/// What is measured, and where the results go.
#[derive(clap::Args)]
pub struct Bench {
    /// Fewer periods, and 256 MiB in place of 1 GiB: less than a minute.
    #[arg(long)]
    quick: bool,
    /// The figures, for programs.
    #[arg(long, value_name = "FILE", default_value = "bench-mirror.json")]
    json: PathBuf,
    /// Response and run times as SVG, as in the paper's figures 7 to 12.
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Where checkpoints are written.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Results of other programs (keys and numbers), which are put into the same file.
    #[arg(long, value_name = "FILE")]
    merge: Vec<PathBuf>,
}

fn main() -> ExitCode {
    let Command::Bench(options) = Arguments::parse().command;
    match bench::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("retrovane-mirror: {error}");
            ExitCode::from(125)
        }
    }
}
