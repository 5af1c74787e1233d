//! `retrovane-mirror`: measures the mirror beside other ways to take checkpoints.

mod bench;
mod kills;
mod measure;
mod output;
mod plots;
mod recovery;
mod rivals;
mod server;
mod task;
mod write_protect;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::output::{Failure, warn};

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
    /// Stores and takes checkpoints until it is killed: for `bench`.
    #[command(hide = true)]
    Victim {
        /// The region's files.
        path: PathBuf,
    },
}

/// A part of the comparison.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// The periodic task and first stores, beside other schemes.
    Pauses,
    /// A region whose files are not in memory is opened and read.
    Recovery,
    /// Kills at random moments.
    Kills,
    /// A server's latencies: with --server.
    Server,
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
    /// Redis with its data in a region (demo/mirror/build), for latencies beside --fork-server.
    #[arg(long, value_name = "PROGRAM", requires = "fork_server")]
    server: Option<PathBuf>,
    /// Redis from the same sources, as it is.
    #[arg(long, value_name = "PROGRAM")]
    fork_server: Option<PathBuf>,
    /// Only these parts; the other figures are null.
    #[arg(long, value_enum, value_name = "PART")]
    only: Vec<Part>,
    /// Results of other programs (keys and numbers), which are put into the same file.
    #[arg(long, value_name = "FILE")]
    merge: Vec<PathBuf>,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Bench(options) => bench::run(&options),
        Command::Victim { path } => kills::victim(&path),
    };
    match result {
        Ok(()) | Err(Failure::Unheard) => ExitCode::SUCCESS,
        Err(Failure::Told(error)) => {
            warn(error);
            ExitCode::from(125)
        }
    }
}
