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

mod address_space;
mod checkpoint;
mod code;
mod debugger;
mod entry;
mod ground;
mod lab;
mod log;
mod preemption;
mod process;
mod scheduler;
mod signals;
mod state;
mod syscalls;

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    if let Some(place) = info.location() {
        ground::kernel::write_all(2, place.file().as_ptr() as u64, place.file().len() as u64);
        state::report::print_number(":", u64::from(place.line()));
    }
    state::report::fail("an assertion of the runtime does not hold")
}
