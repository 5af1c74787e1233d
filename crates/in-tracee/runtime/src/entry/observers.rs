//! Who hears what the rooms in front tell: the one list, behind all rooms. See `ground::notices`.

use core::sync::atomic::AtomicU32;

use crate::address_space::file_ends;
use crate::checkpoint;
use crate::debugger::{breakpoints, copies, displaced, imports, translate};
use crate::preemption::{probe, sampled_places};
use crate::process::threads;

#[unsafe(no_mangle)]
fn rv_memory_lost(start: u64, bytes: u64) {
    checkpoint::lose_memory(start, bytes);
}

#[unsafe(no_mangle)]
fn rv_memory_released(start: u64, bytes: u64) {
    checkpoint::release_memory(start, bytes);
}

#[unsafe(no_mangle)]
fn rv_memory_watched_otherwise() {
    checkpoint::end_increments();
}

#[unsafe(no_mangle)]
fn rv_tracked_child_begins() {
    checkpoint::begin_child();
}

#[unsafe(no_mangle)]
fn rv_is_checkpoints_descriptor(fd: u64) -> bool {
    checkpoint::is_descriptor(fd)
}

#[unsafe(no_mangle)]
fn rv_descriptors_are_taken(first: u64, last: u64) {
    checkpoint::yield_descriptor(first, last);
}

#[unsafe(no_mangle)]
fn rv_descriptor_is_used_first() {
    checkpoint::wait_before_first_use();
}

#[unsafe(no_mangle)]
fn rv_file_end_moved(size: [u64; 3]) {
    file_ends::replay_moved(size);
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
fn rv_while_probe_is_lifted(change: &mut dyn FnMut()) {
    probe::while_lifted(change);
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
fn rv_turn_is_back() {
    imports::turn_is_back();
}

#[unsafe(no_mangle)]
fn rv_shared_file_opened(identity: [u64; 2]) {
    imports::opened(identity);
}

#[unsafe(no_mangle)]
fn rv_lane_shares_memory() {
    checkpoint::note_sharer();
}

#[unsafe(no_mangle)]
fn rv_is_agent(identity: u64) -> bool {
    checkpoint::agent_identity() == Some(identity)
}

#[unsafe(no_mangle)]
fn rv_log_is_replayed() {
    checkpoint::enter_present();
}

#[unsafe(no_mangle)]
fn rv_present_begins() -> ! {
    checkpoint::resume()
}

#[unsafe(no_mangle)]
fn rv_image_is_over() -> ! {
    threads::end_in_replay()
}

#[unsafe(no_mangle)]
fn rv_wait_for_turn(word: &AtomicU32, seen: u32) {
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
