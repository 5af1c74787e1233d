//! Who hears what the rooms in front tell: the one list, behind all rooms. See `ground::notices`.

use core::ffi::CStr;
use core::sync::atomic::AtomicU32;

use crate::address_space::{file_ends, mapped_files};
use crate::checkpoint::group::undertaking;
use crate::checkpoint::observed_calls;
use crate::checkpoint::resources::first_use;
use crate::checkpoint::restore::{crash, rollback};
use crate::checkpoint::take::increments::tracking;
use crate::debugger::{breakpoints, caught_signals, copies, displaced, imports, live_stops, translate};
use crate::entry::{resuming, traps};
use crate::ground::registers::{Leave, Registers};
use crate::preemption::{replay_trap, sampled_places};
use crate::process::{detach, threads};
use crate::state::proc_dir;
use crate::syscalls::pass_through;

#[unsafe(no_mangle)]
fn rv_open_of_proc(path: &CStr, flags: u32) -> i64 {
    proc_dir::open_as(path, flags)
}

#[unsafe(no_mangle)]
fn rv_memory_lost(start: u64, bytes: u64) {
    tracking::lose_memory(start, bytes);
}

#[unsafe(no_mangle)]
fn rv_memory_released(start: u64, bytes: u64) {
    tracking::release_memory(start, bytes);
}

#[unsafe(no_mangle)]
fn rv_memory_watched_otherwise() {
    tracking::end_increments();
}

#[unsafe(no_mangle)]
fn rv_tracked_child_begins() {
    tracking::begin_child();
}

#[unsafe(no_mangle)]
fn rv_is_checkpoints_descriptor(fd: u64) -> bool {
    tracking::is_descriptor(fd)
}

#[unsafe(no_mangle)]
fn rv_descriptors_are_taken(first: u64, last: u64) {
    tracking::yield_descriptor(first, last);
}

#[unsafe(no_mangle)]
fn rv_descriptor_is_used_first() {
    first_use::wait();
}

#[unsafe(no_mangle)]
fn rv_file_end_moved(size: [u64; 3]) {
    file_ends::replay_moved(size);
}

#[unsafe(no_mangle)]
fn rv_write_behind_mapping(address: u64, source: u64, bytes: u64) -> bool {
    mapped_files::write_behind(address, source, bytes)
}

#[unsafe(no_mangle)]
fn rv_code_changed() {
    translate::forget();
}

#[unsafe(no_mangle)]
fn rv_code_mapped() {
    breakpoints::note_mapping();
}

#[unsafe(no_mangle)]
fn rv_code_unmapped(start: u64, end: u64) {
    sampled_places::unmapped(start, end);
}

#[unsafe(no_mangle)]
fn rv_while_replay_trap_is_lifted(change: &mut dyn FnMut()) {
    replay_trap::while_lifted(change);
}

#[unsafe(no_mangle)]
fn rv_without_breakpoints(change: &mut dyn FnMut()) {
    breakpoints::without(change);
}

#[unsafe(no_mangle)]
fn rv_room_is_needed(start: u64, bytes: u64) {
    displaced::make_room(start, bytes);
}

#[unsafe(no_mangle)]
fn rv_is_stub_page(start: u64) -> bool {
    displaced::is_page(start)
}

#[unsafe(no_mangle)]
fn rv_token_is_back() {
    imports::token_is_back();
}

#[unsafe(no_mangle)]
fn rv_shared_file_opened(identity: [u64; 2]) {
    imports::opened(identity);
}

#[unsafe(no_mangle)]
fn rv_lane_shares_memory() {
    undertaking::note_sharer();
}

#[unsafe(no_mangle)]
fn rv_is_agent(identity: u64) -> bool {
    observed_calls::agent_identity() == Some(identity)
}

#[unsafe(no_mangle)]
fn rv_log_is_replayed() {
    rollback::enter_present();
}

#[unsafe(no_mangle)]
fn rv_thread_goes_on() -> ! {
    resuming::resume()
}

#[unsafe(no_mangle)]
fn rv_image_is_over() -> ! {
    threads::end_in_replay()
}

#[unsafe(no_mangle)]
fn rv_wait_for_token(word: &AtomicU32, seen: u32) {
    copies::wait_standing(word, seen);
}

#[unsafe(no_mangle)]
fn rv_boundary_of_chaos() {
    sampled_places::at_boundary();
}

#[unsafe(no_mangle)]
fn rv_chaos_begins() {
    sampled_places::begin();
}

#[unsafe(no_mangle)]
fn rv_fault_is_at_hand() -> ! {
    // SAFETY: the thread holds the token, and its registers are where the function looks for them.
    unsafe { traps::on_fault() }
}

#[unsafe(no_mangle)]
fn rv_process_dies_of(signal: u32) {
    crash::save_before_death(signal);
}

#[unsafe(no_mangle)]
fn rv_program_goes_live() -> ! {
    rollback::go_live()
}

#[unsafe(no_mangle)]
fn rv_signal_is_delivered(signal: u32, info: &[u64; 16]) {
    caught_signals::note_delivery(signal, info);
}

#[unsafe(no_mangle)]
fn rv_program_dies_of(info: &[u64; 16]) {
    caught_signals::note_death(info);
}

#[unsafe(no_mangle)]
fn rv_cannot_preempt_at(place: u64) -> bool {
    live_stops::cannot_preempt_at(place)
}

#[unsafe(no_mangle)]
fn rv_stop_is_wanted() -> bool {
    live_stops::stop_is_wanted()
}

#[unsafe(no_mangle)]
fn rv_process_is_let_go() {
    detach::let_go();
}

#[unsafe(no_mangle)]
fn rv_leave_if_over() {
    detach::leave_if_over();
}

#[unsafe(no_mangle)]
fn rv_call_passes_through(registers: &mut Registers) -> Leave {
    pass_through::call(registers)
}
