//! Memory that is checkpointed to disk in the background, without pauses that grow with its
//! size: the mirror of Cunei and Vitek (VEE'06), for several threads on today's Linux.
//!
//! A [`Region`] has a second copy. A checkpoint is one store to a word that every store looks at before: for some milliseconds, threads
//! save what they overwrite, and a thread makes the copy what the region was at that moment. It writes it
//! to one of two files then. After a crash the region is there as of the last checkpoint
//! that was durable, at the same address.
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("counters");
//! use retrovane_mirror::{Options, Region};
//!
//! let region = Region::open(&path, &Options { size: 1 << 20, ..Options::default() })?;
//! let counters = region.words("counters", 100)?;
//! counters[7].add(1);
//! let checkpoint = region.checkpoint()?; // returns at once
//! counters[7].add(1); // not in it
//! region.wait(checkpoint, None)?; // now it is on disk
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Programs in C and C++ use `include/retrovane-mirror.h` and the compiler pass of
//! `crates/mirror/pass`; `docs/MIRROR.md` says how.
//!
//! Invariant: no store waits for a checkpoint. Deliberately absent: copy-on-write, fork, and
//! anything of `retrovane record`: programs use this with it or without.
#![cfg(not(loom))]

pub mod barrier;
mod c_interface;
mod capture;
mod cells;
mod check;
mod checkpoints;
mod containers;
mod error;
mod files;
mod header;
mod heap;
mod layout;
mod library;
mod live;
mod log;
mod memory;
mod pages;
mod reader;
mod region;
mod roots;
mod save;
mod slots;
mod watch;

/// A region for a test, with a block of so many bytes.
#[cfg(test)]
struct RegionOfTest {
    region: Region,
    block: usize,
    _folder: tempfile::TempDir,
    /// A process has one region at a time, and a process of tests has several threads.
    _one: std::sync::MutexGuard<'static, ()>,
}

#[cfg(test)]
impl RegionOfTest {
    fn with_block(bytes: usize) -> RegionOfTest {
        static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options { size: 1 << 20, ..Options::default() };
        let region = Region::open(&folder.path().join("region"), &options).expect("new");
        let block = region.allocate(bytes, layout::PAGE).expect("room");
        RegionOfTest { region, block, _folder: folder, _one: one }
    }
}

pub use cells::Word;
pub use checkpoints::{Counts, Ticket};
pub use error::Error;
pub use header::Header;
pub use pages::Pages;
pub use region::{Options, Region};
pub use slots::{Recovered, SlotFile, Slots, data_offset, pair};
