//! After the end of a recording under seccomp: the filter cannot be taken away,
//! so calls go on through the runtime, which logs nothing any more.
//!
//! What is logged nevertheless, by code that serves both cases, goes to memory
//! of the process's own that nobody reads. Deliberately absent: threads, and new
//! images, in which no runtime would answer the filter's traps.

use linux_abi::{errno, general as nr};
use syscall_model::{Act, Arg, Special};

use crate::code::sites;
use crate::ground::kernel::{self, ABORTED};
use crate::ground::memory::in_region;
use crate::ground::registers::{Leave, Registers};
use crate::log::effects::meaning;
use crate::signals;
use crate::state::block::{process, thread};
use crate::state::call_state::Done;
use crate::state::{deliverable, report};
use crate::syscalls::{calls, filters, specials};

/// One call of the program.
pub fn call(registers: &mut Registers) -> Leave {
    let number = u64::from(registers.rax as u32);
    let args = registers.args();
    if thread().pending != 0 && signals::deliver_before(registers) {
        return Leave::Exactly;
    }
    if thread().filters.newest != 0
        && let Some(leave) = filters::hold_back(registers, &args)
    {
        return leave;
    }
    let meaning = meaning(number, &args);
    let done = match meaning.act {
        Act::Inject | Act::PageDiff | Act::Variant(_) | Act::Options(_) => plain(number, &args, meaning.args),
        Act::Reject(_) => Done::Result(-i64::from(errno::ENOSYS)),
        Act::Execute(special) => match special {
            Special::Mmap => map(&args),
            Special::Output | Special::KernelCopy => plain(number, &args, meaning.args),
            Special::Execve | Special::Execveat => {
                report::tell(
                    "recording has stopped, and under --seccomp no other program can be executed then",
                );
                Done::Result(-i64::from(errno::EPERM))
            }
            Special::ExitGroup => kernel::exit_group(args[0] as i32),
            other => specials::execute(other, number, registers, meaning.args),
        },
    };
    match done {
        Done::Result(result) => registers.rax = result as u64,
        Done::Aborted if signals::deliver_before(registers) => return Leave::Exactly,
        Done::Aborted => return call(registers),
        Done::Elsewhere(leave) => return leave,
    }
    if thread().pending != 0 && signals::deliver_after(registers) {
        return Leave::Exactly;
    }
    Leave::Call
}

fn plain(number: u64, args: &[u64; 6], model: &[Arg]) -> Done {
    let blocks = calls::BLOCKS.get(number as usize).is_some_and(|&blocks| blocks);
    let result = calls::make(number, args, args, model, blocks);
    process().log.follows = deliverable::has_deliverable();
    if result == ABORTED { Done::Aborted } else { Done::Result(result) }
}

/// mmap(2), without keeping the file.
fn map(args: &[u64; 6]) -> Done {
    let [address, bytes, _, flags, ..] = *args;
    let fixed = flags & u64::from(nr::MAP_FIXED | nr::MAP_FIXED_NOREPLACE) != 0;
    if fixed && in_region(address, bytes) {
        return Done::Result(-i64::from(errno::ENOMEM));
    }
    let result = kernel::call(nr::__NR_mmap, crate::address_space::region::without_wish(args));
    if fixed && !kernel::failed(result) {
        sites::unmapped(address, bytes.next_multiple_of(linux_abi::PAGE_BYTES));
    }
    process().log.follows = deliverable::has_deliverable();
    Done::Result(result)
}
