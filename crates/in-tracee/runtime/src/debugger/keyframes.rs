//! Images of a replaying process: keyframes.
//!
//! A process that stands still is read from outside, as it is: all of its memory, the
//! runtime's own too. A new process maps and fills the same memory, and its only thread
//! goes on where the one stood that ran; from there on it is a copy of the process like
//! others (`copies`).
//!
//! Invariant: the same runtime reads an image that was in memory when it was made. Who
//! starts the process sees to that.
//!
//! Deliberately absent: writing an image. Nothing in the process has to know how.

use core::arch::global_asm;
use core::sync::atomic::Ordering;

use lane_protocol::{
    IMAGE_FD_BELOW, ImageHead, ImageMapping, ImageObject, ImageRun, LOADER_BYTES, LOADER_STACK_BYTES,
    LOADER_START, image_flags, image_source,
};
use linux_abi::general as nr;

use crate::debugger::{agent_state, copies, displaced, translate, watchpoints};
use crate::ground::kernel;
use crate::ground::owned::Owned;
use crate::ground::registers::pop_preserved;
use crate::log::kept_files;
use crate::signals;
use crate::state::block::{process, thread};

/// What a new process is told of itself, in the memory that it took up.
struct New {
    segment: u64,
    control_fd: i32,
}

static NEW: Owned<New> = Owned::new(New { segment: 0, control_fd: 0 });

/// The image cannot be taken up: the one who asked learns of the end.
const CANNOT: i32 = 3;

global_asm!(
    // rdi: a futex word to count up, rsi: one to wait for, edx: what that holds, rcx:
    // where it is told on which stack. Returns 0; 1 in a new process.
    ".global rv_stand",
    "rv_stand:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov [rcx], rsp",
    "mov r12, rsi",
    "mov r13d, edx",
    "lock inc dword ptr [rdi]",
    "mov esi, 1",
    "mov edx, 0x7fffffff",
    "mov eax, 202",
    "syscall",
    "2:",
    "cmp [r12], r13d",
    "jne 3f",
    "mov rdi, r12",
    "xor esi, esi",
    "mov edx, r13d",
    "xor r10d, r10d",
    "mov eax, 202",
    "syscall",
    "jmp 2b",
    "3:",
    "xor eax, eax",
    "4:",
    pop_preserved!(),
    "ret",
    // rdi: where the stack of the thread ended that stood above. Does not return.
    ".global rv_stand_again",
    "rv_stand_again:",
    "mov rsp, rdi",
    "mov eax, 1",
    "jmp 4b",
    // rdi: another stack, to go on there with the two arguments behind it.
    ".global rv_load_image",
    "rv_load_image:",
    "mov rsp, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "xor ebp, ebp",
    "call {load_on}",
    "ud2",
    load_on = sym load_on,
);

unsafe extern "C" {
    fn rv_stand(counted: u64, awaited: u64, seen: u32, told: *mut u64) -> u32;
    fn rv_stand_again(stack: u64) -> !;
    fn rv_load_image(stack: u64, segment: u64, control_fd: u64) -> !;
}

// --- standing ---

/// The calling thread, which runs the program and stands still, waits for the next command
/// with nothing on its way. True in a new process that was made of the image.
pub fn stand() -> bool {
    // In no other process is there anything of these.
    watchpoints::forget();
    displaced::forget();
    copies::note_standing();
    let mailbox = &mut *agent_state::mailbox();
    let seen = mailbox.asked.load(Ordering::Relaxed);
    mailbox.standing[0] = thread().own_address;
    let (counted, awaited) = (mailbox.stopped.as_ptr() as u64, mailbox.asked.as_ptr() as u64);
    // SAFETY: it returns as any function does, in a new process too.
    let is_new = unsafe { rv_stand(counted, awaited, seen, &raw mut mailbox.standing[1]) } != 0;
    if is_new {
        take_over();
    }
    is_new
}

fn take_over() {
    // SAFETY: one thread is there; it was written before this one went on.
    let new = unsafe { &*NEW.get() };
    kernel::munmap(LOADER_START, LOADER_BYTES);
    kernel::call(nr::__NR_close, [(new.control_fd - IMAGE_FD_BELOW) as u64, 0, 0, 0, 0, 0]);
    process().control_fd = new.control_fd;
    translate::lose_memory();
    copies::begin_from_image(new.segment as u32);
}

// --- taking up ---

/// A new process, which has nothing of the program's yet, takes up the image whose
/// descriptor it was given.
pub fn load() -> ! {
    signals::block_all();
    let control_fd = process().control_fd;
    let image = control_fd - IMAGE_FD_BELOW;
    let mut head = ImageHead::default();
    let room = &raw mut head as u64;
    let bytes = size_of::<ImageHead>() as u64;
    let read = kernel::call(nr::__NR_pread64, [image as u64, room, bytes, 0, 0, 0]);
    let tables = kernel::mmap(
        LOADER_START,
        head.tables_bytes,
        nr::PROT_READ,
        nr::MAP_PRIVATE | nr::MAP_FIXED,
        image,
        head.tables,
    );
    let stack = LOADER_START + LOADER_BYTES - LOADER_STACK_BYTES;
    let anonymous = nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_FIXED;
    let mapped = kernel::mmap(stack, LOADER_STACK_BYTES, 3, anonymous, -1, 0);
    if read as u64 != bytes || kernel::failed(tables) || kernel::failed(mapped) {
        kernel::exit_group(CANNOT);
    }
    // Below the top the head, for the other side.
    let top = stack + LOADER_STACK_BYTES - 256;
    // SAFETY: the stack was just mapped, and nobody else has it.
    unsafe {
        (top as *mut ImageHead).write(head);
        rv_load_image(top, process().segment, control_fd as u64)
    }
}

