//! Several threads of safe Rust that share words of a region, killed at random moments: what is back is of one moment.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use retrovane_mirror::{Options, Region, Word};

const THREADS: usize = 4;
/// Words of one thread.
const OWN: usize = 500;
/// How long the victim may take to its first checkpoint.
const DURABLE_MAX: Duration = Duration::from_secs(60);

/// A word for each thread's rounds, one that all add to, and each thread's own.
struct Parts<'a> {
    total: &'a [Word],
    own: Vec<&'a [Word]>,
}

fn open(path: &Path) -> Region {
    let period = Some(Duration::from_millis(1));
    Region::open(path, &Options { size: 1 << 20, period, ..Options::default() }).expect("opened")
}

fn parts(region: &Region) -> Parts<'_> {
    let own = |thread| region.words(&format!("thread {thread}"), OWN).expect("they fit");
    Parts { total: region.words("total", 1).expect("it fits"), own: (0..THREADS).map(own).collect() }
}

/// Each thread stores its rounds' numbers in its words, in order, and counts each store in the total.
#[test]
fn victim() {
    let Ok(path) = std::env::var("MIRROR_THREADS_VICTIM") else { return };
    let region = open(Path::new(&path));
    let Parts { total, own } = &parts(&region);
    // What was stored and not counted, is.
    let stored: u64 = own.iter().flat_map(|words| words.iter()).map(Word::get).sum();
    total[0].set(stored);
    std::thread::scope(|scope| {
        for words in own {
            scope.spawn(|| {
                // The round that was cut short goes on.
                for index in (0..OWN).cycle() {
                    let round = words[OWN - 1].get() + 1;
                    if words[index].get() < round {
                        words[index].set(round);
                        total[0].add(1);
                    }
                }
            });
        }
        // Something new is durable: from now on a kill loses not all of it.
        while total[0].get() < stored + OWN as u64 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let ticket = region.checkpoint().expect("begun");
        region.wait(ticket, None).expect("durable");
        std::fs::write(durable(Path::new(&path)), "").expect("said");
    });
}

/// A file that is there when the victim at hand has a durable checkpoint.
fn durable(path: &Path) -> PathBuf {
    path.with_extension("durable")
}

/// How many stores are back.
fn whole(region: &Region) -> u64 {
    let Parts { total, own } = parts(region);
    let mut stored = 0;
    for words in own {
        let (first, last) = (words[0].get(), words[OWN - 1].get());
        assert!(first == last || first == last + 1, "{first} and {last} are not of one moment");
        let change = words.iter().position(|word| word.get() != first).unwrap_or(OWN);
        assert!(words[change..].iter().all(|word| word.get() == last), "torn at {change}");
        stored += words.iter().map(Word::get).sum::<u64>();
    }
    // A thread stores before it counts.
    let counted = total[0].get();
    assert!((counted..=counted + THREADS as u64).contains(&stored), "{stored} stores, {counted} counted");
    region.check_heap().expect("the allocator is whole");
    stored
}

#[test]
fn what_threads_share_is_of_one_moment() {
    let kills: u64 = std::env::var("MIRROR_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(25);
    let folder = tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" });
    let folder = folder.expect("a folder");
    let path = folder.path().join("region");
    let (mut back, mut progress) = (0, 0);
    for kill in 0..kills {
        let mut victim = Command::new(std::env::current_exe().expect("this program"))
            .args(["victim", "--exact"])
            .env("MIRROR_THREADS_VICTIM", &path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        // Every fifth is killed when it is known to have got on, however slow the machine is.
        let waits = kill % 5 == 4;
        let begun = Instant::now();
        while waits && !durable(&path).exists() && begun.elapsed() < DURABLE_MAX {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(5_000 + kill * 7919 % 25_000));
        victim.kill().expect("killed");
        victim.wait().expect("gone");
        let stored = whole(&open(&path));
        assert!(stored >= back, "{stored} stores are back, and {back} were before");
        assert!(!waits || stored > back, "what was durable is lost");
        progress += u64::from(stored > back);
        let _ = std::fs::remove_file(durable(&path));
        back = stored;
    }
    assert!(progress > 0, "no checkpoint was taken");
}
