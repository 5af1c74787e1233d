//! Bringing a list of mappings up to date where it is known which parts have changed: the kernel
//! is asked for these alone (PROCMAP_QUERY, Linux 6.11).

use core::sync::atomic::{AtomicBool, Ordering};

use linux_abi::{errno, general as nr};

use super::{OWN, PAGE_BYTES};
use crate::checkpoint::kept_resources::{List, MAPPINGS_MAX, Names, PATH_BYTES};
use crate::ground::kernel;
use crate::ground::maps::Mapping;
use crate::ground::memory::in_region;
use crate::state::proc_dir;
use runtime_logic::range_set::Range;

/// Mappings that one change may have made.
const MADE_MAX: usize = 64;

// linux/fs.h
const PROCMAP_QUERY: u64 = 0xc068_6611;
const VMA_READABLE: u64 = 1;
const VMA_WRITABLE: u64 = 2;
const VMA_EXECUTABLE: u64 = 4;
const VMA_SHARED: u64 = 8;
const COVERING_OR_NEXT_VMA: u64 = 16;

/// `struct procmap_query`.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    vma_flags: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    major: u32,
    minor: u32,
    name_size: u32,
    build_id_size: u32,
    name: u64,
    build_id: u64,
}

const _: () = assert!(size_of::<Query>() == 104);

/// The system was asked, and does not know the question.
static IS_MISSING: AtomicBool = AtomicBool::new(false);

/// Lists anew what lies in these parts; false if all is to be listed.
pub fn list(list: &mut List, names: &mut Names, parts: &[Range]) -> bool {
    if parts.is_empty() {
        return true;
    }
    if IS_MISSING.load(Ordering::Relaxed) {
        return false;
    }
    let maps = proc_dir::open(OWN);
    if kernel::failed(maps) {
        return false;
    }
    let done = parts.iter().all(|part| list_part(maps, list, names, part));
    kernel::call(nr::__NR_close, [maps as u64, 0, 0, 0, 0, 0]);
    done
}

fn list_part(maps: i64, list: &mut List, names: &mut Names, part: &Range) -> bool {
    // With what is beside it: that may be one with it now.
    let mut range = Range { start: part.start.saturating_sub(PAGE_BYTES), end: part.end + PAGE_BYTES };
    let mut made = [Mapping::NONE; MADE_MAX];
    let count = loop {
        let old = range_of(list, &range);
        if let [first, .., last] | [first @ last] = &list.all[old] {
            range.start = range.start.min(first.start);
            range.end = range.end.max(last.end);
        }
        let asked = Range { ..range };
        let Some(count) = ask_all(maps, names, &mut range, &mut made) else { return false };
        // One of them may reach over what was asked for.
        if (asked.start, asked.end) == (range.start, range.end) {
            break count;
        }
    };
    let old = range_of(list, &range);
    let (behind, gone) = (old.end, old.len());
    if list.count - gone + count > MAPPINGS_MAX {
        return false;
    }
    list.all.copy_within(behind..list.count, old.start + count);
    list.all[old.start..old.start + count].copy_from_slice(&made[..count]);
    list.count = list.count - gone + count;
    true
}

/// Those of the list that lie in the range, or partly.
fn range_of(list: &List, range: &Range) -> core::ops::Range<usize> {
    let all = &list.all[..list.count];
    let first = all.partition_point(|mapping| mapping.end <= range.start);
    first..all.partition_point(|mapping| mapping.start < range.end).max(first)
}

/// What is mapped in a range, which grows to what lies partly in it; `None` if that cannot be had.
fn ask_all(maps: i64, names: &mut Names, range: &mut Range, made: &mut [Mapping; MADE_MAX]) -> Option<usize> {
    let (mut at, mut count) = (range.start, 0);
    let mut name = [0u8; PATH_BYTES];
    while at < range.end {
        let mut query = Query {
            size: size_of::<Query>() as u64,
            flags: COVERING_OR_NEXT_VMA,
            address: at,
            name_size: PATH_BYTES as u32,
            name: name.as_mut_ptr() as u64,
            ..Query::default()
        };
        let arguments = [maps as u64, PROCMAP_QUERY, &raw mut query as u64, 0, 0, 0];
        let result = kernel::call(nr::__NR_ioctl, arguments);
        if result == -i64::from(errno::ENOENT) {
            break;
        }
        if kernel::failed(result) {
            IS_MISSING.store(true, Ordering::Relaxed);
            return None;
        }
        if query.start >= range.end {
            break;
        }
        at = query.end;
        let name = &name[..(query.name_size as usize).saturating_sub(1).min(PATH_BYTES)];
        let mapping = mapping_of(&query, name);
        if mapping.is_kernels || in_region(mapping.start, mapping.end - mapping.start) {
            continue;
        }
        range.start = range.start.min(mapping.start);
        range.end = range.end.max(mapping.end);
        *made.get_mut(count)? = mapping;
        count += 1;
        let file = (mapping.device, mapping.inode);
        let is_known = mapping.inode == 0
            || match names.find(file) {
                // An inode may be another file's by now.
                Some(known) => known == name,
                None => names.add(file, name),
            };
        if !is_known {
            return None;
        }
    }
    Some(count)
}

fn mapping_of(query: &Query, name: &[u8]) -> Mapping {
    let has = |flag: u64| query.vma_flags & flag != 0;
    Mapping {
        start: query.start,
        end: query.end,
        offset: query.offset,
        device: u64::from(query.major) << 32 | u64::from(query.minor),
        inode: query.inode,
        readable: has(VMA_READABLE),
        writable: has(VMA_WRITABLE),
        executable: has(VMA_EXECUTABLE),
        private: !has(VMA_SHARED),
        is_stack: name == b"[stack]",
        is_kernels: name.starts_with(b"[v"),
        is_kept_elsewhere: false,
    }
}
