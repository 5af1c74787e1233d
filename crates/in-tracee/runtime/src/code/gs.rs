//! gs, by which the runtime finds a thread's block, and which programs may use as well.
//!
//! They set its base by arch_prctl(2), or by an instruction that asks nobody (`wrgsbase`), as
//! Firefox does to reach the memory of libraries that it keeps in sandboxes. From the first call
//! or the first file with such an instruction on, gs is *shared*: whoever leaves the runtime has
//! the program's base, and whoever comes finds its block by [`Shared::running`], as one thread of
//! an address space runs the program's code at a time. A handler knows the block by its stack.
//!
//! Invariant: code of the runtime has its own base, but for the instructions next to its
//! entries and exits. Deliberately absent: noticing an instruction in code that no file holds
//! before a handler comes across what it did; processors on which only a call sets the base.

use core::arch::{asm, global_asm};
use core::mem::offset_of;

use crate::code::clocks::is_ours_at;
use crate::ground::assembly::{rv_breakpoint, rv_instruction, rv_site};
use crate::ground::memory::in_region;
use crate::ground::owned::{Held, Owned};
use crate::ground::registers::{pop_preserved, pop_volatile};
use crate::state::block::{
    THREAD_LEAVING, THREAD_PROGRAMS_GS, THREAD_TARGET, Thread, session, thread, thread_at,
};
use crate::state::stacks::owner_of_signal_stack;

type Entry = unsafe extern "C" fn();

/// What the entries and exits have where gs tells them nothing.
#[repr(C)]
pub struct Shared {
    /// Where entries go on.
    ways: [Entry; 3],
    is_shared: u64,
    /// Block of the thread that runs the program's code.
    running: u64,
    /// The program's r11 on the way from a trampoline.
    kept_r11: u64,
    kept_rax: u64,
    found: u64,
    target: u64,
}

pub static GS: Owned<Shared> = Owned::new(Shared {
    ways: [rv_site, rv_instruction, rv_breakpoint],
    is_shared: 0,
    running: 0,
    kept_r11: 0,
    kept_rax: 0,
    found: 0,
    target: 0,
});

pub const WAY_SITE: usize = offset_of!(Shared, ways);
pub const WAY_INSTRUCTION: usize = WAY_SITE + 8;
pub const WAY_BREAKPOINT: usize = WAY_SITE + 16;
pub const IS_SHARED: usize = offset_of!(Shared, is_shared);
pub const KEPT_R11: usize = offset_of!(Shared, kept_r11);

global_asm!(
    // The program's base is kept, and the thread has its block; nothing else changes.
    ".macro rv_take_gs",
    "mov [rip + {gs} + {kept_rax}], rax",
    "rdgsbase rax",
    "mov [rip + {gs} + {found}], rax",
    "mov rax, [rip + {gs} + {running}]",
    "wrgsbase rax",
    "mov rax, [rip + {gs} + {found}]",
    "mov gs:[{programs_gs}], rax",
    "mov rax, [rip + {gs} + {kept_rax}]",
    ".endm",
    "rv_site_sharing:",
    "rv_take_gs",
    "jmp rv_site",
    "rv_instruction_sharing:",
    "rv_take_gs",
    "jmp rv_instruction",
    "rv_breakpoint_sharing:",
    "rv_take_gs",
    "jmp rv_breakpoint",

    // As rv_leave_exactly, with the program's base. Behind the change of gs there is no way
    // to memory of the thread but its stack pointer, so iretq takes the rest from there.
    ".global rv_leave_sharing",
    "rv_leave_sharing:",
    "mov rbx, gs:[0]",
    "mov rax, [rsp + 120]",
    "mov gs:[{thread_target}], rax",
    "mov [rip + {gs} + {running}], rbx",
    "test dword ptr [rsp + 128], 0x100",
    "jnz 2f",
    "lea rdi, [rbx + {leaving}]",
    "mov rsi, rsp",
    "mov ecx, 15",
    "rep movsq",
    "mov [rdi], rax",
    "mov qword ptr [rdi + 8], 0x33",
    "mov rax, [rsi + 8]",
    "mov [rdi + 16], rax",
    "mov rax, [rsi + 16]",
    "mov [rdi + 24], rax",
    "mov qword ptr [rdi + 32], 0x2b",
    "lea rsp, [rbx + {leaving}]",
    // iretq faults where the flags say that a task is nested.
    "push 2",
    "popfq",
    "mov rax, gs:[{programs_gs}]",
    "wrgsbase rax",
    pop_preserved!(),
    "pop r11",
    pop_volatile!(),
    "iretq",
    // A single step is seen where it arrives, as without sharing; only one thread makes them.
    "2:",
    "mov [rip + {gs} + {target}], rax",
    "mov rax, gs:[{programs_gs}]",
    "push qword ptr [rsp + 128]",
    "wrgsbase rax",
    "popfq",
    pop_preserved!(),
    "pop r11",
    pop_volatile!(),
    "mov rsp, [rsp + 16]",
    "jmp qword ptr [rip + {gs} + {target}]",
    gs = sym GS,
    kept_rax = const offset_of!(Shared, kept_rax),
    found = const offset_of!(Shared, found),
    running = const offset_of!(Shared, running),
    target = const offset_of!(Shared, target),
    programs_gs = const THREAD_PROGRAMS_GS,
    thread_target = const THREAD_TARGET,
    leaving = const THREAD_LEAVING,
);

