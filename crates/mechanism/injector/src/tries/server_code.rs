//! The code that a program's checkpoint runs: it forks a try for each input.
//!
//! It is copied into the program where that stands right before it reads an input, and lives there
//! without a stack: nothing of the program's memory is touched but a page of its own and the memory
//! that it shares with us. Deliberately absent: any decision; it writes inputs, forks, and tells ends.

use std::arch::global_asm;

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
    /// Registers of the program, in the order of [`super::REGISTERS`].
    pub const REGISTERS: usize = 0x100;
    /// For each try: place and length of its input, its wait status, nothing.
    pub const TRIES: usize = 0x1000;
    pub const INPUTS: usize = 0x10000;
}

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
20: xor ebx, ebx
    // The next try.
30: mov [r15 + 0x0c], ebx
    cmp ebx, [r15 + 0x08]
    jae 90f
    mov r14d, ebx
    shl r14, 4
    lea r14, [r15 + r14 + 0x1000]
    // ftruncate both outputs, which are appended to.
    mov edi, [r15 + 0x2c]
    xor esi, esi
    mov eax, 77
    syscall
    mov edi, [r15 + 0x30]
    xor esi, esi
    mov eax, 77
    syscall
    test dword ptr [r15 + 0x14], 2
    jnz 50f
    // ftruncate and pwrite64 of the input's file.
    mov edi, [r15 + 0x24]
    xor esi, esi
    mov eax, 77
    syscall
    xor r12d, r12d
40: mov edx, [r14 + 4]
    sub edx, r12d
    jz 42f
    mov edi, [r15 + 0x24]
    mov esi, [r14]
    add rsi, r15
    add rsi, r12
    mov r10, r12
    mov eax, 18
    syscall
    test rax, rax
    jle 42f
    add r12, rax
    jmp 40b
42: test dword ptr [r15 + 0x14], 8
    jz 60f
    mov edi, [r15 + 0x28]
    xor esi, esi
    xor edx, edx
    mov eax, 8
    syscall
    jmp 60f
    // pipe2, F_SETPIPE_SZ to a MiB, write, dup2, close both.
50: lea rdi, [r15 + 0x40]
    xor esi, esi
    mov eax, 293
    syscall
    mov edi, [r15 + 0x44]
    mov esi, 1031
    mov edx, 0x100000
    mov eax, 72
    cmp dword ptr [r14 + 4], 0x10000
    jbe 52f
    syscall
52: mov edi, [r15 + 0x44]
    mov esi, [r14]
    add rsi, r15
    mov edx, [r14 + 4]
    mov eax, 1
    syscall
    mov edi, [r15 + 0x40]
    mov esi, [r15 + 0x28]
    mov eax, 33
    syscall
    mov edi, [r15 + 0x40]
    mov eax, 3
    syscall
    mov edi, [r15 + 0x44]
    mov eax, 3
    syscall
    // clone(SIGCHLD, or with CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID).
60: mov r10, [r15 + 0x38]
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
    // The order is done: futex(DONE, FUTEX_WAKE).
90: mov [r15 + 0x0c], ebx
    mov eax, [r15 + 0x00]
    mov [r15 + 0x04], eax
    lea rdi, [r15 + 0x04]
    mov esi, 1
    mov edx, 1
    mov eax, 202
    syscall
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
120: mov r11, r15
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
retrovane_tries_end:
    .popsection
"#
);
