//! The names that the assembly gives: where code enters the runtime, and what it does for callers.
//!
//! The code itself is in `entry` (that of keepers beside them), which names the handlers of all rooms; who only needs an address,
//! or the routine behind it, takes it from here. Deliberately absent: anything but declarations.

use super::registers::Registers;

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
    pub fn rv_replay_trap_copy(to: u64, from: u64, bytes: u64) -> u64;
    pub fn rv_replay_trap_landing();
    pub fn rv_agent_stop(registers: *const Registers) -> !;
    pub fn rv_agent_trap();
    pub fn rv_end() -> !;
    pub fn rv_entry_translate();
    pub fn rv_restorer();
    pub fn rv_make_keeper(flags: u64, stack: u64, run: u64, start: u64) -> i64;
}