unsafe extern "C" {
    fn rv_site_sharing();
    fn rv_instruction_sharing();
    fn rv_breakpoint_sharing();
}

fn shared() -> Held<Shared> {
    GS.hold()
}

/// True where the processor's instructions for the base may be used.
pub fn can_be_shared() -> bool {
    session().reads_gs_base != 0
}

pub fn is_shared() -> bool {
    shared().is_shared != 0
}

/// The program uses gs, or may come to.
pub fn share() {
    if can_be_shared() {
        let own = &mut *shared();
        own.ways = [rv_site_sharing, rv_instruction_sharing, rv_breakpoint_sharing];
        own.is_shared = 1;
    }
}

/// The running thread of the program has this base from now on.
pub fn set(base: u64) {
    share();
    thread().programs_gs = base;
}

/// What a handler found.
pub struct Found {
    base: u64,
    /// The runtime's code was interrupted.
    pub is_inside: bool,
}

/// A handler of ours begins, on the signal stack at hand, having interrupted this place: the
/// thread has its block.
pub fn take(rip: u64) -> Found {
    if !can_be_shared() {
        return Found { base: 0, is_inside: false };
    }
    let (base, at): (u64, u64);
    // SAFETY: both only read registers; the kernel lets programs use the instruction.
    unsafe {
        asm!("rdgsbase {}", "mov {}, rsp", out(reg) base, out(reg) at,
            options(nostack, nomem, preserves_flags));
    }
    let is_ours = in_region(base, 1);
    if is_ours && !is_shared() {
        return Found { base, is_inside: false };
    }
    let block = &mut *thread_at(owner_of_signal_stack(at));
    if !is_ours {
        write_base(block.own_address);
    }
    let is_inside = is_ours_at(rip);
    if is_shared() && is_inside {
        return Found { base, is_inside };
    }
    // Else an instruction set it in code that nobody looked through, perhaps just before an entry.
    share();
    block.programs_gs = base;
    Found { base: block.own_address, is_inside }
}

impl Found {
    /// The handler ends, and leads to this place.
    pub fn give_back(&self, rip: u64) {
        if !is_shared() {
            return;
        }
        if !is_ours_at(rip) {
            let block: &Thread = &thread();
            shared().running = block.own_address;
            write_base(block.programs_gs);
        } else if self.is_inside {
            write_base(self.base);
        }
    }
}

fn write_base(base: u64) {
    // SAFETY: whoever calls this is done with the base before, or has its block now.
    unsafe { asm!("wrgsbase {}", in(reg) base, options(nostack, preserves_flags)) };
}

/// Code that keeps r11 on the way from a trampoline to an entry, by no other register's leave:
/// xchg rax, r11; mov [kept], rax; xchg rax, r11.
pub fn keep_r11() -> [u8; 14] {
    let [a, b, c, d, e, f, g, h] = (GS.get() as u64 + KEPT_R11 as u64).to_le_bytes();
    [0x49, 0x93, 0x48, 0xa3, a, b, c, d, e, f, g, h, 0x49, 0x93]
}
