//! The barrier's instructions: restartable sequences that copy what was just stored.
//!
//! Each sequence reads the offset word and, unless the mirror is frozen, makes the second
//! store as its last instruction. The kernel restarts a sequence whose thread was
//! preempted, migrated or signalled in it (rseq(2)), and `membarrier` with the command
//! `PRIVATE_EXPEDITED_RSEQ` does so for all running threads: behind that call no thread is
//! between its look at the word and its second store.
//!
//! Compiled code copies most stores in place, without a sequence, in another order: the copy, then the mark
//! (docs/adr/0099-plain-stores-are-mirrored-in-place.md), as `copy_in_place` does. For the others it has sequences of its own, which the compiler pass makes alike
//! (crates/mirror/pass/barrier.cpp): one for each set of places in an object that are stored to
//! together. Their functions take the address in `rax` and change few registers, so that a
//! store costs the compiler no others.
//!
//! Invariant: a sequence has no effect but the dirty mark before its last store, so that
//! starting again is harmless. Deliberately absent: locks, calls, and branches on the
//! region's size.

use core::arch::naked_asm;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU64, AtomicUsize};

use crate::layout::PAGE_BITS;

/// What the barrier reads. One per process: it has one region at most.
#[repr(C, align(64))]
pub struct Control {
    /// Distance from a byte to its mirror; 0 while stores are not mirrored.
    pub offset: AtomicUsize,
    /// State in the lowest two bits ([`crate::protocol`]), above them the generation.
    pub state: AtomicU64,
    /// Where a thread's `rseq_cs` is, from its thread pointer.
    pub rseq_cs: AtomicUsize,
}

/// The one control block, whose fields compiled code knows by their offsets. The number in its name is raised with each change of
/// what compiled code and the library know of each other, so that neither is linked with an older or newer other one.
#[unsafe(export_name = "rv_mirror_pass_1_control")]
pub static CONTROL: Control =
    Control { offset: AtomicUsize::new(0), state: AtomicU64::new(0), rseq_cs: AtomicUsize::new(0) };

/// Offset of each field, for the assembly.
const OFFSET: usize = core::mem::offset_of!(Control, offset);
const STATE: usize = core::mem::offset_of!(Control, state);
const RSEQ: usize = core::mem::offset_of!(Control, rseq_cs);

/// One `struct rseq_cs` of the kernel's.
#[repr(C, align(32))]
pub struct Section {
    version: u32,
    flags: u32,
    /// First instruction of the sequence.
    pub start: usize,
    /// Bytes up to the instruction behind the last one.
    pub length: usize,
    /// Where a thread goes on that was in it.
    pub abort: usize,
}

/// The end of a sequence's function: its descriptor, and the way back to its beginning.
///
/// The signature before the abort handler is glibc's (sys/rseq.h, x86): an operand of `ud1`.
macro_rules! descriptor {
    () => {
        r#"
        .pushsection rv_mirror_sections, "aw"
        .balign 32
    91: .long 0, 0
        .quad 92b, 93b - 92b, 94f
        .popsection
        .pushsection .text.rv_mirror_aborts, "ax", @progbits
        .byte 0x0f, 0xb9, 0x3d
        .long 0x53053053
    94: jmp 90b
        .popsection
        "#
    };
}

/// The beginning of a sequence: tells the kernel of it.
macro_rules! enter {
    () => {
        "
    90: lea r10, [rip + 91f]
        mov r11, [rip + {control} + {rseq}]
        mov fs:[r11], r10
    92:
        "
    };
}

/// Marks the page of the address in a register, and changes `r10`.
macro_rules! mark {
    ($address:literal) => {
        concat!(
            "mov r10, ",
            $address,
            "
                shr r10, {page}
                cmp byte ptr [r10], 0
                jne 95f
                mov byte ptr [r10], 1
            95:
            "
        )
    };
}

