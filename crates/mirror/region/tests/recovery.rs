//! A region that is closed, killed, damaged, or whose disk fails: it is back as of its last
//! checkpoint, or there is an error that says why not.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use retrovane_mirror::{Error, Options, Region, Word, data_offset};

const SIZE: usize = 1 << 20;
const WORDS: usize = 20_000;

/// A process has one region at a time.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn options() -> Options {
    Options { size: SIZE, ..Options::default() }
}

fn words(region: &Region) -> &[Word] {
    region.words("words", WORDS).expect("they fit")
}

/// Bytes of this process that are in memory (proc_pid_statm(5)).
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("this process");
    let pages: usize = text.split(' ').nth(1).and_then(|text| text.parse().ok()).expect("a number");
    pages * 4096
}

/// New, and recovered; what is allocated is made present by and by, or all of it at once.
#[test]
fn a_large_region_has_the_memory_that_is_used() {
    const LARGE: usize = 1 << 30;
    const SMALL: usize = 48 << 20;
    let _one = one_at_a_time();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("region");
    let before = resident();
    let region = Region::open(&path, &Options { size: LARGE, ..Options::default() }).expect("new");
    words(&region)[7].set(7);
    let checkpoint = region.checkpoint().expect("asked");
    region.wait(checkpoint, None).expect("durable");
    assert!(resident() - before < SMALL, "a new one has {} bytes", resident() - before);
    region.allocate(64 << 20, 16).expect("room");
    let begun = Instant::now();
    while resident() - before < 128 << 20 {
        assert!(begun.elapsed() < Duration::from_secs(60), "nobody makes it present");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(region);

    let before = resident();
    let region = Region::open(&path, &Options::default()).expect("recovered");
    assert_eq!(words(&region)[7].get(), 7);
    region.wait_verified(None).expect("whole");
    // Longer than it takes to look at each piece.
    let checkpoint = region.checkpoint().expect("asked");
    region.wait(checkpoint, None).expect("durable");
    std::thread::sleep(Duration::from_millis(200));
    assert!(resident() - before < SMALL, "a recovered one has {} bytes", resident() - before);
}

#[test]
fn what_was_durable_is_back_and_what_was_not_is_gone() {
    let _one = one_at_a_time();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("region");
    let region = Region::open(&path, &options()).expect("new");
    assert_eq!(region.recovered(), None);
    for (index, word) in words(&region).iter().enumerate() {
        word.set(index as u64);
    }
    let first = region.checkpoint().expect("asked");
    words(&region)[5].set(99);
    region.wait(first, None).expect("durable");
    region.wait_idle();
    for round in 0..5 {
        words(&region)[6].set(round);
        let next = region.checkpoint().expect("asked");
        region.wait(next, None).expect("durable");
        region.wait_idle();
    }
    words(&region)[7].set(77);
    let block = region.allocate(1000, 16).expect("room");
    assert!(region.check_heap().expect("whole") >= 1000);
    region.free(block);
    drop(region);

    let region = Region::open(&path, &Options::default()).expect("recovered");
    assert_eq!(region.recovered(), Some(6));
    let words = words(&region);
    assert_eq!((words[5].get(), words[6].get(), words[7].get(), words[8].get()), (99, 4, 7, 8));
    assert_eq!(words[WORDS - 1].get(), WORDS as u64 - 1);
    region.check_heap().expect("the allocator is whole");
}

#[test]
fn wrong_files_and_options_are_errors_that_say_so() {
    let _one = one_at_a_time();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("region");
    let region = Region::open(&path, &options()).expect("new");
    let wait = region.checkpoint().and_then(|ticket| region.wait(ticket, None));
    wait.expect("durable");
    assert!(matches!(Region::open(&path, &options()), Err(Error::AlreadyOpen)));
    drop(region);

    let other = Options { size: 2 * SIZE, ..Options::default() };
    assert!(matches!(Region::open(&path, &other), Err(Error::OtherSize { .. })));
    assert!(matches!(Region::open(&path, &Options { size: 5, ..other }), Err(Error::BadSize(5))));
    let none = folder.path().join("none");
    assert!(matches!(Region::open(&none, &Options::default()), Err(Error::BadSize(0))));

    let file = |slot: usize| PathBuf::from(format!("{}.{slot}", path.display()));
    let saved = std::fs::read(file(0)).expect("there");
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = saved.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        std::fs::write(file(0), changed).expect("written");
        Region::open(&path, &options()).map(|region| region.recovered())
    };
    assert!(matches!(with(0, b"something else"), Err(Error::WrongFile { .. })));
    // The only checkpoint's checksums are damaged.
    assert!(matches!(with(4096, b"damaged!"), Err(Error::NoWholeCheckpoint { .. })));
    assert_eq!(with(0, b"RVMIRROR").expect("whole again"), Some(1));
}

