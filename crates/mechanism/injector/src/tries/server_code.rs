//! The code that a program's checkpoint runs: it forks a try for each input.
//!
//! It is copied into the program where that stands right before it reads an input, and lives there
//! without a stack: nothing of the program's memory is touched but pages of its own and the memory
//! that it shares with us. Deliberately absent: any decision; it writes inputs, forks, and tells ends.
//! Where it may, it forks once, and that copy makes try after try (`resident_code.rs`).

use std::arch::global_asm;

use super::resident_code::{SAVED_PAGES_MAX, empty_outputs, give_input, order_done, resident};

/// Places in the shared memory.
pub(super) mod place {
    /// Orders given, and orders done: futexes.
    pub const GO: usize = 0x00;
    pub const DONE: usize = 0x04;
    /// How many tries an order has, and how many of them are over.
    pub const COUNT: usize = 0x08;
    pub const RAN: usize = 0x0c;
    /// The wait status that ends an order early, with [`super::STOP_AT_MATCH`].
    pub const EXPECTED: usize = 0x10;
    pub const FLAGS: usize = 0x14;
    /// The try that runs.
    pub const PID: usize = 0x18;
    /// With [`super::HOLD`]: the try has begun, and waits until the second word is 0.
    pub const ARRIVED: usize = 0x1c;
    pub const HELD: usize = 0x20;
    /// Descriptors: of the input's file, of the program's standard input, of both outputs.
    pub const INPUT_FD: usize = 0x24;
    pub const STDIN_FD: usize = 0x28;
    pub const OUT_FD: usize = 0x2c;
    pub const ERR_FD: usize = 0x30;
    /// Where libc keeps the thread's id, or 0.
    pub const THREAD_ID: usize = 0x38;
    /// 1 while a copy may stay and make try after try.
    pub const MAY_STAY: usize = 0x60;
    /// How the copy that stays ended, and whether it ended by itself in the middle of an order.
    pub const STAYED: usize = 0x64;
    pub const LEFT: usize = 0x68;
    /// Why it left: the number of a call, or [`NO_CALL`].
    pub const WHY: usize = 0x6c;
    /// How many rows there are at [`RANGES`], and at [`PAGES`].
    pub const RANGES_COUNT: usize = 0x70;
    pub const PAGES_COUNT: usize = 0x74;
    /// The end of the heap.
    pub const BRK: usize = 0x78;
    /// Of the present try: rows at [`MAPPED`]; whether it wrote, changed the heap, or the signal mask; sets of
    /// descriptors that it opened, and that it closed.
    pub const MAPPED_COUNT: usize = 0x80;
    pub const WROTE: usize = 0x84;
    pub const GREW: usize = 0x88;
    pub const MASKED: usize = 0x8c;
    pub const OPENED: usize = 0x90;
    pub const CLOSED: usize = 0x98;
    /// The lowest page of the stack.
    pub const STACK_LOW: usize = 0xa0;
    /// Pages that the kernel writes to as it likes: 0, or an address.
    pub const KERNELS: usize = 0xa8;
    pub const SIGNAL_MASK: usize = 0xb8;
    /// Arguments of calls that the copy makes.
    pub const SCRATCH: usize = 0xc0;
    /// Registers of the program, in the order of [`super::REGISTERS`].
    pub const REGISTERS: usize = 0x100;
    /// For each try: place and length of its input, its wait status, nothing.
    pub const TRIES: usize = 0x1000;
    pub const INPUTS: usize = 0x10000;
    /// The end of inputs. Behind it what the copy that stays knows of memory: writable ranges (begin, end,
    /// rights, nothing), mappings of the present try (address, bytes), pages that were written, and what they held.
    pub const INPUTS_END: usize = 0xf80_0000;
    pub const RANGES: usize = INPUTS_END;
    pub const MAPPED: usize = INPUTS_END + 0x4000;
    pub const PAGES: usize = INPUTS_END + 0x5000;
    pub const SAVED: usize = INPUTS_END + 0x10000;
    pub const ALL_BYTES: usize = 0x1000_0000;
}

