//! Each shape once, from bytes written by hand.

use super::*;

fn shown(shape: Shape, data: &[u8]) -> String {
    let mut out = String::new();
    show(&mut out, shape, data, data.len() as u64, 32);
    out
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn halves(halves: &[u32]) -> Vec<u8> {
    halves.iter().flat_map(|half| half.to_le_bytes()).collect()
}

#[test]
fn numbers_and_times() {
    assert_eq!(shown(Shape::I32, &(-3i32).to_le_bytes()), "[-3]");
    assert_eq!(shown(Shape::U32, &7u32.to_le_bytes()), "[7]");
    assert_eq!(shown(Shape::U64, &words(&[9])), "[9]");
    assert_eq!(shown(Shape::U64, &words(&[9, 10])), "[9, 10]");
    assert_eq!(shown(Shape::I32Pair, &halves(&[3, 4])), "[3, 4]");
    assert_eq!(shown(Shape::Timespec, &words(&[1, 5])), "{tv_sec=1, tv_nsec=5}");
    assert_eq!(shown(Shape::Timeval, &words(&[1, 5])), "{tv_sec=1, tv_usec=5}");
    assert_eq!(
        shown(Shape::Itimerspec, &words(&[0, 0, 2, 3])),
        "{it_interval={tv_sec=0, tv_nsec=0}, it_value={tv_sec=2, tv_nsec=3}}"
    );
    assert_eq!(
        shown(Shape::Rlimit, &words(&[8 << 20, u64::MAX])),
        "{rlim_cur=8192*1024, rlim_max=RLIM_INFINITY}"
    );
}

#[test]
fn files_and_directories() {
    let mut stat = vec![0; 144];
    stat[24..28].copy_from_slice(&0o100_644u32.to_le_bytes());
    stat[48..56].copy_from_slice(&1234u64.to_le_bytes());
    assert_eq!(shown(Shape::Stat, &stat), "{st_mode=S_IFREG|0644, st_size=1234, ...}");
    stat[24..28].copy_from_slice(&0o020_620u32.to_le_bytes());
    stat[40..48].copy_from_slice(&0x8801u64.to_le_bytes());
    assert_eq!(shown(Shape::Stat, &stat), "{st_mode=S_IFCHR|0620, st_rdev=makedev(0x88, 0x1), ...}");
    let mut statx = vec![0; 256];
    statx[..4].copy_from_slice(&3u32.to_le_bytes());
    statx[28..30].copy_from_slice(&0o040_755u16.to_le_bytes());
    assert_eq!(
        shown(Shape::Statx, &statx),
        "{stx_mask=STATX_TYPE|STATX_MODE, stx_attributes=0x0, stx_mode=S_IFDIR|0755, stx_size=0, ...}"
    );
    let statfs = words(&[0xef53, 4096, 100, 50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(
        shown(Shape::Statfs, &statfs),
        "{f_type=EXT4_SUPER_MAGIC, f_bsize=4096, f_blocks=100, f_bfree=50, ...}"
    );
    let mut entries = words(&[1, 1]);
    entries.extend([24, 0, 4, b'.', 0, 0, 0, 0]);
    assert_eq!(shown(Shape::Dirents, &entries), r#"[{d_name=".", d_type=DT_DIR}]"#);
    let mut beginning = String::new();
    show(&mut beginning, Shape::Dirents, &entries, 48, 32);
    assert_eq!(beginning, r#"[{d_name=".", d_type=DT_DIR}, ...]"#);
}

#[test]
fn addresses_of_sockets() {
    assert_eq!(
        shown(Shape::SockAddr, &[2, 0, 0x1f, 0x90, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
        "{sa_family=AF_INET, sin_port=8080, sin_addr=127.0.0.1}"
    );
    let mut six = vec![10, 0, 0, 80, 0, 0, 0, 0];
    six.extend([0; 15]);
    six.extend([1, 0, 0, 0, 0]);
    assert_eq!(shown(Shape::SockAddr, &six), "{sa_family=AF_INET6, sin6_port=80, sin6_addr=::1}");
    assert_eq!(shown(Shape::SockAddr, b"\x01\0/run/x\0"), r#"{sa_family=AF_UNIX, sun_path="/run/x"}"#);
    assert_eq!(shown(Shape::SockAddr, b"\x01\0\0abc"), r#"{sa_family=AF_UNIX, sun_path=@"abc"}"#);
    assert_eq!(shown(Shape::SockAddr, &[1, 0]), "{sa_family=AF_UNIX}");
    let netlink = [&[16, 0, 0, 0][..], &halves(&[77, 1])].concat();
    assert_eq!(shown(Shape::SockAddr, &netlink), "{sa_family=AF_NETLINK, nl_pid=77, nl_groups=0x1}");
}

#[test]
fn sets_of_descriptors() {
    assert_eq!(
        shown(Shape::PollFds, &[3, 0, 0, 0, 1, 0, 1, 0, 4, 0, 0, 0, 4, 0, 0, 0]),
        "[{fd=3, events=POLLIN, revents=POLLIN}, {fd=4, events=POLLOUT}]"
    );
    let epoll = [&1u32.to_le_bytes()[..], &words(&[5])].concat();
    assert_eq!(shown(Shape::EpollEvents, &epoll), "[{events=EPOLLIN, data=0x5}]");
    assert_eq!(shown(Shape::FdSet, &[0b101, 0, 1, 0, 0, 0, 0, 0]), "[0 2 16]");
}

#[test]
fn signals_and_processes() {
    assert_eq!(shown(Shape::Sigset, &words(&[1 << 1 | 1 << 14])), "[INT TERM]");
    assert_eq!(shown(Shape::Sigset, &words(&[!(1 << 8)])), "~[KILL]");
    assert_eq!(
        shown(Shape::Sigaction, &words(&[1, 0x1000_0000, 0, 0])),
        "{sa_handler=SIG_IGN, sa_mask=[], sa_flags=SA_RESTART}"
    );
    assert_eq!(shown(Shape::WaitStatus, &halves(&[0x0300])), "[{WIFEXITED(s) && WEXITSTATUS(s) == 3}]");
    assert_eq!(
        shown(Shape::WaitStatus, &halves(&[0x8b])),
        "[{WIFSIGNALED(s) && WTERMSIG(s) == SIGSEGV && WCOREDUMP(s)}]"
    );
    assert_eq!(shown(Shape::WaitStatus, &halves(&[0x137f])), "[{WIFSTOPPED(s) && WSTOPSIG(s) == SIGSTOP}]");
    let mut info = halves(&[17, 0, 1, 0, 42, 1000, 3]);
    info.resize(128, 0);
    assert_eq!(
        shown(Shape::Siginfo, &info),
        "{si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=42, si_uid=1000, si_status=3}"
    );
    let mut info = halves(&[11, 0, 1, 0, 16, 0]);
    info.resize(128, 0);
    assert_eq!(shown(Shape::Siginfo, &info), "{si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0x10}");
    let usage = words(&[1, 2, 3, 4]);
    assert_eq!(
        shown(Shape::Rusage, &usage),
        "{ru_utime={tv_sec=1, tv_usec=2}, ru_stime={tv_sec=3, tv_usec=4}, ...}"
    );
    let mut name = vec![0; 390];
    name[..5].copy_from_slice(b"Linux");
    name[65] = b'h';
    name[130] = b'6';
    assert_eq!(shown(Shape::Utsname, &name), r#"{sysname="Linux", nodename="h", release="6", ...}"#);
    let size = shown(Shape::Winsize, &[24, 0, 80, 0, 0, 0, 0, 0]);
    assert_eq!(size, "{ws_row=24, ws_col=80, ws_xpixel=0, ws_ypixel=0}");
}

#[test]
fn what_is_too_short_is_shown_as_bytes() {
    assert_eq!(shown(Shape::Stat, &[1, 2]), "{2 bytes: 01 02}");
    assert_eq!(shown(Shape::Opaque, &[0xff; 40]), format!("{{40 bytes:{} ...}}", " ff".repeat(32)));
    for shape in
        [Shape::Siginfo, Shape::SockAddr, Shape::Termios, Shape::Utsname, Shape::Sigaction, Shape::Rusage]
    {
        for len in 0..8 {
            assert!(!shown(shape, &vec![1; len]).is_empty(), "{shape:?}");
        }
    }
}
