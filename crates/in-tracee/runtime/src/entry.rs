//! Where control enters and leaves the runtime.
//!
//! A system call of the program arrives at `rv_entry_site`, either from the
//! island of a rewritten site or from the SIGSYS handler, which merely points
//! the program there. Conventions on arrival: rcx is the address behind the
//! call's instruction (what the kernel would leave in rcx), r11 the address to
//! go on at (the same, or the relocated neighbours in the island); all other
//! registers are the program's, and so is the stack, which is not touched.

use core::arch::global_asm;

use crate::code::gs;
use crate::state::block::{THREAD_PENDING, THREAD_STACK_TOP, THREAD_TARGET, THREAD_USER_STACK};

/// Takes the registers that calls preserve from the stack.
macro_rules! pop_preserved {
    () => {
        "pop r15\npop r14\npop r13\npop r12\npop rbp\npop rbx"
    };
}

/// The rest of [`Registers`], behind r11.
macro_rules! pop_volatile {
    () => {
        "pop r9\npop r8\npop r10\npop rdx\npop rsi\npop rdi\npop rcx\npop rax"
    };
}

pub(crate) use {pop_preserved, pop_volatile};

/// The program's general registers, as the entry code lays them out on the
/// runtime's stack.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Registers {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r9: u64,
    pub r8: u64,
    pub r10: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rcx: u64,
    pub rax: u64,
    /// Where the program goes on.
    pub rip: u64,
    pub flags: u64,
    pub rsp: u64,
}

const _: () = assert!(size_of::<Registers>() == 144);

impl Registers {
    /// The six arguments of a system call.
    #[inline]
    pub fn args(&self) -> [u64; 6] {
        [self.rdi, self.rsi, self.rdx, self.r10, self.r8, self.r9]
    }
}

/// What the entry code does when the runtime is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Leave {
    /// Behind a system call: rcx and r11 as the kernel leaves them.
    Call = 0,
    /// Every register as in [`Registers`].
    Exactly = 1,
    /// Not yet: the entry code makes the call, and goes on with `direct_calls::on_made`.
    Make = 2,
}

