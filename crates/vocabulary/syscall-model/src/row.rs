//! The types that a row is made of.

use crate::flags::FlagSet;

/// What the model says of one system call.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    pub nr: u16,
    pub name: &'static str,
    /// As many as the kernel reads, in order; at most six.
    pub args: &'static [Arg],
    /// What recording and replay do with the call.
    pub act: Act,
    /// The call may sleep until something outside of the process happens.
    pub blocks: bool,
    /// Others may learn by it what came before it: it passes bytes or signals on, or unlocks.
    pub releases: bool,
    /// The caller may learn by it what others did before: it receives, waits, or locks.
    pub acquires: bool,
    /// It changes what programs outside of the recording see, whatever its arguments.
    pub outward: bool,
    /// It may end or stop a process: it sends a signal.
    pub signals: bool,
    /// It may move the end of a file.
    pub moves_end: bool,
    /// It gives a process another user or group.
    pub changes_ids: bool,
    /// It gives a process other rights, another root or other namespaces, whatever its arguments.
    pub changes_rights: bool,
    /// Live: what it does it does to what checkpoints have open, too.
    pub shadowed: bool,
}

/// What the words behind a row say: see `rows!`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    pub blocks: bool,
    pub releases: bool,
    pub acquires: bool,
    pub outward: bool,
    pub signals: bool,
    pub moves_end: bool,
    pub changes_ids: bool,
    pub changes_rights: bool,
    pub shadowed: bool,
}

impl Facts {
    pub const NONE: Facts = Facts {
        blocks: false,
        releases: false,
        acquires: false,
        outward: false,
        signals: false,
        moves_end: false,
        changes_ids: false,
        changes_rights: false,
        shadowed: false,
    };

    pub const fn blocks(self) -> Facts {
        Facts { blocks: true, ..self }
    }

    pub const fn releases(self) -> Facts {
        Facts { releases: true, ..self }
    }

    pub const fn acquires(self) -> Facts {
        Facts { acquires: true, ..self }
    }

    pub const fn outward(self) -> Facts {
        Facts { outward: true, ..self }
    }

    pub const fn signals(self) -> Facts {
        Facts { signals: true, ..self }
    }

    pub const fn moves_end(self) -> Facts {
        Facts { moves_end: true, ..self }
    }

    pub const fn changes_ids(self) -> Facts {
        Facts { changes_ids: true, ..self }
    }

    pub const fn changes_rights(self) -> Facts {
        Facts { changes_rights: true, ..self }
    }

    pub const fn shadowed(self) -> Facts {
        Facts { shadowed: true, ..self }
    }
}

