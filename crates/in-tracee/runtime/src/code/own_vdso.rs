//! The vDSO that the program sees: an image of our own in place of the kernel's, whose functions
//! would answer unseen. Its own enter the runtime, as trampolines do.
//!
//! Invariant: the image is memory of the program's like any other, and its content is in the log; a
//! replay by another version of the runtime executes what was recorded. Deliberately absent:
//! `__vdso_getrandom` and `__vdso_sgx_enter_enclave`, which programs do without where they are not
//! found; processes that were attached to, whose vDSO the injector changes.

use core::arch::global_asm;

use lane_protocol::BOARD_CALL;
use linux_abi::general as nr;

use crate::ground::owned::{Held, Owned};

/// Where the image is; the end is 0 where there is none.
struct OwnVdso {
    start: u64,
    end: u64,
    /// The program could write to it.
    may_change: bool,
}

const NOWHERE: OwnVdso = OwnVdso { start: 0, end: 0, may_change: false };
static OWN: Owned<OwnVdso> = Owned::new(NOWHERE);

fn own() -> Held<OwnVdso> {
    OWN.hold()
}

// As ld writes it for the kernel's, which vdso(7) describes. All names are in one bucket, so that no
// hash of them is needed. Each function is as a trampoline: the address behind the call's instruction
// in rcx and r11; where the runtime has left (`boarding::leave_vdso`), the instruction itself is reached.
global_asm!(
    ".macro rv_vdso_symbol name, info, label",
    ".long \\name - rv_vdso_names",
    ".byte \\info, 0",
    ".short 4",
    ".quad \\label - rv_vdso_image",
    ".quad rv_vdso_call_bytes",
    ".endm",
    ".macro rv_vdso_function label, number",
    ".balign 16",
    "\\label:",
    "mov eax, \\number",
    "lea rcx, [rip + 8f]",
    "mov r11, rcx",
    "jmp qword ptr [rip + 7f]",
    "7:",
    ".quad {entry}",
    "syscall",
    "8:",
    "ret",
    ".endm",
    ".macro rv_vdso_dynamic tag, value",
    ".quad \\tag, \\value",
    ".endm",
    ".macro rv_vdso_segment kind, flags, from, to, align",
    ".long \\kind, \\flags",
    ".quad \\from - rv_vdso_image, \\from - rv_vdso_image, \\from - rv_vdso_image",
    ".quad \\to - \\from, \\to - \\from, \\align",
    ".endm",
    ".macro rv_vdso_section name, kind, flags, from, to, link, info, align, entry",
    ".long \\name - rv_vdso_section_names, \\kind",
    ".quad \\flags, \\from - rv_vdso_image, \\from - rv_vdso_image, \\to - \\from",
    ".long \\link, \\info",
    ".quad \\align, \\entry",
    ".endm",
    ".section .rodata.rv_vdso, \"a\"",
    ".balign 16",
    ".global rv_vdso_image",
    "rv_vdso_image:",
    ".byte 0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0",
    ".short 3, 62",
    ".long 1",
    ".quad 0, rv_vdso_segments - rv_vdso_image, rv_vdso_sections - rv_vdso_image",
    ".long 0",
    ".short 64, 56, 3, 64, 8, 7",
    "rv_vdso_segments:",
    "rv_vdso_segment 1, 5, rv_vdso_image, rv_vdso_end, 0x1000",
    "rv_vdso_segment 2, 4, rv_vdso_dynamics, rv_vdso_dynamics_end, 8",
    "rv_vdso_segment 0x6474e550, 4, rv_vdso_frame_header, rv_vdso_frames, 4",
    "rv_vdso_hash:",
    ".long 1, 11, 1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0",
    "rv_vdso_hash_end:",
    ".balign 8",
    "rv_vdso_symbols:",
    ".quad 0, 0, 0",
    "rv_vdso_symbol rv_name_1, 0x12, rv_vdso_clock_gettime",
    "rv_vdso_symbol rv_name_2, 0x12, rv_vdso_gettimeofday",
    "rv_vdso_symbol rv_name_3, 0x12, rv_vdso_time",
    "rv_vdso_symbol rv_name_4, 0x12, rv_vdso_clock_getres",
    "rv_vdso_symbol rv_name_5, 0x12, rv_vdso_getcpu",
    "rv_vdso_symbol rv_name_1 + 7, 0x22, rv_vdso_clock_gettime",
    "rv_vdso_symbol rv_name_2 + 7, 0x22, rv_vdso_gettimeofday",
    "rv_vdso_symbol rv_name_3 + 7, 0x22, rv_vdso_time",
    "rv_vdso_symbol rv_name_4 + 7, 0x22, rv_vdso_clock_getres",
    "rv_vdso_symbol rv_name_5 + 7, 0x22, rv_vdso_getcpu",
    "rv_vdso_symbols_end:",
    "rv_vdso_names:",
    ".byte 0",
    "rv_name_1: .asciz \"__vdso_clock_gettime\"",
    "rv_name_2: .asciz \"__vdso_gettimeofday\"",
    "rv_name_3: .asciz \"__vdso_time\"",
    "rv_name_4: .asciz \"__vdso_clock_getres\"",
    "rv_name_5: .asciz \"__vdso_getcpu\"",
    "rv_name_own: .asciz \"linux-vdso.so.1\"",
    "rv_name_version: .asciz \"LINUX_2.6\"",
    "rv_vdso_names_end:",
    ".balign 2",
    "rv_vdso_versions:",
    ".short 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2",
    "rv_vdso_versions_end:",
    ".balign 4",
    // The hashes of the names, as the System V ABI has them.
    "rv_vdso_defined:",
    ".short 1, 1, 1, 1",
    ".long 0xdeebfa1, 20, 28, rv_name_own - rv_vdso_names, 0",
    ".short 1, 0, 2, 1",
    ".long 0x3ae75f6, 20, 0, rv_name_version - rv_vdso_names, 0",
    "rv_vdso_defined_end:",
    ".balign 8",
    "rv_vdso_dynamics:",
    "rv_vdso_dynamic 14, rv_name_own - rv_vdso_names",
    "rv_vdso_dynamic 4, rv_vdso_hash - rv_vdso_image",
    "rv_vdso_dynamic 5, rv_vdso_names - rv_vdso_image",
    "rv_vdso_dynamic 6, rv_vdso_symbols - rv_vdso_image",
    "rv_vdso_dynamic 10, rv_vdso_names_end - rv_vdso_names",
    "rv_vdso_dynamic 11, 24",
    "rv_vdso_dynamic 0x6ffffffc, rv_vdso_defined - rv_vdso_image",
    "rv_vdso_dynamic 0x6ffffffd, 2",
    "rv_vdso_dynamic 0x6ffffff0, rv_vdso_versions - rv_vdso_image",
    "rv_vdso_dynamic 0, 0",
    "rv_vdso_dynamics_end:",
    // How to unwind: nothing is on the stack but the return address.
    "rv_vdso_frame_header:",
    ".byte 1, 0x1b, 3, 0x3b",
    ".long rv_vdso_frames - .",
    ".long 1",
    ".long rv_vdso_text - rv_vdso_frame_header, rv_vdso_frame - rv_vdso_frame_header",
    ".balign 8",
    "rv_vdso_frames:",
    ".long 20, 0",
    ".byte 1, 0x7a, 0x52, 0, 1, 0x78, 16, 1, 0x1b, 12, 7, 8, 0x90, 1, 0, 0",
    "rv_vdso_frame:",
    ".long 20, rv_vdso_frame + 4 - rv_vdso_frames",
    ".long rv_vdso_text - ., rv_vdso_text_end - rv_vdso_text",
    ".byte 0, 0, 0, 0, 0, 0, 0, 0",
    ".long 0",
    "rv_vdso_frames_end:",
    ".balign 8",
    "rv_vdso_sections:",
    ".quad 0, 0, 0, 0, 0, 0, 0, 0",
    "rv_vdso_section rv_section_1, 11, 2, rv_vdso_symbols, rv_vdso_symbols_end, 2, 1, 8, 24",
    "rv_vdso_section rv_section_2, 3, 2, rv_vdso_names, rv_vdso_names_end, 0, 0, 1, 0",
    "rv_vdso_section rv_section_3, 6, 2, rv_vdso_dynamics, rv_vdso_dynamics_end, 2, 0, 8, 16",
    "rv_vdso_section rv_section_4, 1, 6, rv_vdso_text, rv_vdso_text_end, 0, 0, 16, 0",
    "rv_vdso_section rv_section_5, 1, 2, rv_vdso_frame_header, rv_vdso_frames, 0, 0, 4, 0",
    "rv_vdso_section rv_section_6, 1, 2, rv_vdso_frames, rv_vdso_frames_end, 0, 0, 8, 0",
    "rv_vdso_section rv_section_7, 3, 0, rv_vdso_section_names, rv_vdso_section_names_end, 0, 0, 1, 0",
    "rv_vdso_section_names:",
    ".byte 0",
    "rv_section_1: .asciz \".dynsym\"",
    "rv_section_2: .asciz \".dynstr\"",
    "rv_section_3: .asciz \".dynamic\"",
    "rv_section_4: .asciz \".text\"",
    "rv_section_5: .asciz \".eh_frame_hdr\"",
    "rv_section_6: .asciz \".eh_frame\"",
    "rv_section_7: .asciz \".shstrtab\"",
    "rv_vdso_section_names_end:",
    ".balign 16",
    "rv_vdso_text:",
    "rv_vdso_function rv_vdso_clock_gettime, {clock_gettime}",
    ".set rv_vdso_call_bytes, . - rv_vdso_clock_gettime",
    "rv_vdso_function rv_vdso_gettimeofday, {gettimeofday}",
    "rv_vdso_function rv_vdso_time, {time}",
    "rv_vdso_function rv_vdso_clock_getres, {clock_getres}",
    "rv_vdso_function rv_vdso_getcpu, {getcpu}",
    "rv_vdso_text_end:",
    ".global rv_vdso_end",
    "rv_vdso_end:",
    ".text",
    entry = const BOARD_CALL,
    clock_gettime = const nr::__NR_clock_gettime,
    gettimeofday = const nr::__NR_gettimeofday,
    time = const nr::__NR_time,
    clock_getres = const nr::__NR_clock_getres,
    getcpu = const nr::__NR_getcpu,
);

