//! The Linux x86-64 ABI as the other crates see it.
//!
//! Numbers and structures come from `linux-raw-sys` (bindings generated from
//! the kernel's own headers); this crate adds what those headers do not hold.
//! Invariant: no code here calls the kernel, so the same crate serves the
//! freestanding runtime and the tools around it.
#![no_std]
#![forbid(unsafe_code)]

pub use linux_raw_sys::{errno, general, ioctl, net, prctl, system};

/// Size of a page of memory, in bytes. Fixed on x86-64.
pub const PAGE_BYTES: u64 = 4096;