/// What recording and replay do with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Recorded by its result and the memory its arguments name; replay injects
    /// both without entering the kernel.
    Inject,
    /// The runtime has code for it, because the call changes state that must be
    /// real in replay (memory, processes) or that the runtime itself owns
    /// (signals, the break, descriptors it must protect).
    Execute(Special),
    /// What the kernel writes depends on an argument: look the request up.
    Variant(&'static VariantTable),
    /// Answered with ENOSYS without reaching the kernel (requests of prctl and arch_prctl: EINVAL), so that programs fall
    /// back to calls that can be recorded. The text says why.
    Reject(&'static str),
    /// Nobody describes what the kernel writes: recorded by finding the pages
    /// that changed, and marked so.
    PageDiff,
    /// Of a request with options: injected where the option, the argument behind the request, is in
    /// one of these ranges (first and last), and detected with any other.
    Options(&'static [(u32, u32)]),
}

impl Act {
    /// What is done with a call whose arguments are these; `selector` is the index of the request.
    pub fn resolved(self, selector: u8, args: &[u64; 6]) -> Act {
        match self {
            Act::Options(ranges) => {
                let option = args[(selector as usize + 1) % args.len()] as u32;
                let is_described = ranges.iter().any(|&(first, last)| first <= option && option <= last);
                if is_described { Act::Inject } else { Act::PageDiff }
            }
            act => act,
        }
    }
}

/// Calls with code of their own in the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    Mmap,
    Munmap,
    Mprotect,
    Mremap,
    Brk,
    Madvise,
    Fork,
    Vfork,
    Clone,
    Clone3,
    Execve,
    Execveat,
    Exit,
    ExitGroup,
    RtSigaction,
    RtSigprocmask,
    RtSigreturn,
    /// The pending set is the runtime's.
    RtSigpending,
    /// Takes from the runtime's pending set.
    RtSigtimedwait,
    /// Does not take the signal by which threads are asked.
    Signalfd,
    Sigaltstack,
    /// Replaces the signal mask for the time of the call: rt_sigsuspend, ppoll,
    /// pselect6, epoll_pwait, epoll_pwait2.
    MaskedWait,
    ArchPrctl,
    Prctl,
    ClockGettime,
    Gettimeofday,
    Time,
    Getcpu,
    SetTidAddress,
    SetRobustList,
    /// Answers with the list that the runtime keeps.
    GetRobustList,
    Close,
    CloseRange,
    /// dup2 and dup3: the target may be a descriptor that the runtime protects.
    DupTo,
    /// FD_CLOEXEC by fcntl or ioctl: a new image needs the descriptor that the runtime protects.
    DescriptorFlags,
    /// Calls by which programs ask whether a descriptor is open: one that the runtime has is not.
    AskDescriptor,
    /// getdents64: lists of descriptors in proc(5) show those that the runtime has.
    ListDirectory,
    /// write, writev and their kin: may reach the recorded standard output.
    Output,
    /// chroot and pivot_root: what the runtime reads may be out of reach afterwards.
    ChangeRoot,
    /// sendfile, splice, tee, copy_file_range: data moves inside the kernel.
    KernelCopy,
    /// recvmsg and recvmmsg: may install descriptors.
    Receive,
    Shmat,
    Shmdt,
    PkeyMprotect,
    Seccomp,
    Ptrace,
    PidfdGetfd,
    ProcessVm,
    /// setrlimit and prlimit64: how far the stack grows depends on its limit.
    SetRlimit,
    /// The futex commands with priority inheritance: the kernel sets bits of the
    /// word while the caller sleeps, and the owner that runs meanwhile sees them.
    FutexPi,
    /// Whose events send synchronous signals is refused.
    PerfEventOpen,
    /// unshare and setns: children may get other ids than the supervisor sees.
    Namespaces,
}

/// One argument.
#[derive(Debug)]
pub struct Arg {
    pub name: &'static str,
    pub ty: Ty,
    /// How `dump` prints the memory behind a pointer argument.
    pub shape: Shape,
}

/// What an argument is. An index of another argument counts from 0.
#[derive(Debug, Clone, Copy)]
pub enum Ty {
    /// Signed 32-bit number, printed in decimal.
    Int,
    /// Unsigned 32-bit number.
    Uint,
    /// Signed 64-bit number (offsets).
    Long,
    /// Unsigned 64-bit number (sizes), decimal.
    Size,
    /// Unsigned 64-bit number, hexadecimal.
    Hex,
    Fd,
    /// A directory descriptor or AT_FDCWD.
    DirFd,
    Pid,
    Id,
    Mode,
    Signal,
    Flags(&'static FlagSet),
    /// An address whose target the kernel neither reads as text nor writes.
    Address,
    /// A NUL-terminated path that the kernel reads.
    Path,
    /// A NUL-terminated string that is not a path.
    Text,
    /// A NULL-terminated array of strings (argv, envp).
    TextList,
    /// Memory that the kernel reads.
    In(Len),
    /// Memory of which the kernel writes every byte.
    Out(Len, When),
    /// Memory that the kernel reads and writes, or of which it may leave parts as
    /// they were (the padding of directory entries). As much of it as can be told
    /// before the call is input: a result counts as its upper bound then.
    InOut(Len, When),
    /// An array of `struct iovec` that the kernel reads from; its count is in the argument.
    IovIn(u8),
    /// An array of `struct iovec` that the kernel fills with as many bytes as it
    /// returns; its count is in the argument.
    IovOut(u8),
    /// `struct msghdr` to send.
    MsgIn,
    /// `struct msghdr` to fill: name, vectors, control data, lengths, flags.
    MsgOut,
    /// An array of `struct mmsghdr` to send (its `msg_len` fields are written);
    /// its count is in the argument.
    MmsgIn(u8),
    /// An array of `struct mmsghdr` to fill; its count is in the argument.
    MmsgOut(u8),
    /// A buffer whose length is the `socklen_t` that another argument points to:
    /// as much of it as the smaller of the length before and after the call, and
    /// the length itself is an argument of its own (`InOut(Fixed(4))`).
    OutSockLen(u8),
    /// An option's value: as [`Ty::OutSockLen`], but that the length afterwards may be less than
    /// what was written, or count something else than bytes: the length before counts.
    OptionOut(u8),
    /// `struct xattr_args` of getxattrat(2): an address, of which the kernel writes as many bytes as
    /// it returns, at most as many as the 32-bit number behind it says.
    XattrOut,
    /// `struct ifconf`: a 32-bit length and, at byte 8, the address of a buffer, of which
    /// the kernel writes as many bytes as the length says afterwards.
    IfConf,
}

/// How many bytes lie behind a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Len {
    Fixed(u32),
    /// The value of the argument.
    Arg(u8),
    /// The value of the argument plus a header.
    ArgPlus(u8, u32),
    /// The value of the argument times a size.
    ArgTimes(u8, u32),
    /// The call's result.
    Ret,
    /// The call's result plus a header.
    RetPlus(u32),
    /// The call's result times a size.
    RetTimes(u32),
    /// The smaller of the call's result and an argument (calls that return the
    /// full length of what they cut).
    RetOrArg(u8),
    /// The smaller of the result and an argument, each times a size.
    RetOrArgTimes(u8, u32),
    /// `select`: as many bytes as hold argument-many bits, rounded up to 8.
    BitsOfArg(u8),
    /// A node mask of the NUMA calls: as many bytes as hold one bit less than the
    /// argument says, rounded up to 8 (get_mempolicy(2), BUGS in mbind(2)).
    NodeMask(u8),
    /// `mincore`: a byte for each page of 4096 bytes that the argument begins.
    PagesOfArg(u8),
    /// The 32-bit number that an argument points to, times a size, read after the call.
    AtArg32(u8, u32),
    /// The 64-bit number that an argument points to, times a size, read after the call.
    AtArg64(u8, u32),
    /// A structure that begins with its own size as a 32-bit number.
    SelfSized32,
    /// A text with its NUL, of at most 255 bytes.
    Text,
    /// A header, followed by as many elements as the 32-bit number at an offset in
    /// the header says, read before the call.
    Counted {
        header: u32,
        at: u32,
        each: u32,
    },
}

/// When the kernel has written an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// The call did not fail.
    Success,
    /// The result is greater than zero.
    Positive,
    /// The call was interrupted (the remaining time of nanosleep).
    Interrupted,
    /// Also when the call failed, other than by EFAULT.
    Always,
}