unsafe extern "C" {
    static rv_vdso_image: u8;
    static rv_vdso_end: u8;
}

/// The image: address and bytes.
pub fn image() -> (u64, u64) {
    let (from, to) = (&raw const rv_vdso_image as u64, &raw const rv_vdso_end as u64);
    (from, to - from)
}

/// The image is there; nowhere if both are 0.
pub fn begin(start: u64, end: u64) {
    *own() = OwnVdso { start, end, may_change: false };
}

/// Where the image is, if it is anywhere.
pub fn place() -> Option<(u64, u64)> {
    let OwnVdso { start, end, .. } = *own();
    (end != 0).then_some((start, end))
}

/// True of the address that the image begins at.
pub fn is_at(start: u64) -> bool {
    place().is_some_and(|known| known.0 == start)
}

/// True of the image's code as long as it is as it was.
pub fn is_constant(address: u64) -> bool {
    let own = &mut *own();
    (own.start..own.end).contains(&address) && !own.may_change
}

/// Something else is there, or nothing.
pub fn unmapped(start: u64, end: u64) {
    let own = &mut *own();
    if start < own.end && own.start < end {
        *own = NOWHERE;
    }
}

/// The program may write there from now on.
pub fn may_change(start: u64, end: u64) {
    let own = &mut *own();
    own.may_change |= start < own.end && own.start < end;
}
