//! What processes that go back together show of the same memory: the leader's shadow says what
//! it has, and the others' leave it out.

use core::sync::atomic::Ordering;

use lane_protocol::SHARED_OBJECTS_MAX;

use crate::checkpoint::group::undertaking::together;
use crate::ground::maps::Mapping;

fn place_of(mapping: &Mapping) -> [u64; 4] {
    let end = mapping.offset + (mapping.end - mapping.start);
    [mapping.device, mapping.inode, mapping.offset, end]
}

/// A shadow asks whether another one has this content.
pub fn is_kept_elsewhere(mapping: &Mapping) -> bool {
    let together = together();
    let [device, inode, start, end] = place_of(mapping);
    let known = (together.object_count.load(Ordering::SeqCst) as usize).min(SHARED_OBJECTS_MAX);
    together.objects[..known].iter().any(|object| {
        object.device.load(Ordering::SeqCst) == device
            && object.inode.load(Ordering::SeqCst) == inode
            && object.start.load(Ordering::SeqCst) <= start
            && object.end.load(Ordering::SeqCst) >= end
    })
}

/// The leader's shadow has it: the others' need not. Too many to name are kept by each.
pub fn note_kept(mapping: &Mapping) {
    let together = together();
    let count = together.object_count.load(Ordering::SeqCst);
    if let Some(object) = together.objects.get(count as usize) {
        let words = [&object.device, &object.inode, &object.start, &object.end];
        for (word, value) in words.into_iter().zip(place_of(mapping)) {
            word.store(value, Ordering::SeqCst);
        }
        together.object_count.store(count + 1, Ordering::SeqCst);
    }
}
