//! Copying into the region: what compiled code calls in place of memcpy and memmove.
//!
//! Few bytes are loaded once and stored twice. To copy them again from where they went would wait until they have left the
//! store buffer: memcpy makes stores that overlap, and a processor forwards to a load what one store has written only.
//!
//! In place, as `sections::copy_in_place`: the stores to the region, the look at the offset, those to the mirror, the marks
//! (docs/adr/0125-copies-are-loaded-once-and-stored-twice.md). Deliberately absent: copies outside of the region, which are the
//! C library's.

use core::arch::naked_asm;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU8, compiler_fence};

use crate::barrier;
use crate::layout::{PAGE_BITS, WINDOW_BITS, WINDOW_KEY, marks_of};
use crate::sections::{self, CONTROL};

/// Bytes that are copied through registers. A longer copy is made by the C library, and then once more.
const REGISTER_BYTES_MAX: usize = 128;

unsafe extern "C" {
    fn memmove(to: usize, from: usize, count: usize) -> usize;
}

/// Loads from `rsi`, in `rdx` bytes, into two registers: the first and the last; stores them from `rdi` on, and from `r11` on
/// if the mirror is not frozen.
macro_rules! copy_twice {
    ($load:literal, $store:literal, $first:literal, $last:literal, $size:literal) => {
        concat!(
            $load,
            " ",
            $first,
            ", [rsi]\n",
            $load,
            " ",
            $last,
            ", [rsi + rdx - ",
            $size,
            "]\n",
            $store,
            " [rdi], ",
            $first,
            "\n",
            $store,
            " [rdi + rdx - ",
            $size,
            "], ",
            $last,
            "\n",
            "mov r11, [rip + {control} + {offset}]\ntest r11, r11\njz 93f\nadd r11, rdi\n",
            $store,
            " [r11], ",
            $first,
            "\n",
            $store,
            " [r11 + rdx - ",
            $size,
            "], ",
            $last,
            "\n",
        )
    };
}

/// As `copy_twice`, of fewer than 4 bytes; of none it returns.
macro_rules! three_bytes {
    () => {
        "
        test edx, edx
        jz 97f
        mov ecx, edx
        shr ecx, 1
        movzx r10d, byte ptr [rsi + rcx]
        movzx r8d, byte ptr [rsi]
        movzx r9d, byte ptr [rsi + rdx - 1]
        mov [rdi], r8b
        mov [rdi + rcx], r10b
        mov [rdi + rdx - 1], r9b
        mov r11, [rip + {control} + {offset}]
        test r11, r11
        jz 93f
        add r11, rdi
        mov [r11], r8b
        mov [r11 + rcx], r10b
        mov [r11 + rdx - 1], r9b
        "
    };
}

/// As `copy_twice`, of 33 bytes to [`REGISTER_BYTES_MAX`].
macro_rules! through_registers {
    () => {
        "
        movups xmm0, [rsi]
        movups xmm1, [rsi + 16]
        movups xmm2, [rsi + rdx - 32]
        movups xmm3, [rsi + rdx - 16]
        cmp edx, 64
        ja 85f
        movups [rdi], xmm0
        movups [rdi + 16], xmm1
        movups [rdi + rdx - 32], xmm2
        movups [rdi + rdx - 16], xmm3
        mov r11, [rip + {control} + {offset}]
        test r11, r11
        jz 93f
        add r11, rdi
        jmp 86f
    85: movups xmm4, [rsi + 32]
        movups xmm5, [rsi + 48]
        movups xmm6, [rsi + rdx - 64]
        movups xmm7, [rsi + rdx - 48]
        movups [rdi], xmm0
        movups [rdi + 16], xmm1
        movups [rdi + 32], xmm4
        movups [rdi + 48], xmm5
        movups [rdi + rdx - 64], xmm6
        movups [rdi + rdx - 48], xmm7
        movups [rdi + rdx - 32], xmm2
        movups [rdi + rdx - 16], xmm3
        mov r11, [rip + {control} + {offset}]
        test r11, r11
        jz 93f
        add r11, rdi
        movups [r11 + 32], xmm4
        movups [r11 + 48], xmm5
        movups [r11 + rdx - 64], xmm6
        movups [r11 + rdx - 48], xmm7
    86: movups [r11], xmm0
        movups [r11 + 16], xmm1
        movups [r11 + rdx - 32], xmm2
        movups [r11 + rdx - 16], xmm3
        "
    };
}

/// memmove, of which what is in the region is made in its mirror, too; the address that it copies to.
///
/// # Safety
/// As for memmove; no other thread stores to either meanwhile.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn rv_mirror_copy(to: usize, from: usize, count: usize) -> usize {
    naked_asm!(
        "
        mov rax, rdi
        mov r10, rdi
        shr r10, {window}
        cmp r10d, {key}
        jne {memmove}
        cmp rdx, 16
        jb 81f
        cmp rdx, 32
        ja 84f
        ",
        copy_twice!("movups", "movups", "xmm0", "xmm1", "16"),
        "jmp 95f
    81: cmp edx, 8
        jb 82f
        ",
        copy_twice!("mov", "mov", "r8", "r9", "8"),
        "jmp 95f
    82: cmp edx, 4
        jb 83f
        ",
        copy_twice!("mov", "mov", "r8d", "r9d", "4"),
        "jmp 95f
    83:",
        three_bytes!(),
        "jmp 95f
    84: cmp rdx, {most}
        ja {many}
        ",
        through_registers!(),
        sections::mark_and_return!("rdx"),
        "
        // Frozen: as any store, which looks once more.
    93: mov rsi, rdx
        push rdi
        call {again}
        pop rax
        ret
        ",
        control = sym CONTROL,
        offset = const core::mem::offset_of!(sections::Control, offset),
        again = sym copy_again,
        memmove = sym memmove,
        many = sym copy_many,
        most = const REGISTER_BYTES_MAX,
        window = const WINDOW_BITS,
        key = const WINDOW_KEY,
        page = const PAGE_BITS,
    )
}