/// Copies `rsi` bytes from `rdi` to `r11`, the first and last 16 of which are in `xmm0` and `xmm1`: those of fewer than 16 bytes, and
/// of more than [`SHORT_BYTES_MAX`].
macro_rules! copy_pieces {
    () => {
        "
        81: cmp esi, 8
            jb 83f
            mov rax, [rdi]
            mov rdx, [rdi + rsi - 8]
            mov [r11], rax
            mov [r11 + rsi - 8], rdx
            jmp 95f
        83: cmp esi, 4
            jb 84f
            mov eax, [rdi]
            mov edx, [rdi + rsi - 4]
            mov [r11], eax
            mov [r11 + rsi - 4], edx
            jmp 95f
        84: mov ecx, esi
            shr ecx, 1
            movzx eax, byte ptr [rdi]
            movzx edx, byte ptr [rdi + rsi - 1]
            movzx r8d, byte ptr [rdi + rcx]
            mov [r11], al
            mov [r11 + rsi - 1], dl
            mov [r11 + rcx], r8b
            jmp 95f
            // Whole pieces from the beginning, and one that ends where the bytes end.
        85: cmp rsi, {string}
            ja 87f
            movups xmm2, [rdi + rsi - 32]
            lea rcx, [rsi - 32]
            xor eax, eax
        86: movups xmm3, [rdi + rax]
            movups xmm4, [rdi + rax + 16]
            movups [r11 + rax], xmm3
            movups [r11 + rax + 16], xmm4
            add rax, 32
            cmp rax, rcx
            jb 86b
            movups [r11 + rsi - 32], xmm2
            movups [r11 + rsi - 16], xmm1
            jmp 95f
        87: mov r8, rdi
            mov rcx, rsi
            mov rsi, rdi
            mov rdi, r11
            mov rdx, rcx
            rep movsb
            mov rdi, r8
            mov rsi, rdx
        "
    };
}

/// Marks the pages of the bytes from `rdi` on, whose count is in this register, and returns: the end of a copy, at label 95.
macro_rules! mark_and_return {
    ($count:literal) => {
        concat!(
            "
        95: lea r10, [rdi + ",
            $count,
            " - 1]
            shr rdi, {page}
            shr r10, {page}
            cmp byte ptr [rdi], 0
            je 96f
            cmp byte ptr [r10], 0
            je 96f
        97: ret
        96: mov byte ptr [rdi], 1
            mov byte ptr [r10], 1
            ret
            "
        )
    };
}
pub(crate) use mark_and_return;

/// Bytes that are copied with as few branches as can be. A longer piece is in one page.
pub const SHORT_BYTES_MAX: usize = 64;

/// Copies bytes to their mirror, if it is not frozen, then marks their pages, as compiled code does with most stores:
/// docs/adr/0099-plain-stores-are-mirrored-in-place.md. It is no sequence.
///
/// # Safety
/// The bytes are in the region, at least one of them; more than [`SHORT_BYTES_MAX`] are in one page.
#[unsafe(naked)]
pub unsafe extern "C" fn copy_in_place(from: usize, count: usize) {
    naked_asm!(
        "
        mov r11, [rip + {control} + {offset}]
        test r11, r11
        jz 93f
    92: add r11, rdi
        cmp rsi, 16
        jb 81f
        movups xmm0, [rdi]
        movups xmm1, [rdi + rsi - 16]
        cmp rsi, 32
        jbe 82f
        cmp rsi, {short}
        ja 85f
        movups xmm2, [rdi + 16]
        movups xmm3, [rdi + rsi - 32]
        movups [r11 + 16], xmm2
        movups [r11 + rsi - 32], xmm3
    82: movups [r11], xmm0
        movups [r11 + rsi - 16], xmm1
        jmp 95f
        ",
        copy_pieces!(),
        mark_and_return!("rsi"),
        "
        // Frozen: marked, and looked at once more.
    93: lea r10, [rdi + rsi - 1]
        mov rax, rdi
        shr rax, {page}
        shr r10, {page}
        mov byte ptr [rax], 1
        mov byte ptr [r10], 1
        mov r11, [rip + {control} + {offset}]
        test r11, r11
        jnz 92b
        ret
        ",
        control = sym CONTROL,
        offset = const OFFSET,
        page = const PAGE_BITS,
        short = const SHORT_BYTES_MAX,
        string = const STRING_BYTES_MIN,
    )
}

/// From here on the processor's copying of strings is faster than a loop.
const STRING_BYTES_MIN: usize = 512;

/// What a compare-exchange found.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Exchanged {
    /// The value that was there.
    pub found: u64,
    /// Not 0: nothing was done, since a freeze is under way.
    pub held: u64,
}

/// A compare-exchange that is made before the freeze is complete, or not at all.
macro_rules! exchange {
    ($name:ident, $exchange:literal, $extend:literal) => {
        /// # Safety
        /// The address is aligned and in the region.
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name(address: usize, expected: u64, new: u64) -> Exchanged {
            naked_asm!(
                enter!(),
                mark!("rdi"),
                "
                mov ecx, [rip + {control} + {state}]
                and ecx, 3
                cmp ecx, {hold}
                je 96f
                mov rax, rsi
                ",
                $exchange,
                "93:",
                $extend,
                "
                xor edx, edx
                ret
            96: mov edx, 1
                ret
                ",
                descriptor!(),
                control = sym CONTROL,
                rseq = const RSEQ,
                page = const PAGE_BITS,
                state = const STATE,
                hold = const crate::protocol::HOLD,
            )
        }
    };
}

