//! Where the filters are: in one area, each with its head, one after the other. Those that no
//! thread has any more make room when the next is added.

use bytecode::classic::{self, Data, INSTRUCTIONS_MAX, Instruction};
use linux_abi::errno;

use crate::ground::memory;
use crate::ground::owned::{Held, Owned};
use crate::state::block::{known_threads, thread_at, thread_status};

/// What a filter says of a call, without its data (linux/seccomp.h).
pub mod action {
    pub const KILL_PROCESS: u32 = 0x8000_0000;
    pub const KILL_THREAD: u32 = 0;
    pub const TRAP: u32 = 0x0003_0000;
    pub const ERRNO: u32 = 0x0005_0000;
    pub const USER_NOTIF: u32 = 0x7fc0_0000;
    pub const TRACE: u32 = 0x7ff0_0000;
    pub const LOG: u32 = 0x7ffc_0000;
    pub const ALLOW: u32 = 0x7fff_0000;
    /// The bits of it; the others are data.
    pub const MASK: u32 = 0xffff_0000;
}

/// Bytes of the area: what one thread can have at most, and some more. Who wants more is told
/// that memory is short.
const AREA_BYTES: usize = 0x6_0000;
/// Most instructions of all filters of a thread, each but the newest with some more
/// (MAX_INSNS_PER_PATH).
const PATH_MAX: usize = 32768;
const PATH_COST: usize = 4;
/// Calls below this number have a bit in each filter.
const NUMBERS: usize = 512;

/// The head of a filter; its instructions follow.
#[repr(C, align(8))]
pub struct Filter {
    /// From here to the next head.
    bytes: u32,
    /// Instructions; 0: the place is free.
    count: u32,
    /// The one that was added before it; 0: none.
    older: u64,
    pub flags: u64,
    /// A thread has it, found out when another is added.
    is_used: bool,
    /// The calls that it and all before it let through whatever their arguments are.
    lets_through: [u64; NUMBERS / 64],
}

const HEAD_BYTES: usize = size_of::<Filter>();

#[repr(C, align(8))]
struct Area {
    bytes: [u8; AREA_BYTES],
    used: usize,
}

static AREA: Owned<Area> = Owned::new(Area { bytes: [0; AREA_BYTES], used: 0 });

/// The filter at this address, which `Filter::read` gave, and all before it.
pub fn chain(newest: u64) -> impl Iterator<Item = &'static Filter> {
    let mut at = newest;
    core::iter::from_fn(move || {
        let filter = at_address(at)?;
        at = filter.older;
        // SAFETY: a filter that somebody has stays as it is.
        Some(unsafe { filter.shared() })
    })
}

fn at_address(address: u64) -> Option<Held<Filter>> {
    // SAFETY: an address that a thread or a filter has is that of a head in the area; who has
    // the token owns them all.
    (address > STRICT).then(|| unsafe { Held::of(address as *mut Filter) })
}

impl Filter {
    /// Adds a filter of this many instructions, which lie in the program's memory.
    pub fn read(program: u64, count: usize, flags: u64, older: u64) -> Result<u64, i64> {
        let cost: usize = chain(older).map(|filter| filter.program().len() + PATH_COST).sum();
        let Some(mut filter) = allocate(count) else { return Err(-i64::from(errno::ENOMEM)) };
        let start = filter.program().as_ptr() as u64;
        let error = match program {
            0 => Some(EINVAL),
            _ if !memory::copy(start, program, (count * size_of::<Instruction>()) as u64) => Some(EFAULT),
            _ if !classic::is_valid(filter.program()) => Some(EINVAL),
            _ if cost + count > PATH_MAX => Some(-i64::from(errno::ENOMEM)),
            _ => None,
        };
        if let Some(error) = error {
            filter.count = 0;
            return Err(error);
        }
        filter.begin(flags, older);
        Ok(filter.address())
    }

    /// Adds a filter that is known to be valid, and is as it was carried.
    pub fn add(program: &[Instruction], flags: u64, older: u64) -> Option<u64> {
        let mut filter = allocate(program.len())?;
        let start = filter.program().as_ptr() as u64;
        memory::copy(start, program.as_ptr() as u64, size_of_val(program) as u64);
        filter.begin(flags, older);
        Some(filter.address())
    }

    fn begin(&mut self, flags: u64, older: u64) {
        self.flags = flags;
        self.older = older;
        for number in 0..NUMBERS {
            let all_before = at_address(older).is_none_or(|older| older.always_lets_through(number as u32));
            let own = classic::run_for_number(self.program(), number as u32, AUDIT_ARCH_X86_64);
            let bit = u64::from(all_before && own == Some(action::ALLOW)) << (number % 64);
            let word = &mut self.lets_through[number / 64];
            *word = *word & !(1 << (number % 64)) | bit;
        }
    }

