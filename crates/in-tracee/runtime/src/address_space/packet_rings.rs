//! PacketRings of packets (packet(7), PACKET_RX_RING): memory behind a socket, to which the kernel
//! writes whenever a packet comes.
//!
//! The program gets memory of its own in the ring's place; the ring itself is mapped where only
//! the runtime sees it. What the program gave back is given to the kernel before each of its
//! calls that its row describes, and what has arrived meanwhile is copied and logged with the call:
//! who waits for packets does it by a call (poll), and nothing arrives between two. In replay, the
//! copies in the log are all there is.
//!
//! Deliberately absent: rings to send by, and live sessions, since no ring goes back with its
//! program: there, who maps one leaves the recording.

use core::sync::atomic::{AtomicU32, Ordering};

use lane_protocol::{PACKET_RING_BYTES, PACKET_RINGS_MAX, PACKET_RINGS_START};
use linux_abi::general as nr;

use crate::ground::kernel::{self, socket_option};
use crate::ground::memory;
use crate::state::block::process;
use crate::state::live;
use crate::state::outside_memory::{PacketRing, PacketRings, RingRequest};

/// Level and options of setsockopt(2): `linux/socket.h`, `linux/if_packet.h`.
const SOL_PACKET: u64 = 263;
const PACKET_RX_RING: u64 = 5;
const PACKET_VERSION: u64 = 10;
/// The third version: packets lie in blocks, which are handed over whole.
const TPACKET_V3: u32 = 2;
/// In the status of a part: it is the program's.
const TP_STATUS_USER: u32 = 1;

impl PacketRings {
    /// Whether there are some that are this process's.
    #[inline]
    fn is_any(&self) -> bool {
        self.count != 0 && self.lane == process().lane
    }

    /// Nothing of the process that this one was forked from counts.
    fn take_over(&mut self) {
        if self.lane != process().lane {
            self.lane = process().lane;
            self.count = 0;
            self.requested = 0;
            self.rings.iter_mut().for_each(|ring| ring.bytes = 0);
        }
    }
}

/// The shape of a ring was asked for.
#[cold]
fn note_request(args: &[u64; 6]) {
    if process().in_parents_memory {
        return;
    }
    let rings = &mut process().packet_rings;
    rings.take_over();
    let mut stat = [0u64; 18];
    kernel::call(nr::__NR_fstat, [args[0], stat.as_mut_ptr() as u64, 0, 0, 0, 0]);
    let [block_bytes, blocks, frame_bytes, frames] = memory::read::<[u32; 4]>(args[3]).unwrap_or_default();
    let inode = stat[1];
    let request = RingRequest { inode, block_bytes, blocks, frame_bytes, frames };
    let known = rings.requests[..rings.requested].iter().position(|known| known.inode == inode);
    // The oldest of too many is forgotten, most likely with its socket.
    let place = known.unwrap_or(rings.requested % PACKET_RINGS_MAX);
    rings.requests[place] = request;
    rings.requested = rings.requested.max(place + 1).min(PACKET_RINGS_MAX);
}

/// A socket was mapped at `start`. True: it is a ring, and the program has memory of its own
/// there. False: nothing has changed.
pub fn map(args: &[u64; 6], start: u64, inode: u64) -> bool {
    let [_, bytes, protection, _, fd, offset] = *args;
    if live::is_on() || process().in_parents_memory {
        return false;
    }
    let rings = &mut process().packet_rings;
    rings.take_over();
    let requests = &rings.requests[..rings.requested];
    let Some(request) = requests.iter().find(|request| request.inode == inode).copied() else { return false };
    let Some(slot) = rings.rings.iter().position(|ring| ring.bytes == 0) else { return false };
    let Some(ring) = shape(&request, version(fd), start, bytes) else { return false };
    let there = address(slot);
    let flags = nr::MAP_SHARED | nr::MAP_FIXED;
    if kernel::failed(kernel::mmap(there, bytes, 3, flags, fd as i32, offset)) {
        return false;
    }
    kernel::call(nr::__NR_madvise, [there, bytes, u64::from(nr::MADV_DONTFORK), 0, 0, 0]);
    let flags = flags | nr::MAP_ANONYMOUS;
    if kernel::failed(kernel::mmap(start, bytes, protection as u32, flags, -1, 0)) {
        kernel::munmap(there, bytes);
        return false;
    }
    rings.rings[slot] = ring;
    rings.count += 1;
    true
}

fn address(slot: usize) -> u64 {
    PACKET_RINGS_START + slot as u64 * PACKET_RING_BYTES
}

fn version(fd: u64) -> u32 {
    socket_option(fd, SOL_PACKET, PACKET_VERSION)
}