/// The same on a stack that stays: all other memory of the runtime's goes on the way,
/// thread and process blocks among it.
unsafe extern "C" fn load_on(segment: u64, control_fd: u64) -> ! {
    let image = control_fd as i32 - IMAGE_FD_BELOW;
    let top = LOADER_START + LOADER_BYTES - 256;
    // SAFETY: `load` put it there.
    let head = unsafe { *(top as *const ImageHead) };
    let mappings = LOADER_START as *const ImageMapping;
    // SAFETY: one table stands behind the other; the one who started us has checked
    // that they are as long.
    let (mappings, objects, runs) = unsafe {
        let objects = mappings.add(head.mappings as usize).cast::<ImageObject>();
        let runs = objects.add(head.objects as usize).cast::<ImageRun>();
        let mappings = core::slice::from_raw_parts(mappings, head.mappings as usize);
        let objects = core::slice::from_raw_parts(objects, head.objects as usize);
        (mappings, objects, core::slice::from_raw_parts(runs, head.runs as usize))
    };
    for (index, object) in objects.iter().enumerate() {
        make_object(object, index, runs, image);
    }
    // What needs the runtime's variables comes first.
    for mapping in mappings.iter().filter(|mapping| mapping.source == image_source::FILE) {
        let fd = kept_files::open(mapping.number);
        map(mapping, fd);
        kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
    }
    for mapping in mappings.iter().filter(|mapping| mapping.source != image_source::FILE) {
        let object = objects.get(mapping.number as usize).map_or(-1, |object| object.fd as i32);
        map(mapping, if mapping.source == image_source::OBJECT { object } else { -1 });
    }
    for run in runs.iter().filter(|run| run.object == 0) {
        let mut done = 0;
        while done < run.bytes {
            let place = [image as u64, run.address + done, run.bytes - done, run.place + done, 0, 0];
            let read = kernel::call(nr::__NR_pread64, place);
            if read <= 0 {
                kernel::exit_group(CANNOT);
            }
            done += read as u64;
        }
    }
    for mapping in mappings.iter().filter(|mapping| mapping.protection & nr::PROT_WRITE == 0) {
        kernel::mprotect(mapping.start, mapping.end - mapping.start, mapping.protection);
    }
    // SAFETY: the runtime's variables are those of the image by now.
    unsafe {
        *NEW.get() = New { segment, control_fd: control_fd as i32 };
        const ARCH_SET_GS: u64 = 0x1001;
        kernel::call(nr::__NR_arch_prctl, [ARCH_SET_GS, head.block, 0, 0, 0, 0]);
        rv_stand_again(head.stack)
    }
}

/// Maps it so that it can be filled.
fn map(mapping: &ImageMapping, fd: i32) {
    let is_shared = mapping.flags & image_flags::SHARED != 0;
    let mut flags = nr::MAP_FIXED | nr::MAP_NORESERVE;
    flags |= if is_shared { nr::MAP_SHARED } else { nr::MAP_PRIVATE };
    if mapping.flags & image_flags::GROWS_DOWN != 0 {
        flags |= nr::MAP_GROWSDOWN | nr::MAP_STACK;
    }
    if mapping.source == image_source::ZEROS {
        flags |= nr::MAP_ANONYMOUS;
    }
    let bytes = mapping.end - mapping.start;
    let protection = mapping.protection | nr::PROT_READ | nr::PROT_WRITE;
    let mapped = kernel::mmap(mapping.start, bytes, protection, flags, fd, mapping.offset);
    if mapped as u64 != mapping.start {
        kernel::exit_group(CANNOT);
    }
}

/// Makes what stands for memory that mappings share, at its descriptor.
fn make_object(object: &ImageObject, index: usize, runs: &[ImageRun], image: i32) {
    const MFD_CLOEXEC: u64 = 1;
    const SEEK_SET: u64 = 0;
    let name = c"retrovane".as_ptr() as u64;
    let mut fd = kernel::call(nr::__NR_memfd_create, [name, MFD_CLOEXEC, 0, 0, 0, 0]);
    if !kernel::failed(fd) && fd as u64 != object.fd {
        let made = kernel::call(nr::__NR_dup3, [fd as u64, object.fd, u64::from(nr::O_CLOEXEC), 0, 0, 0]);
        kernel::call(nr::__NR_close, [fd as u64, 0, 0, 0, 0, 0]);
        fd = made;
    }
    if kernel::failed(fd) {
        kernel::exit_group(CANNOT);
    }
    kernel::call(nr::__NR_ftruncate, [fd as u64, object.bytes, 0, 0, 0, 0]);
    for run in runs.iter().filter(|run| run.object == index as u64 + 1) {
        kernel::call(nr::__NR_lseek, [fd as u64, run.address, SEEK_SET, 0, 0, 0]);
        let (mut place, end) = (run.place, run.place + run.bytes);
        while place < end {
            let from = [fd as u64, image as u64, &raw mut place as u64, end - place, 0, 0];
            if kernel::call(nr::__NR_sendfile, from) <= 0 {
                kernel::exit_group(CANNOT);
            }
        }
    }
}