/// How the memory behind a pointer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Not a pointer, or nothing to say.
    Plain,
    /// A string of bytes, quoted, cut when long.
    Bytes,
    I32,
    U32,
    U64,
    I32Pair,
    Timespec,
    Timeval,
    Itimerspec,
    Itimerval,
    Stat,
    Statx,
    Statfs,
    SockAddr,
    PollFds,
    EpollEvents,
    Sigset,
    Sigaction,
    Siginfo,
    WaitStatus,
    Rlimit,
    Winsize,
    Termios,
    Utsname,
    Dirents,
    Rusage,
    FdSet,
    /// A structure that nobody prints field by field.
    Opaque,
}

/// A table of requests of a call such as ioctl.
#[derive(Debug)]
pub struct VariantTable {
    pub name: &'static str,
    /// The argument that holds the request.
    pub selector: u8,
    /// The bits of that argument that select. The kernel takes every selector as
    /// 32 bits, whatever the upper half of the register holds.
    pub mask: u32,
    pub variants: &'static [Variant],
    /// What a request outside of the table is.
    pub fallback: Act,
}

impl PartialEq for VariantTable {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
impl Eq for VariantTable {}

/// One request.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    pub request: u64,
    pub name: &'static str,
    /// All arguments of the call, the selector included.
    pub args: &'static [Arg],
    pub act: Act,
    pub blocks: bool,
}

impl VariantTable {
    /// The entry for a value of the selecting argument. Tables are sorted by
    /// request (a test holds them to it).
    pub fn find(&self, selector: u64) -> Option<&'static Variant> {
        let request = u64::from(selector as u32 & self.mask);
        let variants: &'static [Variant] = self.variants;
        match variants.binary_search_by(|variant| variant.request.cmp(&request)) {
            Ok(index) => Some(&variants[index]),
            Err(_) => None,
        }
    }
}

impl Arg {
    /// An argument that is a number, or a pointer whose target is not printed.
    pub const fn new(name: &'static str, ty: Ty) -> Arg {
        Arg { name, ty, shape: Shape::Plain }
    }

    /// The same, with the way its target is printed.
    pub const fn shown(name: &'static str, ty: Ty, shape: Shape) -> Arg {
        Arg { name, ty, shape }
    }
}