/// The ring that was asked for, if it is all that is mapped.
fn shape(request: &RingRequest, version: u32, start: u64, bytes: u64) -> Option<PacketRing> {
    let block_bytes = u64::from(request.block_bytes);
    let blocks = u64::from(request.blocks);
    let (part_bytes, parts) = if version == TPACKET_V3 {
        (block_bytes, blocks)
    } else {
        (u64::from(request.frame_bytes), u64::from(request.frames))
    };
    let header_bytes = 48;
    let fits = block_bytes * blocks == bytes
        && bytes <= PACKET_RING_BYTES
        && (header_bytes..=block_bytes).contains(&part_bytes)
        && parts != 0
        && parts <= blocks * (block_bytes / part_bytes);
    fits.then_some(PacketRing { start, bytes, block_bytes, part_bytes, parts, version, next: 0, held: 0 })
}

impl PacketRing {
    /// Where a part lies in the ring.
    fn offset(&self, part: u64) -> u64 {
        let in_block = self.block_bytes / self.part_bytes;
        part / in_block * self.block_bytes + part % in_block * self.part_bytes
    }

    /// Where a part's status lies in the ring: 32 bits, of which the lowest say whose it is.
    fn status_offset(&self, part: u64) -> u64 {
        // `struct tpacket_block_desc`: the version and an offset come first.
        self.offset(part) + if self.version == TPACKET_V3 { 8 } else { 0 }
    }

    /// The status as the kernel has it.
    fn status(&self, there: u64, part: u64) -> &'static AtomicU32 {
        // SAFETY: `shape` saw that all parts lie in the ring, which is mapped at `there`.
        unsafe { &*((there + self.status_offset(part)) as *const AtomicU32) }
    }

    /// Bytes of a part that hold something.
    fn used_bytes(&self, there: u64, part: u64) -> u64 {
        let word = |at: u64| memory::read::<u32>(there + self.offset(part) + at).unwrap_or(0);
        let bytes = if self.version == TPACKET_V3 {
            // `struct tpacket_hdr_v1`: blk_len.
            u64::from(word(20))
        } else {
            // tp_snaplen behind tp_mac, the packet's place.
            let status_bytes = if self.version == 0 { 8 } else { 4 };
            u64::from(word(status_bytes + 8) & 0xffff) + u64::from(word(status_bytes + 4))
        };
        bytes.clamp(48, self.part_bytes)
    }

    fn give_back(&mut self, there: u64) {
        while self.held != 0 {
            let oldest = (self.next + self.parts - self.held) % self.parts;
            if memory::read::<u32>(self.start + self.status_offset(oldest)) != Some(0) {
                return;
            }
            self.status(there, oldest).store(0, Ordering::Release);
            self.held -= 1;
        }
    }

    fn log_arrived(&mut self, there: u64) {
        while self.held < self.parts
            && self.status(there, self.next).load(Ordering::Acquire) & TP_STATUS_USER != 0
        {
            let (offset, bytes) = (self.offset(self.next), self.used_bytes(there, self.next));
            if !memory::copy(self.start + offset, there + offset, bytes) {
                return;
            }
            process().log.memory(self.start + offset, bytes);
            self.next = (self.next + 1) % self.parts;
            self.held += 1;
        }
    }
}

fn each(what: fn(&mut PacketRing, u64)) {
    for (slot, ring) in
        process().packet_rings.rings.iter_mut().enumerate().filter(|(_, ring)| ring.bytes != 0)
    {
        what(ring, address(slot));
    }
}

/// Recording, before a call: what the program is done with is the kernel's.
#[inline]
pub fn give_back() {
    if process().packet_rings.is_any() {
        each(PacketRing::give_back);
    }
}

/// Recording, where a call is logged: so is what has arrived.
#[inline]
pub fn log_arrived(number: u64, args: &[u64; 6], result: i64) {
    if number == u64::from(nr::__NR_setsockopt) && args[1..3] == [SOL_PACKET, PACKET_RX_RING] && result == 0 {
        note_request(args);
    }
    if process().packet_rings.is_any() {
        each(PacketRing::log_arrived);
    }
}

/// Memory of the program is gone.
#[inline]
pub fn unmapped(start: u64, bytes: u64) {
    let rings = &mut process().packet_rings;
    if !rings.is_any() {
        return;
    }
    for (slot, ring) in rings.rings.iter_mut().enumerate() {
        if ring.bytes != 0 && start < ring.start + ring.bytes && ring.start < start.saturating_add(bytes) {
            kernel::munmap(address(slot), ring.bytes);
            ring.bytes = 0;
            rings.count -= 1;
        }
    }
}

/// Recording ends: the program has the rings themselves.
pub fn leave() {
    if !process().packet_rings.is_any() || process().in_parents_memory {
        return;
    }
    each(|ring, there| {
        ring.give_back(there);
        let flags = u64::from(nr::MREMAP_MAYMOVE | nr::MREMAP_FIXED);
        kernel::call(nr::__NR_mremap, [there, ring.bytes, ring.bytes, flags, ring.start, 0]);
    });
    process().packet_rings.count = 0;
}
