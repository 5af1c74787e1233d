#!/bin/sh
# A TLSF allocator that has just freed a block refuses the same size again.
#
# Guess: in a full pool, freeing a block of n bytes makes room for one request of n
#   bytes: the very block fits, nothing else was done in between.
# Seen: with the crate rlsf (20 first-level and 8 second-level lists, a pool of 1
#   MiB filled to the end), a block is freed and the same layout requested:
#     1000 or 4080 bytes            served
#     4096, 5000 or 100000 bytes    refused, though the block is still free
#   Cause: blocks of similar size share a list. A freed block goes into the list for
#   its size rounded down, a request starts at the list for its size rounded up, so
#   that any block found there is large enough without a search. A block whose size
#   is not at the bottom of its list is never looked at for its own size. 1000 and
#   4080 bytes are at the bottom, with the block's header added. The crate's text
#   warns of fragmentation in proportion to the size, not of this.
# Software: the Rust crate rlsf 0.2.3.
# Why it matters: TLSF is chosen for memory inside a recorded process, since its
#   time is bounded and it needs no system call. A pool sized for "n buffers of this
#   size" serves n of them once: after one is given back, it can serve n - 1 only.
#   Sizes that fill a list's lower bound avoid it.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
mkdir src
cat > Cargo.toml <<'TOML'
[package]
name = "again"
version = "0.0.0"
edition = "2021"
[dependencies]
rlsf = "=0.2.3"
[workspace]
TOML
cat > src/main.rs <<'RS'
use rlsf::Tlsf;
use std::{alloc::Layout, mem::MaybeUninit};

/// Fills a pool with blocks of `size` and then small ones, frees the middle
/// block and asks for the same layout. Tells whether it was served, and how many
/// small blocks fit in what was free.
fn again(size: usize) -> (bool, usize) {
    let mut pool = vec![MaybeUninit::<u8>::uninit(); 1 << 20];
    let mut tlsf: Tlsf<'_, u32, u32, 20, 8> = Tlsf::new();
    tlsf.insert_free_block(&mut pool);
    let large = Layout::from_size_align(size, 16).expect("layout");
    let small = Layout::from_size_align(16, 16).expect("layout");
    let mut blocks = Vec::new();
    while let Some(block) = tlsf.allocate(large) {
        blocks.push(block);
    }
    while tlsf.allocate(small).is_some() {}
    // SAFETY: the block came from this allocator with this alignment and is freed once.
    unsafe { tlsf.deallocate(blocks[blocks.len() / 2], large.align()) };
    let served = tlsf.allocate(large).is_some();
    let mut left = 0;
    while tlsf.allocate(small).is_some() {
        left += 1;
    }
    (served, left)
}

fn main() {
    for size in [1000, 4080, 4096, 5000, 100_000] {
        let (served, left) = again(size);
        println!("{size} {} {}", if served { "served" } else { "refused" }, left > 0);
    }
}
RS
CARGO_TARGET_DIR="$dir/target" cargo run -q > seen
cat > wanted <<'TXT'
1000 served false
4080 served false
4096 refused true
5000 refused true
100000 refused true
TXT
grep -A 1 '^name = "rlsf"' Cargo.lock
echo "bytes, the same layout again, whether small blocks still fit behind it"
cat seen
diff wanted seen > changes || { echo "CHANGED:" >&2; cat changes >&2; exit 1; }
