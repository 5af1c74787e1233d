//! Where control enters the runtime.

use core::arch::global_asm;

global_asm!(
    ".section .text.rv_start, \"ax\"",
    ".global rv_start_record",
    "rv_start_record:",
    "jmp rv_begin",
    ".balign 16",
    "jmp rv_begin",
    ".text",
    "rv_begin: ud2",
);
