//! The barrier's other half: what compiled code calls where it finds that stores are to be saved.
//!
//! Invariant: it may be interrupted anywhere by a signal handler that stores, too. Deliberately absent: calls, but for what a
//! thread lacks.

use core::arch::{asm, naked_asm};
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::layout::{BLOCK_BITS, PAGE_BITS};
use crate::log::{
    ACTIVE, BASE, ENTRY_BYTES, Log, NUMBERS, OWNERS, SHARED, SIZE, TAG_SHIFT, TOUCHED, UNDONE, WITHIN,
    active, prepare,
};

/// 1: the processor has xsave, and the kernel knows it.
static HAS_XSAVE: AtomicU8 = AtomicU8::new(0);

/// Looks what the processor has.
pub fn prepare_process() {
    // SAFETY: the processor is asked what it has.
    let leaf = core::arch::x86_64::__cpuid(1);
    HAS_XSAVE.store(u8::from(leaf.ecx >> 27 & 1 == 1), SeqCst);
}

/// Which bytes of the word of an address are among so many: their number in `eax`, as bits in `esi`; the word's address in `rdi`.
macro_rules! bytes_of_word {
    () => {
        "
        mov rdi, r10
        and rdi, -8
        // All bytes of an aligned word: nothing to count.
        cmp r11, 8
        jb 21f
        cmp rdi, r10
        jne 21f
        mov esi, 0xff
        mov eax, 8
        jmp 22f
    21: mov ecx, r10d
        and ecx, 7
        mov eax, 8
        sub eax, ecx
        cmp r11, rax
        cmovb rax, r11
        xchg eax, ecx
        mov esi, 1
        shl esi, cl
        dec esi
        xchg eax, ecx
        shl esi, cl
    22:
        "
    };
}

/// The usual case with as few instructions as can be: an aligned word, in a block of which the thread is the owner, and room in its log.
/// All others begin again, and so do those that lack something.
macro_rules! whole_word {
    () => {
        "
        cmp r11, 8
        jne 40f
        test r10b, 7
        jnz 40f
        push rax
        mov rax, r10
        sub rax, [rip + {base}]
        cmp rax, [rip + {size}]
        jae 42f
        push rcx
        push rdx
        mov rcx, [rip + {active}@GOTPCREL]
        mov r11, [rip + rv_mirror_thread_log@gottpoff]
        mov rcx, [rcx]
        mov r11, fs:[r11]
        test rcx, rcx
        jz 41f
        test r11, r11
        jz 43f
        cmp rcx, [r11 + {crowded}]
        je 43f
        mov rdx, [r10]
        push rsi
        mov rsi, rax
        shr rsi, {block}
        shl rsi, 2
        add rsi, [rip + {owners}]
        mov esi, [rsi]
        cmp esi, [r11 + {id}]
        jne 44f
        mov esi, {entry}
        xadd [r11], rsi
        test esi, {within}
        jz 44f
        shl rax, 5
        lea rax, [rax + rcx + 0xff]
        mov [rsi + 8], rdx
        mov [rsi], rax
        pop rsi
    41: pop rdx
        pop rcx
    42: pop rax
        ret
    44: pop rsi
    43: pop rdx
        pop rcx
        pop rax
        mov r11d, 8
        "
    };
}

/// The head of an entry, in `rsi`: the tag in `rdx`, the number of the word at `rdi`, and its bytes, which `rsi` has.
macro_rules! entry_head {
    () => {
        "
        or rsi, rdx
        mov rax, rdi
        sub rax, [rip + {base}]
        shl rax, 5
        or rsi, rax
        "
    };
}

/// The thread's log, in `r8`.
macro_rules! thread_log {
    () => {
        "
        mov r8, [rip + rv_mirror_thread_log@gottpoff]
        mov r8, fs:[r8]
        test r8, r8
        jz 26f
        "
    };
}

/// Behind a word: those that follow it in the block, whole ones, without looking again at what is the same for all. `rsi` has the head of the one before.
macro_rules! run_of_words {
    () => {
        "
        pop rax
        lea r10, [rdi + 8]
        sub r11, rax
        jbe 36f
        test r9, r9
        jnz 35f
        cmp sil, 0xff
        jne 35f
    37: cmp r11, 8
        jb 35f
        test r10d, {block_mask}
        jz 35f
        mov rax, r10
        sub rax, [rip + {base}]
        cmp rax, [rip + {size}]
        jae 35f
        add rsi, 0x100
        mov rcx, [r10]
        cmp rdx, [r8 + {crowded}]
        je 38f
    39: shr rax, {block}
        mov r9, [rip + {owners}]
        mov r9d, [r9 + rax * 4]
        cmp r9d, [r8 + {id}]
        mov r9d, 0
        jne 35f
        mov eax, {entry}
        xadd [r8], rax
        test eax, {within}
        jz 35f
        mov [rax + 8], rcx
        mov [rax], rsi
    34: add r10, 8
        sub r11, 8
        jnz 37b
    36: pop r9
        pop r8
        jmp 28f
    35: pop r9
        pop r8
        jmp 20b
        // As at 27.
    38: mov r9, rax
        shr r9, {page}
        add r9, [rip + {touched}]
        cmp byte ptr [r9], 0
        mov r9d, 0
        je 39b
        mov r9, rax
        shr r9, 3
        add r9, [rip + {undone}]
        cmp byte ptr [r9], 0xff
        mov r9d, 0
        jne 39b
        jmp 34b
        "
    };
}