    pub fn address(&self) -> u64 {
        self as *const Filter as u64
    }

    pub fn program(&self) -> &'static [Instruction] {
        let count = (self.count as usize).min(INSTRUCTIONS_MAX);
        // SAFETY: as many instructions follow the head, in the area.
        unsafe { core::slice::from_raw_parts((self.address() as usize + HEAD_BYTES) as *const _, count) }
    }

    /// True if neither it nor one before it looks at more than the number, which they allow.
    #[inline]
    pub fn always_lets_through(&self, number: u32) -> bool {
        let word = self.lets_through.get(number as usize / 64).copied().unwrap_or(0);
        word & 1 << (number % 64) != 0
    }
}

/// The newest filter of a thread; `None`: the strict mode.
#[inline]
pub fn newest(filters: u64) -> Option<&'static Filter> {
    // SAFETY: a filter that somebody has stays as it is.
    at_address(filters).map(|filter| unsafe { filter.shared() })
}

/// What all filters say together: the least that one permits, and of equals the newest.
pub fn judge(newest: u64, data: &Data) -> u32 {
    let order = |verdict: u32| (verdict & action::MASK) as i32;
    let mut verdict = action::ALLOW;
    for filter in chain(newest) {
        let own = classic::run(filter.program(), data);
        if order(own) < order(verdict) {
            verdict = own;
        }
    }
    verdict
}

// --- the area ---

/// A place for a filter of this many instructions.
fn allocate(count: usize) -> Option<Held<Filter>> {
    let bytes = HEAD_BYTES + count * size_of::<Instruction>();
    free_unused();
    let area = AREA.get();
    // SAFETY: heads lie one after the other up to `used`; the token owns them.
    unsafe {
        let start = (&raw mut (*area).bytes) as usize;
        let mut at = 0;
        while at < (*area).used {
            let place = &mut *((start + at) as *mut Filter);
            let free = place.bytes as usize;
            if place.count == 0 && free >= bytes {
                if free >= bytes + HEAD_BYTES {
                    let rest = &mut *((start + at + bytes) as *mut Filter);
                    rest.bytes = (free - bytes) as u32;
                    rest.count = 0;
                    place.bytes = bytes as u32;
                }
                place.count = count as u32;
                return Some(Held::of(place));
            }
            at += free;
        }
        if at + bytes > AREA_BYTES {
            return None;
        }
        (*area).used = at + bytes;
        let place = &mut *((start + at) as *mut Filter);
        place.bytes = bytes as u32;
        place.count = count as u32;
        Some(Held::of(place))
    }
}

/// Calls `act` with each head.
fn each(act: &mut dyn FnMut(&mut Filter)) {
    let area = AREA.get();
    // SAFETY: as above.
    unsafe {
        let start = (&raw mut (*area).bytes) as usize;
        let mut at = 0;
        while at < (*area).used {
            let place = &mut *((start + at) as *mut Filter);
            act(place);
            at += place.bytes as usize;
        }
    }
}

/// Makes free what no thread has any more, and one place of those that are next to each other.
fn free_unused() {
    each(&mut |place| place.is_used = false);
    for index in 0..known_threads() {
        let thread = &mut *thread_at(index);
        let mut at = if thread.status == thread_status::LIVE { thread.filters.newest } else { 0 };
        while let Some(mut filter) = at_address(at) {
            if core::mem::replace(&mut filter.is_used, true) {
                break;
            }
            at = filter.older;
        }
    }
    let mut free: Option<*mut Filter> = None;
    each(&mut |place| {
        if place.is_used {
            free = None;
            return;
        }
        place.count = 0;
        match free {
            // SAFETY: the place before, which is free, too.
            Some(before) => unsafe { (*before).bytes += place.bytes },
            None => free = Some(place),
        }
    });
}

/// In place of a filter: the thread may read, write, end, and return from handlers
/// (SECCOMP_MODE_STRICT).
pub const STRICT: u64 = 1;

/// linux/audit.h
pub const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;

pub const LOG: u64 = 2;

pub const SPEC_ALLOW: u64 = 4;

/// Beside a filter's flags: it came by prctl.
pub const BY_PRCTL: u64 = 1 << 32;

pub const EFAULT: i64 = -(errno::EFAULT as i64);

pub const EINVAL: i64 = -(errno::EINVAL as i64);
