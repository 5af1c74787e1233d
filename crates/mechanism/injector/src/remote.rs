//! A standing process's memory, and system calls that its first thread makes for us.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use lane_protocol::{BOARDING_START, REGION_BYTES, REGION_START};

use crate::error::Refusal;
use crate::process::PidFd;
use crate::tracee::Held;

/// The memory of a process that this one traces, also where the process may not write.
pub(crate) struct ProcessMemory(File);

impl ProcessMemory {
    pub fn open(pid: i32) -> io::Result<ProcessMemory> {
        File::options().read(true).write(true).open(format!("/proc/{pid}/mem")).map(ProcessMemory)
    }

    pub fn read(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(bytes, address)
    }

    pub fn read_word(&self, address: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, address)
    }
}

/// The thread that makes calls.
pub(crate) struct Remote<'a> {
    thread: &'a Held,
    /// Where there is a `syscall` instruction.
    syscall_at: u64,
    memory: ProcessMemory,
}

/// What was mapped and opened in the process so far.
pub(crate) struct Places<'a> {
    remote: &'a Remote<'a>,
    mapped: Vec<(u64, u64)>,
    descriptors: Vec<i32>,
}

/// In the reserved memory: where the message is put together.
mod message {
    pub const HEADER: u64 = 0x100;
    pub const VECTOR: u64 = 0x180;
    pub const BYTE: u64 = 0x1c0;
    pub const CONTROL: u64 = 0x200;
    /// Bytes of a control message with one descriptor, and of its place.
    pub const CONTROL_BYTES: u64 = 20;
    pub const CONTROL_PLACE: u64 = 24;
}

impl<'a> Remote<'a> {
    pub fn new(thread: &'a Held, syscall_at: u64) -> io::Result<Remote<'a>> {
        const ALL: u64 = !0;
        thread.set_mask(ALL)?;
        Ok(Remote { thread, syscall_at, memory: ProcessMemory::open(thread.tid())? })
    }

    pub fn memory(&self) -> &ProcessMemory {
        &self.memory
    }

    /// Makes a system call; gives its result.
    pub fn ask(&self, number: i64, arguments: [u64; 6]) -> io::Result<u64> {
        let mut registers = self.thread.found;
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        (registers.rdi, registers.rsi, registers.rdx) = (rdi, rsi, rdx);
        (registers.r10, registers.r8, registers.r9) = (r10, r8, r9);
        registers.rax = number as u64;
        registers.orig_rax = u64::MAX;
        registers.rip = self.syscall_at;
        self.thread.set_registers(&registers)?;
        let result = self.thread.step()?.rax as i64;
        match result {
            -4095..=-1 => Err(io::Error::from_raw_os_error(-result as i32)),
            _ => Ok(result as u64),
        }
    }

    /// Takes the runtime's region, and maps memory for a table in it.
    pub fn reserve(&'a self, table_bytes: u64) -> Result<Places<'a>, Refusal> {
        let new = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
        let whole = [REGION_START, REGION_BYTES, 0, new | libc::MAP_NORESERVE as u64, u64::MAX, 0];
        self.ask(libc::SYS_mmap, whole).map_err(Refusal::NoRoom)?;
        let _ = self.ask(libc::SYS_munmap, [REGION_START, REGION_BYTES, 0, 0, 0, 0]);
        let writable = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        self.ask(libc::SYS_mmap, [BOARDING_START, table_bytes, writable, new, u64::MAX, 0])
            .map_err(Refusal::NoRoom)?;
        Ok(Places { remote: self, mapped: vec![(BOARDING_START, table_bytes)], descriptors: Vec::new() })
    }
}

impl Places<'_> {
    /// Gives the process a descriptor of ours, over a socket that is taken from it; its
    /// number there is the highest that is free below `descriptors_max`.
    pub fn pass_descriptor(&mut self, ours: BorrowedFd, descriptors_max: u64) -> Result<i32, Refusal> {
        let remote = self.remote;
        let kind = (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC) as u64;
        let pair = [libc::AF_UNIX as u64, kind, 0, BOARDING_START, 0, 0];
        remote.ask(libc::SYS_socketpair, pair).map_err(Refusal::NoDescriptor)?;
        let ends = remote.memory.read_word(BOARDING_START).map_err(Refusal::Memory)?;
        let (one, other) = (ends & 0xffff_ffff, ends >> 32);
        let received = self.send(ours, one as i32).and_then(|()| self.receive(other));
        for end in [one, other] {
            let _ = remote.ask(libc::SYS_close, [end, 0, 0, 0, 0, 0]);
        }
        let received = received.map_err(Refusal::NoDescriptor)?;
        let wanted = self.free_number(descriptors_max);
        let moved = remote.ask(libc::SYS_fcntl, [received, libc::F_DUPFD as u64, wanted, 0, 0, 0]);
        let _ = remote.ask(libc::SYS_close, [received, 0, 0, 0, 0, 0]);
        let moved = moved.map_err(Refusal::NoDescriptor)? as i32;
        self.descriptors.push(moved);
        Ok(moved)
    }

    fn send(&self, ours: BorrowedFd, end: i32) -> io::Result<()> {
        let process =
            PidFd::open(self.remote.thread.tid()).ok_or_else(|| crate::boarding::other("it has ended"))?;
        let socket = process.descriptor(end)?;
        crate::process::send_descriptor(socket.as_fd(), ours)
    }

    fn receive(&self, end: u64) -> io::Result<u64> {
        let at = |offset: u64| BOARDING_START + offset;
        let memory = &self.remote.memory;
        let put = |offset: u64, words: &[u64]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            memory.write(at(offset), &bytes)
        };
        put(message::VECTOR, &[at(message::BYTE), 1])?;
        let header = [0, 0, at(message::VECTOR), 1, at(message::CONTROL), message::CONTROL_PLACE, 0];
        put(message::HEADER, &header)?;
        self.remote.ask(libc::SYS_recvmsg, [end, at(message::HEADER), libc::MSG_DONTWAIT as u64, 0, 0, 0])?;
        if memory.read_word(at(message::CONTROL))? != message::CONTROL_BYTES {
            return Err(crate::boarding::other("a descriptor did not arrive (its limit may be reached)"));
        }
        Ok(memory.read_word(at(message::CONTROL) + 16)? & 0xffff_ffff)
    }

    /// As at the start of a program: high, and free.
    fn free_number(&self, descriptors_max: u64) -> u64 {
        let highest = descriptors_max.clamp(4, 1024);
        let wanted = if highest > 48 { highest - 24 } else { highest - 1 };
        let pid = self.remote.thread.tid();
        let is_free = |fd: &u64| std::fs::symlink_metadata(format!("/proc/{pid}/fd/{fd}")).is_err();
        (3..=wanted).rev().find(is_free).unwrap_or(wanted)
    }

    /// Maps code of the descriptor's file.
    pub fn map(&mut self, start: u64, bytes: u64, fd: i32, offset: u64) -> Result<(), Refusal> {
        let protection = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        let flags = (libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE) as u64;
        let call = [start, bytes, protection, flags, fd as u64, offset];
        self.remote.ask(libc::SYS_mmap, call).map_err(Refusal::NoRoom)?;
        self.mapped.push((start, bytes));
        Ok(())
    }

    /// The process is as it was.
    pub fn give_back(self) {
        for (start, bytes) in self.mapped {
            let _ = self.remote.ask(libc::SYS_munmap, [start, bytes, 0, 0, 0, 0]);
        }
        for fd in self.descriptors {
            let _ = self.remote.ask(libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0]);
        }
    }
}