/// In the pages of the code: where paths are written, room for vector registers, and a stack.
pub(super) const PATHS_AT: u64 = 0x1000;
pub(super) const VECTORS_AT: u64 = 0x2000;
pub(super) const STACK_AT: u64 = 0x5000;
pub(super) const STACK_BYTES: u64 = 0x10000;
pub(super) const CODE_BYTES: u64 = STACK_AT + STACK_BYTES;
/// Rows for memory.
pub(super) const RANGES_MAX: usize = 512;
pub(super) const MAPPED_MAX: usize = 256;
pub(super) const NO_CALL: u32 = u32::MAX;
const _: () = assert!(place::SAVED + SAVED_PAGES_MAX * 4096 <= place::ALL_BYTES);

/// An order ends with the first try that ends as expected.
pub(super) const STOP_AT_MATCH: u32 = 1;
/// Standard input is a new pipe for each try, instead of a file.
pub(super) const PIPE: u32 = 2;
/// The try waits for a tracer.
pub(super) const HOLD: u32 = 4;
/// The descriptor of standard input goes back to the file's beginning.
pub(super) const REWIND: u32 = 8;
/// Most tries of an order.
pub(super) const TRIES_MAX: usize = (place::INPUTS - place::TRIES) / 16;

/// What stands at [`place::REGISTERS`].
pub(super) fn registers(of: &libc::user_regs_struct, call: u64) -> [u64; 15] {
    [
        call,
        of.rbx,
        of.rdx,
        of.rsi,
        of.rdi,
        of.rbp,
        of.rsp,
        of.r8,
        of.r9,
        of.r10,
        of.r12,
        of.r13,
        of.r14,
        of.r15,
        of.rip - 2,
    ]
}

unsafe extern "C" {
    static retrovane_tries_begin: u8;
    static retrovane_tries_end: u8;
}

/// The code. It is entered at its beginning, with the shared memory's address in r15.
pub(super) fn code() -> &'static [u8] {
    // SAFETY: both symbols are of the block below, the second behind the first; code is not changed.
    unsafe {
        let begin = &raw const retrovane_tries_begin;
        let bytes = (&raw const retrovane_tries_end).offset_from_unsigned(begin);
        std::slice::from_raw_parts(begin, bytes)
    }
}

/// Makes a copy of the process: its id, or an error, in eax, and the flags of that.
macro_rules! make_copy {
    () => {
        r#"
    // clone(SIGCHLD, or with CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID).
    mov r10, [r15 + 0x38]
    mov edi, 17
    mov eax, 0x1200011
    test r10, r10
    cmovnz edi, eax
    xor esi, esi
    xor edx, edx
    xor r8d, r8d
    mov eax, 56
    syscall
    test eax, eax
"#
    };
}

