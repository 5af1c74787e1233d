//! The library inside every traced process.
//!
//! A freestanding image mapped at a fixed address (lane-protocol's layout): it
//! takes every system call of the program, performs it and logs what came back
//! (recording), or injects what the log says (replaying).
//!
//! Architecture invariants: it uses no vector registers, no thread-local
//! storage, no libc and no allocation; it touches the program's memory only
//! where a system call or a signal frame would have; it never lets a call of the
//! program reach the kernel from outside of its own text.
#![no_std]
#![no_main]

mod entry;
mod kernel;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    kernel::exit_group(255)
}