global_asm!(
    // The program's flags are on the stack. Of those that it may set, two change what our own code
    // means: copies go upwards, and memory may be accessed at any address (AC, EFLAGS.18). The trap
    // flag goes with the handler of its first step; NT and ID change nothing here.
    ".macro rv_clear_flags",
    "cld",
    "test byte ptr [rsp + 2], 4",
    "jz 77f",
    "push 2",
    "popfq",
    "77:",
    ".endm",
    // The program's registers on the thread's own stack, as `Registers` has them: up to
    // r9; what goes on the stack for r11 comes between; the rest, and rdi points to all.
    ".macro rv_push_volatile",
    "mov gs:[{user_stack}], rsp",
    "mov rsp, gs:[{stack_top}]",
    "push qword ptr gs:[{user_stack}]",
    "pushfq",
    "rv_clear_flags",
    "push r11",
    "push rax",
    "push rcx",
    "push rdi",
    "push rsi",
    "push rdx",
    "push r10",
    "push r8",
    "push r9",
    ".endm",
    ".macro rv_push_preserved",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov rdi, rsp",
    ".endm",

    ".section .text.rv_start, \"ax\"",
    ".global rv_start_record",
    "rv_start_record:",
    "xor r14d, r14d",
    "jmp rv_begin",
    ".balign 16",
    "mov r14d, 1",
    "jmp rv_begin",
    ".balign 16",
    "mov r14d, 2",
    "jmp rv_begin",
    ".balign 16",
    "jmp rv_board",
    ".balign 16",
    "jmp rv_entry_site",
    ".balign 16",
    "mov r14d, 3",
    "jmp rv_begin",
    ".text",
    // No stack yet: map the variables, then take the first thread's stack.
    "rv_begin:",
    "mov r15, rsp",
    "lea rdi, [rip + rv_data_start]",
    "lea rsi, [rip + rv_bss_start]",
    "sub rsi, rdi",
    "mov eax, 9",
    "mov edx, 3",
    "mov r10d, 0x12",
    "mov r8, r13",
    "mov r9d, {file_data}",
    "syscall",
    "lea rdi, [rip + rv_bss_start]",
    "lea rsi, [rip + rv_bss_end]",
    "sub rsi, rdi",
    "mov eax, 9",
    "mov edx, 3",
    "mov r10d, 0x32",
    "mov r8, -1",
    "xor r9d, r9d",
    "syscall",
    "lea rsp, [rip + {home} + {first_stack_top}]",
    "mov rdi, r12",
    "mov rsi, r13",
    "mov rdx, r15",
    "mov ecx, r14d",
    "xor ebp, ebp",
    "call {birth}",
    "ud2",

    // Another thread of a process that ran already: its block is prepared by the first.
    // r12: its entry in the table of threads.
    "rv_board:",
    "mov rdi, {boarding}",
    "cmp dword ptr [rdi], 0",
    "jne 2f",
    "xor esi, esi",
    "xor edx, edx",
    "xor r10d, r10d",
    "mov eax, 202",
    "syscall",
    "jmp rv_board",
    "2:",
    "mov edi, 0x1001",
    "mov rsi, [r12]",
    "mov eax, 158",
    "syscall",
    "mov rsp, [r12 + 8]",
    "mov rdi, r12",
    "xor ebp, ebp",
    "call {board}",
    "ud2",

    ".balign 64",
    ".global rv_entry_site",
    "rv_entry_site:",
    "jmp qword ptr [rip + {gs} + {way_site}]",
    // From here on gs is the runtime's.
    ".global rv_site",
    "rv_site:",
    "rv_push_volatile",
    "push r11",
    "rv_push_preserved",
    "call {on_call}",
    "test eax, eax",
    "jnz 3f",
    // Behind a call: rcx is the return address, r11 the flags.
    "4:",
    "mov r11, [rsp + 128]",
    "mov rax, [rsp + 120]",
    "test r11d, 0x40500",
    "jnz 2f",
    "cmp dword ptr [rip + {gs} + {is_shared}], 0",
    "jne 2f",
    "mov gs:[{target}], rax",
    // The arithmetic flags without popf: overflow by an addition, the rest by sahf.
    "mov eax, r11d",
    "mov edx, r11d",
    "shr eax, 11",
    "and eax, 1",
    "mov ah, dl",
    "add al, 0x7f",
    "sahf",
    pop_preserved!(),
    "lea rsp, [rsp + 8]",
    pop_volatile!(),
    "mov rsp, [rsp + 16]",
    "jmp qword ptr gs:[{target}]",
    // The program's call, made here: see `direct_calls`.
    "3:",
    "cmp eax, {make}",
    "jne rv_leave_exactly",
    "rv_direct:",
    "mov r9, [rsp + 56]",
    "mov r8, [rsp + 64]",
    "mov r10, [rsp + 72]",
    "mov rdx, [rsp + 80]",
    "mov rsi, [rsp + 88]",
    "mov rdi, [rsp + 96]",
    "mov eax, [rsp + 112]",
    "mov gs:[{call_number}], rax",
    ".global rv_direct_window",
    "rv_direct_window:",
    "cmp dword ptr gs:[{pending}], 0",
    "jne rv_direct_aborted",
    ".global rv_direct_instruction",
    "rv_direct_instruction:",
    "syscall",
    "5:",
    "mov rdi, rsp",
    "mov rsi, rax",
    "call {on_made}",
    "test eax, eax",
    "jz 4b",
    "jmp rv_leave_exactly",
    ".global rv_direct_aborted",
    "rv_direct_aborted:",
    "mov rax, {aborted}",
    "jmp 5b",
    "2:",
    "mov [rsp + 48], r11",
    ".global rv_leave_exactly",
    "rv_leave_exactly:",
    "cmp dword ptr [rip + {gs} + {is_shared}], 0",
    "jne rv_leave_sharing",
    "mov rax, [rsp + 120]",
    "mov gs:[{target}], rax",
    "push qword ptr [rsp + 128]",
    "popfq",
    pop_preserved!(),
    "pop r11",
    pop_volatile!(),
    "mov rsp, [rsp + 16]",
    "jmp qword ptr gs:[{target}]",

    // An instruction with a result from outside, from its island: r11 holds its
    // address, the program's r11 is kept; all else is the program's.
    ".balign 64",
    ".global rv_entry_instruction",
    "rv_entry_instruction:",
    "jmp qword ptr [rip + {gs} + {way_instruction}]",
    ".global rv_instruction",
    "rv_instruction:",
    "rv_push_volatile",
    "push qword ptr [rip + {gs} + {kept_r11}]",
    "rv_push_preserved",
    "call {on_instruction}",
    "jmp rv_leave_exactly",

    // A breakpoint that goes on by itself, from its stub: r11 holds its address, the
    // program's r11 is kept; all else is the program's.
    ".balign 64",
    ".global rv_entry_breakpoint",
    "rv_entry_breakpoint:",
    "jmp qword ptr [rip + {gs} + {way_breakpoint}]",
    ".global rv_breakpoint",
    "rv_breakpoint:",
    "rv_push_volatile",
    "push qword ptr [rip + {gs} + {kept_r11}]",
    "rv_push_preserved",
    "call {on_breakpoint}",
    "jmp rv_leave_exactly",

    // Goes on in the program with all registers as given.
    ".global rv_resume",
    "rv_resume:",
    "mov rsp, rdi",
    "jmp rv_leave_exactly",

    // Makes the call that the registers given are of, and goes on in the program.
    ".global rv_make",
    "rv_make:",
    "mov rsp, rdi",
    "jmp rv_direct",

    // A synchronous fault of the program: its registers are in the thread's block.
    ".global rv_entry_fault",
    "rv_entry_fault:",
    "mov rsp, gs:[{stack_top}]",
    "push 2",
    "popfq",
    "call {on_fault}",
    "ud2",

    // One call on the program's behalf. It is not begun once a signal is pending;
    // the signal handler moves us from the window to the abort label.
    // rdi: number, rsi: six arguments. Result in rax.
    ".global rv_call",
    "rv_call:",
    "mov rax, rdi",
    "mov r11, rsi",
    "mov rdi, [r11]",
    "mov rsi, [r11 + 8]",
    "mov rdx, [r11 + 16]",
    "mov r10, [r11 + 24]",
    "mov r8, [r11 + 32]",
    "mov r9, [r11 + 40]",
    "mov gs:[{call_number}], rax",
    ".global rv_call_window",
    "rv_call_window:",
    "cmp dword ptr gs:[{pending}], 0",
    "jne rv_call_aborted",
    ".global rv_call_instruction",
    "rv_call_instruction:",
    "syscall",
    "ret",
    ".global rv_call_aborted",
    "rv_call_aborted:",
    "mov rax, {aborted}",
    "ret",

    // clone for a child that shares our memory: it must not touch this stack.
    // rdi: five arguments and the call's number, rsi: the child's thread block.
    ".global rv_clone_shared",
    "rv_clone_shared:",
    "push rbx",
    "mov rbx, rsi",
    "mov r11, rdi",
    "mov rdi, [r11]",
    "mov rsi, [r11 + 8]",
    "mov rdx, [r11 + 16]",
    "mov r10, [r11 + 24]",
    "mov r8, [r11 + 32]",
    "xor r9d, r9d",
    "mov eax, [r11 + 40]",
    "syscall",
    "test rax, rax",
    "jz 3f",
    "pop rbx",
    "ret",
    "3:",
    "mov rdi, rbx",
    "mov rsp, [rbx + {stack_top}]",
    "xor ebp, ebp",
    "call qword ptr [rbx + {start}]",
    "ud2",

    // Copies memory that may not be there. rdi: to, rsi: from, rdx: bytes.
    ".global rv_probe_copy",
    // Returns 0, or 1 if a part is not mapped: a fault anywhere in here lands at
    // the end.
    "rv_probe_copy:",
    "cmp rdx, 128",
    "ja 6f",
    "4:",
    "sub rdx, 8",
    "jb 5f",
    "mov rax, [rsi]",
    "mov [rdi], rax",
    "add rsi, 8",
    "add rdi, 8",
    "jmp 4b",
    "5:",
    "add rdx, 8",
    "jz 7f",
    "8:",
    "mov al, [rsi]",
    "mov [rdi], al",
    "inc rsi",
    "inc rdi",
    "dec rdx",
    "jnz 8b",
    "7:",
    "xor eax, eax",
    "ret",
    "6:",
    "mov rcx, rdx",
    "rep movsb",
    "xor eax, eax",
    "ret",
    ".global rv_probe_landing",
    "rv_probe_landing:",
    "mov eax, 1",
    "ret",

    // Under the debugger: a boundary's trap. rdi: the program's registers.
    ".global rv_agent_stop",
    "rv_agent_stop:",
    "int3",
    ".global rv_agent_trap",
    "rv_agent_trap:",
    "ud2",

    // Where the process dies of a signal that it sent to itself: the handler sends it on to
    // where the program is.
    ".global rv_end",
    "rv_end:",
    "ud2",

    // Under the debugger: the program goes on in copies; its registers are in the
    // thread's block.
    ".global rv_entry_translate",
    "rv_entry_translate:",
    "mov rsp, gs:[{stack_top}]",
    "push 2",
    "popfq",
    "call {translate}",
    "ud2",

    // The only real handler. The kernel clears the direction and the trap flag before it; the
    // alignment check stays (handle_signal of arch/x86/kernel/signal.c), and goes here.
    ".global rv_entry_signal",
    "rv_entry_signal:",
    "pushfq",
    "rv_clear_flags",
    "add rsp, 8",
    "jmp {on_signal}",

    // Where the kernel's own signal frames return.
    ".global rv_restorer",
    "rv_restorer:",
    "mov eax, 15",
    "syscall",
    file_data = const lane_protocol::FILE_DATA,
    home = sym crate::state::block::HOME,
    first_stack_top = const crate::state::block::FIRST_STACK_TOP,
    birth = sym crate::process::birth::begin,
    boarding = const lane_protocol::BOARDING_START,
    board = sym crate::process::boarding::board,
    on_call = sym crate::syscalls::dispatch::on_call,
    on_made = sym crate::syscalls::direct_calls::on_made,
    make = const Leave::Make as u32,
    on_instruction = sym crate::syscalls::instructions::on_instruction,
    on_breakpoint = sym crate::debugger::displaced::on_breakpoint,
    gs = sym gs::GS,
    way_site = const gs::WAY_SITE,
    way_instruction = const gs::WAY_INSTRUCTION,
    way_breakpoint = const gs::WAY_BREAKPOINT,
    is_shared = const gs::IS_SHARED,
    kept_r11 = const gs::KEPT_R11,
    on_fault = sym crate::signals::on_fault,
    on_signal = sym crate::signals::on_signal,
    translate = sym crate::debugger::translate::run,
    start = const crate::state::block::THREAD_START,
    call_number = const crate::state::block::THREAD_CALL_NUMBER,
    user_stack = const THREAD_USER_STACK,
    stack_top = const THREAD_STACK_TOP,
    target = const THREAD_TARGET,
    pending = const THREAD_PENDING,
    aborted = const crate::ground::kernel::ABORTED,
);