/// A page in the middle of the data is changed on disk, behind the last flush.
#[test]
fn a_damaged_page_is_told_and_the_checkpoint_before_stays() {
    let _one = one_at_a_time();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("region");
    let region = Region::open(&path, &options()).expect("new");
    for round in 1..3 {
        for word in words(&region) {
            word.set(round);
        }
        let ticket = region.checkpoint().expect("asked");
        region.wait(ticket, None).expect("durable");
        region.wait_idle();
    }
    let victim = std::ptr::from_ref(&words(&region)[WORDS / 2]) as usize;
    let base = region.range().0;
    drop(region);
    let file = |slot: usize| PathBuf::from(format!("{}.{slot}", path.display()));
    let mut bytes = std::fs::read(file(1)).expect("there");
    bytes[data_offset(SIZE) as usize + (victim - base)] ^= 4;
    std::fs::write(file(1), bytes).expect("written");
    let before = std::fs::read(file(0)).expect("there");

    let region = Region::open(&path, &options()).expect("the program begins before all is compared");
    assert_eq!(region.recovered(), Some(2));
    let error = region.wait_verified(None).expect_err("damaged");
    assert!(matches!(error, Error::Damaged { address, .. } if address == victim & !4095), "{error}");
    assert!(!is_readable(victim) && is_readable(victim - 4096) && is_readable(victim + 4096));
    words(&region)[0].set(3);
    let refused = region.checkpoint().and_then(|ticket| region.wait(ticket, None));
    assert!(matches!(refused, Err(Error::Damaged { .. })), "{refused:?}");
    drop(region);
    assert!(before == std::fs::read(file(0)).expect("there"), "the checkpoint before is written to");

    let region = Region::open(&path, &Options { verify: true, ..options() }).expect("the one before");
    assert_eq!((region.recovered(), words(&region)[WORDS / 2].get()), (Some(1), 1));
    assert!(region.wait_verified(None).is_ok());
    let ticket = region.checkpoint().expect("asked");
    region.wait(ticket, None).expect("durable");
}

/// Whether the kernel can read a byte there.
fn is_readable(address: usize) -> bool {
    let mut ends = [0; 2];
    // SAFETY: a pipe of our own; the kernel refuses an address that cannot be read.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        let written = libc::write(ends[1], address as *const libc::c_void, 1);
        ends.iter().for_each(|end| {
            libc::close(*end);
        });
        written == 1
    }
}

#[test]
fn a_full_disk_fails_the_checkpoint_and_nothing_else() {
    let _one = one_at_a_time();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("region");
    let region = Region::open(&path, &options()).expect("new");
    words(&region)[1].set(1);
    let good = region.checkpoint().expect("asked");
    region.wait(good, None).expect("durable");
    region.wait_idle();
    limit_files(Some(4096));
    words(&region)[1].set(2);
    let bad = region.checkpoint().expect("asked");
    let error = region.wait(bad, None).expect_err("no room");
    assert!(matches!(error, Error::Disk { .. }), "{error}");
    assert!(error.to_string().contains("the last checkpoint is unharmed"));
    limit_files(None);
    region.wait_idle();
    assert_eq!(words(&region)[1].get(), 2);
    // With room again the next one is written.
    let next = region.checkpoint().expect("asked");
    region.wait(next, None).expect("durable");
    drop(region);
    let region = Region::open(&path, &Options::default()).expect("recovered");
    assert_eq!(words(&region)[1].get(), 2);
}

/// Writes behind this size fail, as on a full disk: EFBIG with SIGXFSZ ignored.
fn limit_files(bytes: Option<u64>) {
    // SAFETY: both calls change this process's limits only.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let limit =
            libc::rlimit { rlim_cur: bytes.unwrap_or(libc::RLIM_INFINITY), rlim_max: libc::RLIM_INFINITY };
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
}

