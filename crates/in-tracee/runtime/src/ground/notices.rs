//! What the rooms in front tell those behind, and the few things that they ask of them. A room imports
//! none that stands behind it: it calls these names, and `entry::observers` has the list of who hears
//! what.
//!
//! Deliberately absent: decisions; whoever tells something goes on alike, whoever hears it.

use core::ffi::CStr;
use core::sync::atomic::AtomicU32;

use crate::ground::registers::{Leave, Registers};

// SAFETY: `entry::observers` has a function of each of these types.
unsafe extern "Rust" {
    /// Opens a file whose path begins with `/proc/` for reading, with further flags of open(2): which
    /// directory that is, is each process's.
    #[link_name = "rv_open_of_proc"]
    pub safe fn open_of_proc(path: &CStr, flags: u32) -> i64;
    /// Other memory is at these addresses from now on, or its content was dropped.
    #[link_name = "rv_memory_lost"]
    pub safe fn memory_lost(start: u64, bytes: u64);
    /// mremap(2) is about to move these addresses.
    #[link_name = "rv_memory_released"]
    pub safe fn memory_released(start: u64, bytes: u64);
    /// Memory comes under another protection.
    #[link_name = "rv_memory_watched_otherwise"]
    pub safe fn memory_watched_otherwise();
    /// A child of fork begins whose parent's memory is tracked.
    #[link_name = "rv_tracked_child_begins"]
    pub safe fn tracked_child_begins();
    /// True for the number of a descriptor that checkpoints have.
    #[link_name = "rv_is_checkpoints_descriptor"]
    pub safe fn is_checkpoints_descriptor(fd: u64) -> bool;
    /// The program is about to take or close numbers of descriptors.
    #[link_name = "rv_descriptors_are_taken"]
    pub safe fn descriptors_are_taken(first: u64, last: u64);
    /// The program uses a descriptor of which nothing is known yet.
    #[link_name = "rv_descriptor_is_used_first"]
    pub safe fn descriptor_is_used_first();
    /// Replay: a mapped file has this size (device, inode, bytes).
    #[link_name = "rv_file_end_moved"]
    pub safe fn file_end_moved(size: [u64; 3]);
    /// Replay: writes through to a file that the program only sees there: false if none is known.
    #[link_name = "rv_write_behind_mapping"]
    pub safe fn write_behind_mapping(address: u64, source: u64, bytes: u64) -> bool;
    /// Code of the program is other code from now on.
    #[link_name = "rv_code_changed"]
    pub safe fn code_changed();
    /// Memory that may hold code was mapped, or unmapped.
    #[link_name = "rv_code_mapped"]
    pub safe fn code_mapped();
    /// Memory that held code is gone.
    #[link_name = "rv_code_unmapped"]
    pub safe fn code_unmapped(start: u64, end: u64);
    /// Changes code that a replay trap may cover.
    #[link_name = "rv_while_replay_trap_is_lifted"]
    pub safe fn while_replay_trap_is_lifted(change: &mut dyn FnMut());
    /// Changes code that breakpoints may cover.
    #[link_name = "rv_without_breakpoints"]
    pub safe fn without_breakpoints(change: &mut dyn FnMut());
    /// The program is about to map or unmap something there.
    #[link_name = "rv_room_is_needed"]
    pub safe fn room_is_needed(start: u64, bytes: u64);
    /// True if memory of the debugger's stubs begins there.
    #[link_name = "rv_is_stub_page"]
    pub safe fn is_stub_page(start: u64) -> bool;
    /// Replay: the token is back from other processes.
    #[link_name = "rv_token_is_back"]
    pub safe fn token_is_back();
    /// Replay: what others have shared already is mapped for the first time.
    #[link_name = "rv_shared_file_opened"]
    pub safe fn shared_file_opened(identity: [u64; 2]);
    /// The process shares memory from now on.
    #[link_name = "rv_lane_shares_memory"]
    pub safe fn lane_shares_memory();
    /// True for the agent of this process.
    #[link_name = "rv_is_agent"]
    pub safe fn is_agent(identity: u64) -> bool;
    /// A replay has come to the end of a live program's log.
    #[link_name = "rv_log_is_replayed"]
    pub safe fn log_is_replayed();
    /// The calling thread goes on from where it stands, in whichever mode the process is.
    #[link_name = "rv_thread_goes_on"]
    pub safe fn thread_goes_on() -> !;
    /// Replay: the image of the calling thread is over.
    #[link_name = "rv_image_is_over"]
    pub safe fn image_is_over() -> !;
    /// Replay: waits while the word holds `seen`, in such a way that the process can be copied.
    #[link_name = "rv_wait_for_token"]
    pub safe fn wait_for_token(word: &AtomicU32, seen: u32);
    /// Recording with chaos, at a boundary.
    #[link_name = "rv_boundary_of_chaos"]
    pub safe fn boundary_of_chaos();
    /// The same where nothing was planted yet.
    #[link_name = "rv_chaos_begins"]
    pub safe fn chaos_begins();
    /// A fault of the program is noted, and its registers: it goes on behind it.
    #[link_name = "rv_fault_is_at_hand"]
    pub safe fn fault_is_at_hand() -> !;
    /// The process is about to die of a signal that somebody sent.
    #[link_name = "rv_process_dies_of"]
    pub safe fn process_dies_of(signal: u32);
    /// A replay has come to the end of a live program's log, and the thread goes on from there.
    #[link_name = "rv_program_goes_live"]
    pub safe fn program_goes_live() -> !;
    /// A handler of the program begins.
    #[link_name = "rv_signal_is_delivered"]
    pub safe fn signal_is_delivered(signal: u32, info: &[u64; 16]);
    /// The program is about to die of a fault.
    #[link_name = "rv_program_dies_of"]
    pub safe fn program_dies_of(info: &[u64; 16]);
    /// True where a preemption would get into the debugger's way.
    #[link_name = "rv_cannot_preempt_at"]
    pub safe fn cannot_preempt_at(place: u64) -> bool;
    /// True if the debugger wants the live program to stand.
    #[link_name = "rv_stop_is_wanted"]
    pub safe fn stop_is_wanted() -> bool;
    /// The agent lets the process go.
    #[link_name = "rv_process_is_let_go"]
    pub safe fn process_is_let_go();
    /// The calling thread is about to enter the program's code, and recording may have ended.
    #[link_name = "rv_leave_if_over"]
    pub safe fn leave_if_over();
    /// Recording has ended under --seccomp: the program's call is made unlogged.
    #[link_name = "rv_call_passes_through"]
    pub safe fn call_passes_through(registers: &mut Registers) -> Leave;
}
