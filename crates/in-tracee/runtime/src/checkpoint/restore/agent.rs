//! The agent: a thread of the runtime's in each live process, which does what cannot
//! be done by a thread of the program. It waits for commands, from the supervisor or
//! from the program's own calls, and is invisible to the program but in /proc.

use core::sync::atomic::Ordering;

use lane_protocol::{command, command_phase, thread_identity};
use linux_abi::{errno, general as nr};

use crate::checkpoint::area::area;
use crate::checkpoint::group::together;
use crate::checkpoint::restore::{rollback, ways};
use crate::checkpoint::take::{behind, checkpoint, quiesce, slots};
use crate::ground::{kernel, notices};
use crate::scheduler::kernel_threads::make_kernel_thread;
use crate::scheduler::token;
use crate::signals;
use crate::state::block::{
    find_free_thread, index_of_process, lane, prepare_block, process, thread, thread_status,
};

/// Makes the agent. Without one the process takes no part.
pub fn begin() {
    let Some(index) = find_free_thread() else { return };
    let block = &mut *prepare_block(index, index_of_process(&process()));
    block.status = thread_status::AGENT;
    block.start = run as *const () as u64;
    block.stack_top = area().stack.as_ptr() as u64 + area().stack.len() as u64;
    block.pending = 0;
    block.trapped = 0;
    block.robust_list = [0; 2];
    // A checkpoint may be taken before the agent has run.
    block.identity = thread_identity(process().lane, index as u32);
    area().agent_index = index as u32;
    token::begin_sharing();
    let mask = thread().signals.mask;
    signals::block_all();
    let made = make_kernel_thread(block);
    signals::set_real_mask(mask);
    if kernel::failed(made) {
        block.status = thread_status::FREE;
        block.alive.store(0, Ordering::Relaxed);
        return;
    }
    block.tid = made as i32;
    lane().takes_part.store(1, Ordering::Release);
}

unsafe extern "C" fn run(block: *mut crate::state::block::Thread) -> ! {
    kernel::call(nr::__NR_arch_prctl, [0x1001, block as u64, 0, 0, 0, 0]);
    // SAFETY: the maker prepared the block for us alone.
    unsafe {
        (*block).tid = kernel::gettid();
        (*block).signals.begin_thread(!0);
    }
    signals::use_own_stack();
    signals::set_real_mask(!0);
    loop {
        behind::go_on();
        let command = &lane().command;
        match command.kind.load(Ordering::Acquire) {
            command::PROTECT => {}
            command::NONE => {
                kernel::futex_wait(&command.kind, command::NONE, 1000);
                if process().given_up.load(Ordering::Acquire) != 0 {
                    slots::reap_last();
                    kernel::call(nr::__NR_exit, [0; 6]);
                }
                slots::reap();
            }
            command::CLAIMED => {
                kernel::futex_wait(&command.kind, command::CLAIMED, 10);
            }
            kind => {
                let answer = obey(kind, command.argument.load(Ordering::Relaxed));
                finish(answer);
            }
        }
    }
}

/// Says that the command at hand is done.
fn finish(answer: i64) {
    let command = &lane().command;
    command.answer.store(answer as i32, Ordering::Relaxed);
    command.phase.store(command_phase::NONE, Ordering::Relaxed);
    command.urgent.store(0, Ordering::Relaxed);
    command.kind.store(command::NONE, Ordering::Release);
    kernel::futex_wake(&command.kind);
}

fn obey(kind: u32, argument: u64) -> i64 {
    if kind == command::FOLLOW {
        return together::follow();
    }
    if process().replays() {
        // What is being done again is short: the answer is to come once more.
        return crate::ground::kernel::error(errno::EBUSY);
    }
    if process().given_up.load(Ordering::Acquire) != 0 {
        return crate::ground::kernel::error(errno::ESRCH);
    }
    let phase = &lane().command.phase;
    phase.store(command_phase::TOKEN, Ordering::Release);
    token::take();
    phase.store(command_phase::WORK, Ordering::Release);
    let answer = match kind {
        command::CHECKPOINT => checkpoint::take(argument as u32),
        command::DISCARD => checkpoint::discard(argument),
        command::ROLLBACK | command::REPLAY => {
            let way = if kind == command::REPLAY { ways::Way::Replay } else { ways::Way::Branch };
            match rollback::go_back(argument, way) {
                Ok(()) => return 0,
                Err(error) => error,
            }
        }
        command::DETACH => match quiesce::park_all() {
            Ok(()) => let_go(),
            Err(error) => error,
        },
        command::TRY => rollback::could_go_back(argument),
        _ => crate::ground::kernel::error(errno::EINVAL),
    };
    token::give();
    answer
}

/// All threads stand at a boundary: the process goes on without us.
fn let_go() -> ! {
    checkpoint::end_all();
    quiesce::block_all();
    notices::process_is_let_go();
    quiesce::let_go_on();
    finish(0);
    loop {
        kernel::call(nr::__NR_exit, [0; 6]);
    }
}

/// A thread of the program asks for what only the agent can do. Returns if it could
/// not be done.
pub fn ask(kind: u32, argument: u64) -> i64 {
    /// How long another process may take to call the agent in, in milliseconds.
    const CALLED_WITHIN_MS: u64 = 10;
    loop {
        let answer = ask_once(kind, argument);
        if answer != crate::ground::kernel::error(errno::EDEADLK) {
            return answer;
        }
        // Another process goes first, and waits until the agent has nothing to do.
        token::give();
        kernel::futex_wait(&lane().command.kind, command::NONE, CALLED_WITHIN_MS);
        token::take();
        quiesce::park_if_wanted();
    }
}

fn ask_once(kind: u32, argument: u64) -> i64 {
    if let Some(error) = crate::checkpoint::area::obstacle() {
        return error;
    }
    if slots::find(argument).is_none() {
        return crate::ground::kernel::error(errno::ENOENT);
    }
    let command = &lane().command;
    while let Err(now) =
        command.kind.compare_exchange(command::NONE, command::CLAIMED, Ordering::AcqRel, Ordering::Relaxed)
    {
        token::give();
        kernel::futex_wait(&command.kind, now, 1);
        token::take();
        quiesce::park_if_wanted();
    }
    if kind == command::REPLAY {
        area().replays_for = thread().index as u64 + 1;
    }
    command.argument.store(argument, Ordering::Relaxed);
    quiesce::note_asker(true);
    command.urgent.store(1, Ordering::Relaxed);
    command.kind.store(kind, Ordering::Release);
    token::give();
    kernel::futex_wake(&command.kind);
    // The agent parks us with the others; who comes back from there was not sent back.
    loop {
        if command.kind.load(Ordering::Acquire) != command::NONE {
            quiesce::wait_until_asked(2);
        }
        token::take();
        if command.kind.load(Ordering::Acquire) == command::NONE {
            quiesce::note_asker(false);
            area().replays_for = 0;
            return i64::from(command.answer.load(Ordering::Relaxed));
        }
        quiesce::park_if_wanted();
        token::give();
    }
}
