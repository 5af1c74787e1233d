//! What threads leave behind in memory when they end: robust futexes (get_robust_list(2)), and the word that
//! others wait for.

use events::{Kind, Tag};
use linux_abi::general as nr;

use crate::ground::{kernel, memory};
use crate::lab;
use crate::signals::deaths;
use crate::state::block::{Thread, process, thread_at, thread_status, used_threads};
use crate::state::in_lab;

/// In the word of a robust futex: FUTEX_OWNER_DIED, FUTEX_WAITERS.
pub const OWNER_DIED: u32 = 0x4000_0000;

pub const WAITERS: u32 = 0x8000_0000;

pub fn wake_futex(address: u64) {
    if in_lab::is_on() {
        lab::futexes::wake(address, u64::from(u32::MAX), 1, 1);
        return;
    }
    kernel::call(nr::__NR_futex, [address, u64::from(nr::FUTEX_WAKE), 1, 0, 0, 0]);
}

/// The process is about to be killed: what the kernel then does with its robust
/// futexes is done now, while it can be logged.
#[cold]
pub fn log_dead_owner() {
    process().log.begin(Kind::Store, 0, 0);
    let_go_of_memory();
    process().log.end();
    deaths::tell();
}

/// The end of the process: its threads let go of their robust futexes, as the event
/// at hand says, and those who live on in its memory learn that they are gone.
pub fn let_go_of_memory() {
    each_of_process(&mut |own| let_go(own, process().in_parents_memory));
}

/// Calls `each` with the threads that the process has.
pub fn each_of_process(each: &mut dyn FnMut(&mut Thread)) {
    let process = &raw const *process() as u64;
    for mut other in (0..used_threads()).map(thread_at) {
        if other.process == process && other.status == thread_status::LIVE {
            each(&mut other);
        }
    }
}

/// What a thread leaves behind in memory, of which others go on having `all`.
pub fn let_go(own: &Thread, all: bool) {
    let tid = own.tid as u32;
    each_robust_futex(own.robust_list[0], &mut |address, pending| owner_died(address, tid, pending));
    if all {
        clear_tid(own);
    }
}

/// Calls `each` with all words that [`let_go_of_memory`] may change.
pub fn each_word_of_process(each: &mut dyn FnMut(u64)) {
    each_of_process(&mut |own| {
        each_robust_futex(own.robust_list[0], &mut |address, _| each(address));
        each(own.clear_tid);
    });
}

/// The robust futexes of a list (get_robust_list(2)), and whether each is the one of an operation
/// that is pending: the head holds the list, the futex's offset from an entry, and that entry.
fn each_robust_futex(head: u64, each: &mut dyn FnMut(u64, bool)) {
    if head == 0 {
        return;
    }
    let Some([first, offset, pending]) = memory::read::<[u64; 3]>(head) else { return };
    let mut entry = first;
    for _ in 0..ROBUST_MAX {
        if entry & !1 == head || entry == 0 {
            break;
        }
        let Some(next) = memory::read_word(entry & !1) else { break };
        if entry & !1 != pending & !1 {
            each((entry & !1).wrapping_add(offset), false);
        }
        entry = next;
    }
    if pending != 0 {
        each((pending & !1).wrapping_add(offset), true);
    }
}

/// The same of a thread that the kernel has killed: it has done its part.
pub fn log_let_go(own: &Thread) {
    each_robust_futex(own.robust_list[0], &mut |address, _| {
        if memory::read::<u32>(address).is_some_and(|word| word & !WAITERS == OWNER_DIED) {
            process().log.blob(address, 4, Tag::Memory, address);
        }
    });
    clear_tid(own);
}

fn owner_died(address: u64, tid: u32, pending: bool) {
    const TID_MASK: u32 = 0x3fff_ffff;
    let Some(word) = memory::read::<u32>(address) else { return };
    if pending && word == 0 {
        wake_futex(address);
        return;
    }
    if word & TID_MASK != tid {
        return;
    }
    if !memory::write(address, &(word & WAITERS | OWNER_DIED)) {
        return;
    }
    process().log.blob(address, 4, Tag::Memory, address);
    if word & WAITERS != 0 {
        wake_futex(address);
    }
}

/// The word that others wait for at a thread's end is zero; logged.
pub fn clear_tid(own: &Thread) {
    let address = own.clear_tid;
    if address != 0 && memory::write(address, &0u32) {
        process().log.blob(address, 4, Tag::Memory, address);
        wake_futex(address);
    }
}

/// Most entries of a list of robust futexes (ROBUST_LIST_LIMIT).
const ROBUST_MAX: u32 = 2048;

/// Does and logs what the kernel would do at a thread's end with the robust futexes
/// that it owns.
pub fn release_robust_list(own: &mut Thread) {
    let_go(own, false);
    own.robust_list = [0; 2];
}