exchange!(exchange1, "lock cmpxchg [rdi], dl", "movzx eax, al");
exchange!(exchange2, "lock cmpxchg [rdi], dx", "movzx eax, ax");
exchange!(exchange4, "lock cmpxchg [rdi], edx", "mov eax, eax");
exchange!(exchange8, "lock cmpxchg [rdi], rdx", "");

/// Marks the page of a value and copies it to its mirror, if the state is still the expected one.
/// The mark of the operation before may have been taken, and its checkpoint be over.
macro_rules! copy_if {
    ($name:ident, $load:literal, $store:literal) => {
        /// # Safety
        /// The value and its mirror are aligned and mapped.
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name(from: usize, to: usize, state: u64) {
            naked_asm!(
                enter!(),
                mark!("rdi"),
                $load,
                "
                cmp rdx, [rip + {control} + {state}]
                jne 93f
                ",
                $store,
                "93: ret",
                descriptor!(),
                control = sym CONTROL,
                rseq = const RSEQ,
                page = const PAGE_BITS,
                state = const STATE,
            )
        }
    };
}

copy_if!(copy_if1, "mov r10b, [rdi]", "mov [rsi], r10b");
copy_if!(copy_if2, "mov r10w, [rdi]", "mov [rsi], r10w");
copy_if!(copy_if4, "mov r10d, [rdi]", "mov [rsi], r10d");
copy_if!(copy_if8, "mov r10, [rdi]", "mov [rsi], r10");

/// Clears the offset word if the state is still the expected one.
///
/// # Safety
/// Stores are no longer mirrored in that state.
#[unsafe(naked)]
pub unsafe extern "C" fn clear_offset_if(state: u64) {
    naked_asm!(
        enter!(),
        "
        cmp rdi, [rip + {control} + {state}]
        jne 93f
        mov qword ptr [rip + {control} + {offset}], 0
    93: ret
        ",
        descriptor!(),
        control = sym CONTROL,
        rseq = const RSEQ,
        offset = const OFFSET,
        state = const STATE,
    )
}

/// Where this thread goes on instead of at an address, if that is in the sequence that it entered last.
///
/// The kernel looks the same way. Compiled code has sequences of its own, in any library, so
/// that no table has them all.
pub fn restart_of(at: usize) -> Option<usize> {
    let entered: *const Section;
    // SAFETY: `rseq_place` found the field, which each thread has.
    unsafe {
        core::arch::asm!("mov {0}, fs:[{1}]", out(reg) entered, in(reg) CONTROL.rseq_cs.load(Relaxed),
            options(nostack, preserves_flags, readonly));
    }
    // SAFETY: null, or a descriptor, which is constant and stays as long as its code is loaded.
    let entered = unsafe { entered.as_ref() }?;
    (at.wrapping_sub(entered.start) < entered.length).then_some(entered.abort)
}

/// Where a thread's `rseq_cs` is, from its thread pointer, in a C library that has one.
///
/// The symbol is glibc's from 2.35 on, weak here; the area exists also where the kernel
/// refused to register it.
#[unsafe(naked)]
extern "C" fn rseq_offset_address() -> *const isize {
    naked_asm!(".weak __rseq_offset", "mov rax, [rip + __rseq_offset@GOTPCREL]", "ret")
}

/// As [`rseq_offset_address`], of the size: 0 where the kernel does not know the area.
#[unsafe(naked)]
extern "C" fn rseq_size_address() -> *const u32 {
    naked_asm!(".weak __rseq_size", "mov rax, [rip + __rseq_size@GOTPCREL]", "ret")
}

/// The place of `rseq_cs` from the thread pointer, and whether the kernel looks at it.
/// `None` where the C library keeps no such area.
pub fn rseq_place() -> Option<(usize, bool)> {
    let (offset, size) = (rseq_offset_address(), rseq_size_address());
    if offset.is_null() || size.is_null() {
        return None;
    }
    // SAFETY: both are variables of the C library, constant after its beginning.
    let (offset, size) = unsafe { (*offset, *size) };
    Some(((offset + RSEQ_CS_OFFSET) as usize, size != 0))
}

/// Offset of `rseq_cs` in `struct rseq`.
const RSEQ_CS_OFFSET: isize = 8;
