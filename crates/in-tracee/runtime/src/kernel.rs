//! System calls that the runtime makes for itself, and those it makes for the program.

use core::arch::asm;

/// A system call of the runtime's own: never interrupted on purpose, never logged.
#[inline]
pub fn call(nr: u32, args: [u64; 6]) -> i64 {
    let result: i64;
    // SAFETY: the callers pass arguments whose memory effects they own; the
    // kernel clobbers rcx and r11 only.
    unsafe {
        asm!("syscall", inlateout("rax") u64::from(nr) => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// Ends the process.
pub fn exit_group(code: i32) -> ! {
    loop {
        call(linux_abi::general::__NR_exit_group, [code as u64, 0, 0, 0, 0, 0]);
    }
}