unsafe extern "C" {
    pub fn rv_entry_site();
    pub fn rv_site();
    pub fn rv_instruction();
    pub fn rv_breakpoint();
    pub fn rv_entry_instruction();
    pub fn rv_entry_breakpoint();
    pub fn rv_entry_fault();
    pub fn rv_entry_signal();
    pub fn rv_resume(registers: *const Registers) -> !;
    pub fn rv_make(registers: *mut Registers) -> !;
    pub fn rv_call(nr: u64, args: *const [u64; 6]) -> i64;
    pub fn rv_call_window();
    pub fn rv_call_instruction();
    pub fn rv_call_aborted();
    pub fn rv_direct_window();
    pub fn rv_direct_instruction();
    pub fn rv_direct_aborted();
    pub fn rv_clone_shared(args: *const [u64; 6], child: *mut core::ffi::c_void) -> i64;
    pub fn rv_probe_copy(to: u64, from: u64, bytes: u64) -> u64;
    pub fn rv_probe_landing();
    pub fn rv_agent_stop(registers: *const Registers) -> !;
    pub fn rv_agent_trap();
    pub fn rv_end() -> !;
    pub fn rv_entry_translate();
    pub fn rv_restorer();
}

/// True where the entry code has just called ours, and keeps the program's flags.
pub fn is_behind_entry(rip: u64) -> bool {
    let called = [
        crate::syscalls::dispatch::on_call as *const () as u64,
        crate::syscalls::instructions::on_instruction as *const () as u64,
        crate::debugger::displaced::on_breakpoint as *const () as u64,
    ];
    called.contains(&rip)
}