/// What is seldom: several threads' entries, which have numbers; and much that was saved.
macro_rules! seldom {
    () => {
        "
        // Not the owner.
    24: shr rdx, {tag}
        or edx, {shared}
        cmp r9d, edx
        jne 26f
        mov r9d, 1
        lock xadd [rip + {numbers}], r9
        jmp 23b
    25: mov [rax + 16], r9
        jmp 30b
        // This thread has saved much: what is in the mirror already is not saved again.
    27: mov rax, rdi
        sub rax, [rip + {base}]
        mov r9, rax
        shr r9, {page}
        add r9, [rip + {touched}]
        cmp byte ptr [r9], 0
        je 31b
        shr rax, 3
        mov r9, [rip + {undone}]
        movzx r9d, byte ptr [r9 + rax]
        not r9d
        test esi, r9d
        jz 32b
        jmp 31b
        // A log, an owner or a chunk is needed: then the word is begun again.
    26: pop rax
        mov rax, rdi
        call {prepare}
        pop r9
        pop r8
        jmp 20b
        "
    };
}

/// Saves what will be stored to: `r11` bytes from the address in `r10` on, as far as they are in the region. It changes `r10`, `r11` and
/// the flags, and nothing else, so that compiled code calls it with few registers lost.
///
/// The order of each word's steps: the tag, the old value, the owner, the entry. What is loaded before the owner is
/// looked at was there before another thread could become one of several.
///
/// # Safety
/// The bytes are mapped. It is called by assembly only, below which there is no red zone.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn rv_mirror_save() {
    naked_asm!(
        whole_word!(),
        "
        // Any bytes.
    40: push rax; push rcx; push rdx; push rsi; push rdi
    20: mov rax, r10
        sub rax, [rip + {base}]
        cmp rax, [rip + {size}]
        jae 28f
        mov rdx, [rip + {active}@GOTPCREL]
        mov rdx, [rdx]
        test rdx, rdx
        jz 28f
        ",
        bytes_of_word!(),
        "
        mov rcx, [rdi]
        push r8; push r9; push rax
        ",
        thread_log!(),
        "
        cmp rdx, [r8 + {crowded}]
        je 27f
    31: mov rax, rdi
        sub rax, [rip + {base}]
        shr rax, {block}
        mov r9, [rip + {owners}]
        mov r9d, [r9 + rax * 4]
        ",
        entry_head!(),
        "
        cmp r9d, [r8 + {id}]
        jne 24f
        xor r9d, r9d
    23: mov eax, {entry}
        xadd [r8], rax
        test eax, {within}
        jz 26f
        mov [rax + 8], rcx
        test r9, r9
        jnz 25f
    30: mov [rax], rsi
        ",
        run_of_words!(),
        "
    32: pop rax; pop r9; pop r8
        lea r10, [rdi + 8]
        sub r11, rax
        ja 20b
    28: pop rdi
        pop rsi
        pop rdx
        pop rcx; pop rax
        ret
        ",
        seldom!(),
        active = sym ACTIVE,
        owners = sym OWNERS,
        numbers = sym NUMBERS,
        prepare = sym prepare_saved,
        base = sym BASE,
        size = sym SIZE,
        undone = sym UNDONE, touched = sym TOUCHED, page = const PAGE_BITS,
        crowded = const core::mem::offset_of!(Log, crowded),
        block = const BLOCK_BITS,
        block_mask = const (1 << BLOCK_BITS) - 1,
        id = const core::mem::offset_of!(Log, id),
        entry = const ENTRY_BYTES,
        within = const WITHIN,
        tag = const TAG_SHIFT,
        shared = const SHARED,
    )
}

/// Calls [`prepare`] with the address in `rax`; changes no register but that.
#[unsafe(naked)]
unsafe extern "C" fn prepare_saved() {
    naked_asm!(
        "
        push rbp
        mov rbp, rsp
        push rbx
        push rcx
        push rdx
        push rsi
        push rdi
        push r8
        push r9
        push r10
        push r11
        pushfq
        cld
        mov rdi, rax
        // The registers that a function may change and that it may make wider: as xsave keeps them.
        sub rsp, {area}
        and rsp, -64
        mov rbx, rsp
        cmp byte ptr [rip + {has_xsave}], 0
        jz 41f
        xor eax, eax
        mov ecx, 8
    40: mov [rbx + rcx * 8 + 504], rax
        dec ecx
        jnz 40b
        mov eax, {parts}
        xor edx, edx
        xsave [rbx]
        call {prepare}
        mov eax, {parts}
        xor edx, edx
        xrstor [rbx]
        jmp 42f
    41: fxsave [rbx]
        call {prepare}
        fxrstor [rbx]
    42: lea rsp, [rbp - 80]
        popfq
        pop r11
        pop r10
        pop r9
        pop r8
        pop rdi
        pop rsi
        pop rdx
        pop rcx
        pop rbx
        pop rbp
        ret
        ",
        prepare = sym prepare,
        has_xsave = sym HAS_XSAVE,
        // x87, SSE, AVX, AVX-512: 2,688 bytes in the standard format (Intel SDM, volume 1, 13.4), and 64 for the alignment.
        parts = const 0xe7,
        area = const 2688 + 64,
    )
}

/// Saves what will be stored to: bytes of the region, or others, which are not looked at.
///
/// # Safety
/// The bytes are mapped.
#[inline]
pub unsafe fn save(address: usize, count: usize) {
    if active().load(Relaxed) != 0 && count != 0 {
        // SAFETY: the function changes these registers only, and asm! leaves the red zone free.
        unsafe {
            asm!("call {0}", sym rv_mirror_save, inout("r10") address => _, inout("r11") count => _);
        }
    }
    core::sync::atomic::compiler_fence(SeqCst);
}