/// More bytes: both copies are the C library's, from where they come from if that is still there.
///
/// # Safety
/// As for `rv_mirror_copy`.
unsafe extern "C" fn copy_many(to: usize, from: usize, count: usize) -> usize {
    let is_overlapping = to.wrapping_sub(from) < count || from.wrapping_sub(to) < count;
    // SAFETY: as the caller says.
    unsafe { memmove(to, from, count) };
    compiler_fence(SeqCst);
    let mut offset = CONTROL.offset.load(Relaxed);
    if offset == 0 {
        mark(to, count);
        compiler_fence(SeqCst);
        offset = CONTROL.offset.load(Relaxed);
    }
    if offset != 0 {
        // SAFETY: where the region is mapped, so is its mirror.
        unsafe { memmove(to + offset, if is_overlapping { to } else { from }, count) };
        compiler_fence(SeqCst);
        mark(to, count);
    }
    to
}

/// Marks the pages of bytes of the region, at least one.
fn mark(at: usize, count: usize) {
    for place in marks_of(at)..=marks_of(at + count - 1) {
        // SAFETY: the marks of a region's pages are mapped.
        let mark = unsafe { &*(place as *const AtomicU8) };
        if mark.load(Relaxed) == 0 {
            mark.store(1, Relaxed);
        }
    }
}

/// # Safety
/// As for `barrier::wrote`.
unsafe extern "C" fn copy_again(at: usize, count: usize) {
    // SAFETY: as the caller says.
    unsafe { barrier::wrote(at, count) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{MIRROR_DISTANCE, PAGE};
    use crate::protocol;

    /// Every length, across pages and overlapping in both directions, mirrored and frozen: the bytes that memmove gives, none beside
    /// them, and the marks of both pages.
    #[test]
    fn copies_are_those_of_memmove_in_both() {
        const ROOM: usize = 4 * PAGE;
        let region = crate::RegionOfTest::with_block(ROOM);
        let block = region.block;
        // SAFETY: the block, its mirror and its marks are mapped, and this thread is their only user.
        let (own, mirror, marks) = unsafe {
            let bytes = |at: usize, count: usize| std::slice::from_raw_parts_mut(at as *mut u8, count);
            (bytes(block, ROOM), bytes(block + MIRROR_DISTANCE, ROOM), bytes(block >> PAGE_BITS, ROOM / PAGE))
        };
        let source: Vec<u8> = (0..ROOM).map(|index| (index % 251) as u8).collect();
        let lengths = (0..=REGISTER_BYTES_MAX + 2).chain([500, 4096, 5000]);
        for (length, start, distance) in lengths.flat_map(|length| {
            [5, PAGE - 7, PAGE - length.min(PAGE)].into_iter().flat_map(move |start| {
                [0isize, 3, 40, 900, -3].map(|distance| (length, start + 64, distance))
            })
        }) {
            own.copy_from_slice(&source);
            mirror.copy_from_slice(&source);
            marks.fill(0);
            let from = start.saturating_add_signed(distance);
            let mut wanted = source.clone();
            wanted.copy_within(from..from + length, start);
            // SAFETY: within the block.
            let returned = unsafe { rv_mirror_copy(block + start, block + from, length) };
            assert_eq!(returned, block + start);
            assert!(own == wanted.as_slice(), "{length} bytes from {from} to {start}");
            assert!(mirror == wanted.as_slice(), "the mirror of {length} bytes from {from} to {start}");
            let pages = start / PAGE..=(start + length).saturating_sub(1) / PAGE;
            let is_marked = |page: usize| length != 0 && pages.contains(&page);
            assert!(
                (0..ROOM / PAGE).all(|page| (marks[page] != 0) == is_marked(page)),
                "the marks of {length} bytes"
            );
        }
        protocol::freeze();
        mirror.fill(0xee);
        for length in [31, 400] {
            marks.fill(0);
            // SAFETY: within the block, whose first half the second one is copied to.
            unsafe { rv_mirror_copy(block + PAGE - 7, block + 2 * PAGE, length) };
            assert_eq!(own[PAGE - 7..][..length], source[2 * PAGE..][..length]);
            assert!(
                mirror.iter().all(|byte| *byte == 0xee) && marks[..2] == [1, 1],
                "frozen, {length} bytes"
            );
        }
        protocol::thaw();
    }

    /// What is not in the region is copied as ever.
    #[test]
    fn copies_elsewhere_are_made_once() {
        let (from, mut to) = ([7u8; 300], [0u8; 300]);
        // SAFETY: two arrays.
        unsafe { rv_mirror_copy(to.as_mut_ptr() as usize, from.as_ptr() as usize, 299) };
        assert_eq!((to[298], to[299]), (7, 0));
    }
}
