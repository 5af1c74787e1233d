//! How long it takes until a region is back whose files are not in memory, beside what the disk takes.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use retrovane_mirror::{Options, Region};
use serde_json::{Map, Value, json};

use crate::measure::median;
use crate::output::{Failure, say};
use crate::rivals::{Mirror, Plain, Scheme};

const PAGE: usize = 4096;
/// Recoveries, of whose times the medians are told.
const ROUNDS: usize = 5;
/// Bytes of one read past the page cache.
const PIECE: usize = 1 << 20;

/// Milliseconds of one recovery.
struct Times {
    /// To the first look at the data.
    first: f64,
    /// To a look at each page.
    all: f64,
    /// Until all pages were compared with their checksums.
    verified: f64,
    /// What the disk takes for the same file.
    disk: f64,
}

/// The keys `recovery_…_ms`, and milliseconds to the first look at memory that a rival has written.
pub fn run(folder: &Path, size: usize) -> Result<(Map<String, Value>, Value), Failure> {
    let path = folder.join("mirror");
    let files = [0, 1].map(|slot| folder.join(format!("mirror.{slot}")));
    let _ = files.each_ref().map(std::fs::remove_file);
    {
        let mirror = Mirror::new(folder, size).map_err(|error| error.to_string())?;
        let (base, bytes) = mirror.range();
        (0..bytes / PAGE).for_each(|page| mirror.store(base + page * PAGE, page as u64 + 1));
        mirror.region().set_root("data", base as u64).map_err(|error| error.to_string())?;
        mirror.begin();
        mirror.wait();
    }
    let rounds = (0..ROUNDS).map(|_| once(&path, &files, size)).collect::<Result<Vec<Times>, String>>()?;
    let of = |time: fn(&Times) -> f64| median(&rounds.iter().map(time).collect::<Vec<_>>());
    let named = [
        ("first", of(|times| times.first)),
        ("all", of(|times| times.all)),
        ("verified", of(|times| times.verified)),
        ("disk", of(|times| times.disk)),
    ];
    let told = named.map(|(name, time)| format!("{name} {time:.1} ms"));
    say(format_args!("recovery of {} MiB: {}", size >> 20, told.join(", ")))?;
    let rounded = |time: f64| json!((time * 1000.0).round() / 1000.0);
    let keys = named.map(|(name, time)| (format!("recovery_{name}_ms"), rounded(time)));
    let failed = |error: std::io::Error| format!("a file of plain memory: {error}");
    let plain = plain(folder, size).map_err(failed)?;
    say(format_args!("what the others write, mapped: first {plain:.1} ms"))?;
    Ok((keys.into_iter().collect(), rounded(plain)))
}

/// The same of a file that has nothing but the memory, as all rivals write it: mapped, and looked at.
fn plain(folder: &Path, size: usize) -> std::io::Result<f64> {
    let plain = Plain::new(folder, size, "plain")?;
    (0..size / PAGE).for_each(|page| plain.store(plain.base + page * PAGE, page as u64 + 1));
    // SAFETY: nobody stores to it any more.
    plain.save(unsafe { plain.bytes() })?;
    let path = folder.join("plain");
    let once = |_| {
        forget(&path)?;
        let begun = Instant::now();
        let file = File::open(&path)?;
        // SAFETY: a new mapping of a file that nobody changes, of which one word is read.
        unsafe {
            let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
            let at = libc::mmap(std::ptr::null_mut(), size, protection, flags, file.as_raw_fd(), 0);
            if at == libc::MAP_FAILED {
                return Err(std::io::Error::last_os_error());
            }
            at.byte_add(size / 2 / PAGE * PAGE).cast::<u64>().read_volatile();
            let first = begun.elapsed().as_secs_f64() * 1e3;
            libc::munmap(at, size);
            Ok(first)
        }
    };
    Ok(median(&(0..ROUNDS).map(once).collect::<std::io::Result<Vec<f64>>>()?))
}

fn once(path: &Path, files: &[PathBuf; 2], size: usize) -> Result<Times, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let disk = read_past_the_cache(&files[0]).map_err(failed)?;
    files.iter().try_for_each(|file| forget(file)).map_err(failed)?;
    let begun = Instant::now();
    let passed = || begun.elapsed().as_secs_f64() * 1e3;
    let region = Region::open(path, &Options::default()).map_err(|error| error.to_string())?;
    let data = region.root("data").ok_or("the root is gone")? as usize;
    // SAFETY: a word of the block that the root names, which nobody stores to.
    let is_right =
        |page: usize| unsafe { ((data + page * PAGE) as *const u64).read_volatile() == page as u64 + 1 };
    let mut is_whole = is_right(size / PAGE / 2);
    let first = passed();
    is_whole &= (0..size / PAGE).all(is_right);
    let all = passed();
    region.wait_verified(None).map_err(|error| error.to_string())?;
    let times = Times { first, all, verified: passed(), disk };
    if is_whole { Ok(times) } else { Err("the data are others".into()) }
}

/// Takes a file out of the page cache.
fn forget(file: &Path) -> std::io::Result<()> {
    let file = File::open(file)?;
    file.sync_data()?;
    // SAFETY: advice on a file of our own.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        error => Err(std::io::Error::from_raw_os_error(error)),
    }
}

/// Milliseconds for all of a file; where the file system always keeps what it reads, from its cache.
fn read_past_the_cache(path: &Path) -> std::io::Result<f64> {
    let direct = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path);
    let mut room = vec![0; PIECE + PAGE];
    let start = room.as_ptr().align_offset(PAGE);
    let buffer = &mut room[start..start + PIECE];
    let begun = Instant::now();
    let is_read = match &direct {
        Ok(file) => {
            let mut at = 0;
            std::iter::from_fn(|| match file.read_at(buffer, at) {
                Ok(0) => None,
                Ok(bytes) => {
                    at += bytes as u64;
                    Some(Ok(()))
                }
                Err(error) => Some(Err(error)),
            })
            .collect::<std::io::Result<()>>()
        }
        Err(_) => Err(std::io::ErrorKind::Unsupported.into()),
    };
    if is_read.is_err() {
        forget(path)?;
        let mut file = File::open(path)?;
        while file.read(buffer)? > 0 {}
    }
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}
