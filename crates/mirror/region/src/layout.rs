//! Addresses: where regions, their mirrors and the marks of their pages are.
//!
//! A region lies in a window of fixed addresses, so that compiled code tells a store into it
//! from others by a shift and a comparison, without looking at memory. The mirror is at a
//! fixed distance.

/// Bits of an address within a page.
pub const PAGE_BITS: u32 = 12;
/// Bytes of a page.
pub const PAGE: usize = 1 << PAGE_BITS;
/// Bits of an address within the window: 1 TiB.
pub const WINDOW_BITS: u32 = 40;
/// What the bits above them are for an address in the window.
pub const WINDOW_KEY: usize = 0x20;
/// First address of the window.
pub const WINDOW: usize = WINDOW_KEY << WINDOW_BITS;
/// Distance from a byte to its mirror: a power of two above the window, and one huge page.
///
/// The huge page keeps a byte and its mirror apart in the first cache. AMD's processors choose the
/// way there by bits 12 to 27 of the address ("Take A Way", AsiaCCS 2020): of two addresses
/// that are alike in them, each access evicts the other.
pub const MIRROR_DISTANCE: usize = (1 << (WINDOW_BITS + 1)) + (1 << 21);
/// Largest region, in bytes.
pub const REGION_BYTES_MAX: usize = 1 << WINDOW_BITS;

/// Bits of an address within a block: memory that one thread's log has for itself, as long as no other thread stores there.
pub const BLOCK_BITS: u32 = 22;

/// True if an address can be in a region.
#[inline]
pub const fn is_in_window(address: usize) -> bool {
    address >> WINDOW_BITS == WINDOW_KEY
}

/// The next multiple of a page's size.
pub const fn whole_pages(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE)
}