global_asm!(
    r#"
    .pushsection .rodata.retrovane_tries, "a", @progbits
    .globl retrovane_tries_begin
    .globl retrovane_tries_end
retrovane_tries_begin:
    // Waits for an order: futex(GO, FUTEX_WAIT, DONE).
10: mov edx, [r15 + 0x04]
    cmp edx, [r15 + 0x00]
    jne 20f
    mov eax, 202
    mov rdi, r15
    xor esi, esi
    xor r10d, r10d
    syscall
    jmp 10b
20: mov ebx, [r15 + 0x0c]
    // The next try.
30: mov [r15 + 0x0c], ebx
    cmp ebx, [r15 + 0x08]
    jae 90f
    test dword ptr [r15 + 0x14], 4
    jnz 34f
    cmp dword ptr [r15 + {MAY_STAY}], 0
    je 34f
    // A copy that stays, and its end: clone and wait4.
"#,
    make_copy!(),
    r#"
    jz .Lretrovane_stay
    js 34f
    mov r13d, eax
    mov [r15 + 0x18], eax
32: mov edi, r13d
    lea rsi, [r15 + {STAYED}]
    xor edx, edx
    xor r10d, r10d
    mov eax, 61
    syscall
    cmp eax, -4
    je 32b
    mov edx, [r15 + 0x04]
    cmp edx, [r15 + 0x00]
    je 10b
    // It left, or it died of a try.
    mov ebx, [r15 + 0x0c]
    cmp dword ptr [r15 + {LEFT}], 0
    jne 34f
    mov r14d, ebx
    shl r14, 4
    lea r14, [r15 + r14 + 0x1000]
    mov eax, [r15 + {STAYED}]
    mov [r14 + 8], eax
    jmp 82f
34: mov dword ptr [r15 + {LEFT}], 0
    mov r14d, ebx
    shl r14, 4
    lea r14, [r15 + r14 + 0x1000]
"#,
    empty_outputs!(),
    give_input!(),
    make_copy!(),
    r#"
    jz 100f
    js 80f
    mov r13d, eax
    mov [r15 + 0x18], eax
    // wait4
70: mov edi, r13d
    lea rsi, [r14 + 8]
    xor edx, edx
    xor r10d, r10d
    mov eax, 61
    syscall
    cmp eax, r13d
    je 82f
    cmp eax, -4
    je 70b
80: mov dword ptr [r14 + 8], 0xffffffff
82: mov eax, [r14 + 8]
    and eax, 0xff7f
    inc ebx
    cmp eax, [r15 + 0x10]
    jne 30b
    test dword ptr [r15 + 0x14], 1
    jz 30b
90: mov [r15 + 0x0c], ebx
"#,
    order_done!(),
    r#"
    jmp 10b
    // The try.
100: test dword ptr [r15 + 0x14], 4
    jz 120f
    mov eax, 39
    syscall
    mov [r15 + 0x18], eax
    mov dword ptr [r15 + 0x1c], 1
    lea rdi, [r15 + 0x1c]
    mov esi, 1
    mov edx, 1
    mov eax, 202
    syscall
110: mov edx, [r15 + 0x20]
    test edx, edx
    jz 120f
    lea rdi, [r15 + 0x20]
    xor esi, esi
    xor r10d, r10d
    mov eax, 202
    syscall
    jmp 110b
    // The program's registers; rcx and r11 are lost in a system call anyway.
120:
.Lretrovane_enter:
    mov r11, r15
    mov rax, [r11 + 0x100]
    mov rbx, [r11 + 0x108]
    mov rdx, [r11 + 0x110]
    mov rsi, [r11 + 0x118]
    mov rdi, [r11 + 0x120]
    mov rbp, [r11 + 0x128]
    mov rsp, [r11 + 0x130]
    mov r8,  [r11 + 0x138]
    mov r9,  [r11 + 0x140]
    mov r10, [r11 + 0x148]
    mov r12, [r11 + 0x150]
    mov r13, [r11 + 0x158]
    mov r14, [r11 + 0x160]
    mov r15, [r11 + 0x168]
    mov rcx, [r11 + 0x170]
    jmp rcx
"#,
    resident!(),
    r#"
retrovane_tries_end:
    .popsection
"#,
    MAY_STAY = const place::MAY_STAY,
    STAYED = const place::STAYED,
    LEFT = const place::LEFT,
    WHY = const place::WHY,
    RANGES_COUNT = const place::RANGES_COUNT,
    PAGES_COUNT = const place::PAGES_COUNT,
    BRK = const place::BRK,
    MAPPED_COUNT = const place::MAPPED_COUNT,
    WROTE = const place::WROTE,
    GREW = const place::GREW,
    MASKED = const place::MASKED,
    OPENED = const place::OPENED,
    CLOSED = const place::CLOSED,
    STACK_LOW = const place::STACK_LOW,
    KERNELS = const place::KERNELS,
    SIGNAL_MASK = const place::SIGNAL_MASK,
    SCRATCH = const place::SCRATCH,
    RANGES = const place::RANGES,
    MAPPED = const place::MAPPED,
    PAGES = const place::PAGES,
    SAVED = const place::SAVED,
    NO_CALL = const NO_CALL,
    MAPPED_MAX = const MAPPED_MAX,
    PAGES_MAX = const SAVED_PAGES_MAX,
    VECTORS_AT = const VECTORS_AT,
    STACK_AT = const STACK_AT,
    STACK_BYTES = const STACK_BYTES,
    CODE_BYTES = const CODE_BYTES,
);
