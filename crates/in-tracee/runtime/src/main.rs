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

mod agent;
mod arena;
mod auxiliary_vector;
mod birth;
mod block;
mod boarded_sharing;
mod boarding;
mod bounce;
mod branch;
mod breakpoints;
mod cache;
mod call_places;
mod calls;
mod calls_of_32_bits;
mod caught_signals;
mod changes;
mod chaos;
mod checksum;
mod clocks;
mod copies;
mod counters;
mod deaths;
mod decode;
mod descriptors;
mod detach;
mod detect;
mod direct_calls;
mod dispatch;
mod displaced;
mod edits;
mod effects;
mod entry;
mod file_ends;
mod file_extents;
mod file_places;
mod filters;
mod float_place;
mod foreign_writes;
mod frame;
mod gaps;
mod gs;
mod hot_words;
mod imports;
mod instructions;
mod islands;
mod kept_files;
mod kernel;
mod keyframes;
mod killing;
mod left_memory;
mod live;
mod log;
mod looks;
mod map_changes;
mod mapped_files;
mod maps;
mod memory;
mod memory_calls;
mod mremap;
mod namespaces;
mod one_processor;
mod open_calls;
mod output_lock;
mod outputs;
mod owned;
mod packet_rings;
mod page_entries;
mod page_tracker;
mod pass_through;
mod patching;
mod patience;
mod pause;
mod pause_place;
mod pause_point;
mod pause_timer;
mod priority_futexes;
mod private_futexes;
mod probe;
mod probe_body;
mod probe_guard;
mod probe_stub;
mod proc_dir;
mod proc_files;
mod processes;
mod programs;
mod protected_parts;
mod range_set;
mod region;
mod report;
mod rounds;
mod seccomp;
mod shared_files;
mod shared_segments;
mod shared_writes;
mod signals;
mod sites;
mod specials;
mod spins;
mod stacks;
mod standing;
mod starvation;
mod stopping;
mod threads;
mod tickets;
mod time_calls;
mod tracing;
mod tracing_outside;
mod translate;
mod turn;
mod turn_end;
mod vector_saves;
mod visible_descriptors;
mod visible_maps;
mod watchpoints;
mod withheld;
mod written_pages;

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    if let Some(place) = info.location() {
        kernel::write_all(2, place.file().as_ptr() as u64, place.file().len() as u64);
        report::print_number(":", u64::from(place.line()));
    }
    report::fail("an assertion of the runtime does not hold")
}