#[test]
fn a_child_of_fork_changes_nothing_and_does_not_keep_the_files() {
    let _one = one_at_a_time();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("region");
    let region = Region::open(&path, &options()).expect("new");
    words(&region)[3].set(1);
    let mut ends = [0; 2];
    // SAFETY: a pipe; the child makes stores and system calls, and ends without cleaning up.
    let child = unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        libc::fork()
    };
    if child == 0 {
        words(&region)[3].set(2);
        words(&region)[3].add(5);
        let is_refused = matches!(region.checkpoint(), Err(Error::Child)) && words(&region)[3].get() == 7;
        drop(region);
        // SAFETY: waits until the parent closes the other end.
        unsafe {
            libc::close(ends[1]);
            let mut byte = 0u8;
            libc::read(ends[0], (&raw mut byte).cast(), 1);
            libc::_exit(i32::from(!is_refused));
        }
    }
    words(&region)[4].set(3);
    let ticket = region.checkpoint().expect("asked");
    region.wait(ticket, None).expect("durable");
    assert!(matches!(region.differences(), Err(Error::NoCheck)));
    drop(region);
    // The child lives on.
    let region = Region::open(&path, &options()).expect("recovered");
    assert_eq!((words(&region)[3].get(), words(&region)[4].get()), (1, 3));
    let mut status = 0;
    // SAFETY: ends the child, and waits for it.
    unsafe {
        libc::close(ends[1]);
        libc::close(ends[0]);
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
    }
    assert_eq!(status, 0, "the child's checkpoint was not refused");
}

#[test]
fn what_a_block_gives_back_can_be_had_again() {
    let _one = one_at_a_time();
    let folder = tempfile::tempdir().expect("a folder");
    let region = Region::open(&folder.path().join("region"), &options()).expect("new");
    let (before, block) = (region.used(), region.allocate(SIZE / 2, 16).expect("room"));
    assert!(region.allocate(SIZE / 2, 16).is_err());
    let behind = region.allocate(100, 16).expect("room");
    region.shrink(block, 1000);
    region.shrink(block, 2000);
    assert_eq!(region.usable(block), 1000);
    region.check_heap().expect("whole");
    let other = region.allocate(SIZE / 2 - 4096, 16).expect("room again");
    [block, behind, other].into_iter().for_each(|block| region.free(block));
    assert_eq!(region.check_heap(), Ok(before));
}

/// The victim of the next test: changes all words by turns and says what is durable.
#[test]
fn victim() {
    let Ok(path) = std::env::var("MIRROR_VICTIM") else { return };
    let region = Region::open(Path::new(&path), &options()).expect("opened");
    let words = words(&region);
    // The round that was cut short is done again.
    let start = words[WORDS - 1].get();
    // Each round stores its number everywhere, in one order: a copy of one moment holds a
    // round up to a place, and the round before behind it.
    for round in start + 1.. {
        for (index, word) in words.iter().enumerate() {
            word.set(round);
            if index % 1000 == 0 && region.is_idle() {
                let block = region.allocate(index + 1, 64).expect("room");
                let _ = region.checkpoint();
                region.free(block);
            }
        }
        if let Some(Ok(())) = region.poll(region.checkpoint().expect("asked")) {
            return;
        }
        let ticket = region.checkpoint().expect("asked");
        region.wait(ticket, None).expect("durable");
        println!("durable {round}");
    }
}

/// What a checkpoint has, which is of one moment: the round in it.
fn whole_round(region: &Region) -> u64 {
    let words = words(region);
    let (first, last) = (words[0].get(), words[WORDS - 1].get());
    assert!(first == last || first == last + 1, "{first} and {last} are not of one moment");
    let change = words.iter().position(|word| word.get() != first).unwrap_or(WORDS);
    assert!(words[change..].iter().all(|word| word.get() == last), "torn at {change}");
    region.check_heap().expect("the allocator is whole");
    last
}

#[test]
fn killed_at_any_moment_it_is_back_at_its_last_checkpoint() {
    let _one = one_at_a_time();
    let kills: u64 = std::env::var("MIRROR_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(40);
    let folder = tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" });
    let folder = folder.expect("a folder");
    let path = folder.path().join("region");
    let (mut recovered, mut seed) = (0, 12345u64);
    for kill in 0..kills {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let output = folder.path().join("said");
        let said = std::fs::File::create(&output).expect("a file");
        let mut victim = Command::new(std::env::current_exe().expect("this program"))
            .args(["victim", "--exact", "--nocapture"])
            .env("MIRROR_VICTIM", &path)
            .stdout(said)
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        let until = Instant::now() + Duration::from_micros(2_000 + (seed >> 33) % 30_000);
        while Instant::now() < until {
            std::thread::yield_now();
        }
        victim.kill().expect("killed");
        victim.wait().expect("gone");
        let said = std::fs::read_to_string(&output).expect("text");
        let durable = said.lines().filter_map(|line| line.strip_prefix("durable ")).next_back();
        let durable = durable.and_then(|round| round.parse().ok()).unwrap_or(0);
        let begun = Instant::now();
        let region = Region::open(&path, &options()).expect("recovered");
        let round = whole_round(&region);
        assert!(begun.elapsed() < Duration::from_secs(1));
        assert!(round >= durable && round >= recovered, "kill {kill}: {round}, but {durable} was durable");
        recovered = round;
    }
    println!("{kills} kills, none lost, round {recovered}");
}
