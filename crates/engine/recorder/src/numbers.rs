//! Numbers of system calls (x86-64) that are looked for in logs.

pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const OPEN: u16 = 2;
pub(crate) const CLOSE: u16 = 3;
pub(crate) const READV: u16 = 19;
pub(crate) const WRITEV: u16 = 20;
pub(crate) const PWRITE64: u16 = 18;
pub(crate) const PIPE: u16 = 22;
pub(crate) const DUP: u16 = 32;
pub(crate) const DUP2: u16 = 33;
pub(crate) const SENDFILE: u16 = 40;
pub(crate) const ACCEPT: u16 = 43;
pub(crate) const SENDTO: u16 = 44;
pub(crate) const RECVFROM: u16 = 45;
pub(crate) const SENDMSG: u16 = 46;
pub(crate) const RECVMSG: u16 = 47;
pub(crate) const SOCKETPAIR: u16 = 53;
pub(crate) const WAIT4: u16 = 61;
pub(crate) const FCNTL: u16 = 72;
pub(crate) const CHDIR: u16 = 80;
pub(crate) const FCHDIR: u16 = 81;
pub(crate) const CREAT: u16 = 85;
pub(crate) const UMASK: u16 = 95;
pub(crate) const EPOLL_WAIT: u16 = 232;
pub(crate) const EPOLL_CTL: u16 = 233;
pub(crate) const WAITID: u16 = 247;
pub(crate) const OPENAT: u16 = 257;
pub(crate) const SPLICE: u16 = 275;
pub(crate) const TEE: u16 = 276;
pub(crate) const VMSPLICE: u16 = 278;
pub(crate) const EPOLL_PWAIT: u16 = 281;
pub(crate) const ACCEPT4: u16 = 288;
pub(crate) const DUP3: u16 = 292;
pub(crate) const PIPE2: u16 = 293;
pub(crate) const RECVMMSG: u16 = 299;
pub(crate) const PWRITEV: u16 = 296;
pub(crate) const OPEN_BY_HANDLE_AT: u16 = 304;
pub(crate) const SENDMMSG: u16 = 307;
pub(crate) const COPY_FILE_RANGE: u16 = 326;
pub(crate) const PREADV2: u16 = 327;
pub(crate) const PWRITEV2: u16 = 328;
pub(crate) const CLOSE_RANGE: u16 = 436;
pub(crate) const OPENAT2: u16 = 437;
pub(crate) const EPOLL_PWAIT2: u16 = 441;

/// fcntl(2): copies of a descriptor (`F_DUPFD`, `F_DUPFD_CLOEXEC`).
pub(crate) const F_DUPFD: [u64; 2] = [0, 1030];
/// `close_range(2)`: nothing is closed yet.
pub(crate) const CLOSE_RANGE_CLOEXEC: u64 = 4;

/// recvfrom(2): what was read is there to be read again.
pub(crate) const MSG_PEEK: u64 = 2;
/// The same, and what is no input: urgent bytes (`MSG_OOB`) and errors (`MSG_ERRQUEUE`).
pub(crate) const MSG_NOT_TAKEN: u64 = MSG_PEEK | 1 | 0x2000;
