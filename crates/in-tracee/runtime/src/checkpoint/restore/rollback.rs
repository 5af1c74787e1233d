//! The way back: plans it, and if nothing is in the way, goes it in place.

use core::sync::atomic::Ordering;

use events::{Kind, TICKET};
use lane_protocol::{Checkpoint, checkpoint_origin, report_kind, request};
use linux_abi::errno;

use crate::address_space::{code_changes, descriptor_classes, page_tracker, unforked};
use crate::checkpoint::area::{area, obstacle};
use crate::checkpoint::group::{together, undertaking};
use crate::checkpoint::resources::{lists, mappings, pushback, tables, timers, user};
use crate::checkpoint::restore::memory_back::{restore_mappings, restore_runtime};
use crate::checkpoint::restore::snapshot_view::Then;
use crate::checkpoint::restore::ways::{Way, ask_supervisor};
use crate::checkpoint::restore::{
    debugging, environment, file_pages, parked_threads, resume_state, set_aside,
};
use crate::checkpoint::take::increments::{self, tracking};
use crate::checkpoint::take::{checkpoint, holding, quiesce, slots};
use crate::ground::kernel::{self, error};
use crate::ground::{notices, open_files};
use crate::log::borrowed;
use crate::log::kept_files::request_answer;
use crate::preemption::preemption_timer;
use crate::scheduler::token;
use crate::state::block::{
    BLOCKS, Thread, known_threads, lane, process, session, space, thread, thread_at, thread_status,
};
use crate::state::proc_dir;
use crate::state::runtime_log::{LogSubject, say};
use crate::state::{preemption, report};

/// Whether the way back to a checkpoint is open; 0, or an errno.
pub fn could_go_back(id: u64) -> i64 {
    if let Some(error) = obstacle() {
        return error;
    }
    let Some(slot) = slots::find(id) else { return error(errno::ENOENT) };
    match plan(slot, Way::Branch).and_then(|()| borrowed::could_open()) {
        Ok(()) if undertaking::is_needed() => together::could_go_back(slot.together.load(Ordering::Relaxed)),
        Ok(()) => 0,
        Err(error) => error,
    }
}

/// Looks at everything that the way back needs, and code_changes nothing of the program's.
pub fn plan(slot: &'static Checkpoint, way: Way) -> Result<(), i64> {
    lists::have_lists(slot);
    if let Some(error) = slots::loss(slot) {
        // Later ones do not rest on what was killed.
        tracking::end_increments();
        return Err(error);
    }
    if parked_threads::room() < quiesce::threads() {
        return Err(error(errno::EAGAIN));
    }
    let from = Then::of(slot);
    if !from.fetch_list() || !tables::compare(&from) {
        return Err(slots::loss(slot).unwrap_or(error(errno::EPERM)));
    }
    if way == Way::Branch {
        user::is_as_then(slot)?;
    }
    if way == Way::Replay || undertaking::is_needed() {
        borrowed::could_open()?;
    }
    if way == Way::Replay {
        file_pages::could_show(slot.id.load(Ordering::Relaxed))?;
    }
    tables::note_missing(slot.id.load(Ordering::Relaxed));
    if !mappings::list_now() {
        return Err(error(errno::ENOMEM));
    }
    mappings::find_files(&from)?;
    threads_are_there(&from).then_some(()).ok_or(error(errno::ESRCH))?;
    if way == Way::Replay { set_aside::put() } else { Ok(()) }
}

/// True if a kernel thread is there for each thread of then.
fn threads_are_there(from: &Then) -> bool {
    let mut areas = 0usize;
    let place = &raw const space().areas as u64;
    if !from.fetch(&raw mut areas as u64, place, 8) || areas > lane_protocol::THREADS_MAX {
        return false;
    }
    let known = known_threads();
    (0..BLOCKS + areas).all(|index| {
        if index >= known {
            return false;
        }
        let block = &mut *thread_at(index);
        let mut ids = [0i32; 2];
        for (slot, place) in ids.iter_mut().zip([&raw const block.tid as u64, &raw const block.status as u64])
        {
            if !from.fetch(slot as *mut i32 as u64, place, 4) {
                return false;
            }
        }
        let [tid, status] = ids;
        let runs = |index: usize| {
            let now = &mut *thread_at(index);
            now.status == thread_status::LIVE && now.tid == tid
        };
        status as u32 != thread_status::LIVE || parked_threads::has(tid) || (0..known).any(runs)
    })
}

/// Goes back to a checkpoint. The agent, which holds the token, calls this; it has
/// released the token when the way was gone, and has it still where an errno is returned.
pub fn go_back(id: u64, way: Way) -> Result<(), i64> {
    say(LogSubject::Checkpoint, "goes back", [id, u64::from(way == Way::Replay)]);
    if let Some(error) = obstacle() {
        return Err(error);
    }
    quiesce::park_all()?;
    let result = match slots::find(id) {
        None => Err(error(errno::ENOENT)),
        Some(slot) if undertaking::is_needed() => together::go_back(slot, way),
        Some(slot) => go_back_alone(slot, way),
    };
    if result.is_err() {
        quiesce::let_go_on();
    }
    result
}

fn go_back_alone(slot: &'static Checkpoint, way: Way) -> Result<(), i64> {
    if way == Way::Replay && undertaking::keeps_shared() {
        // What it did then depended on what it shared then.
        return Err(error(errno::EBUSY));
    }
    let (own_token, in_group) = (process().token, process().in_group);
    let arrived = Planned::new(slot, way)?.go(way, &mut || {
        (process().token, process().in_group) = (own_token, in_group);
    })?;
    token::give();
    arrived.set_off();
    Ok(())
}

/// A way back in which nothing lies.
pub struct Planned {
    slot: &'static Checkpoint,
    /// The limit of open files that the program has.
    limit: [u64; 2],
}

impl Planned {
    /// Looks at what the way needs, with all threads parked; an errno if it is not there.
    pub fn new(slot: &'static Checkpoint, way: Way) -> Result<Planned, i64> {
        let limit = open_files::raise_open_files();
        plan(slot, way).inspect_err(|_| open_files::lower_open_files(&limit))?;
        Ok(Planned { slot, limit })
    }

    pub fn slot(&self) -> &'static Checkpoint {
        self.slot
    }

    /// Goes it. The state is back when this returns; `then` code_changes it where it is to be
    /// another. With an errno nothing has changed.
    pub fn go(self, way: Way, then: &mut dyn FnMut()) -> Result<Arrived, i64> {
        let [recovery, signal] = area().recovering;
        let id = u64::from(self.slot.id.load(Ordering::Relaxed));
        let position = self.slot.position.load(Ordering::Relaxed);
        let undo = match way {
            Way::Replay => ask_supervisor(request::REWIND, [position, 0, 0, 0]).map(|()| None),
            Way::Branch => branch_off([position, recovery, signal, id]).map(Some),
        };
        let undo = undo.inspect_err(|_| open_files::lower_open_files(&self.limit))?;
        // From here on there is no other way.
        if way == Way::Branch {
            set_aside::leave();
        }
        let (control_fd, proc_dir) = (process().control_fd, proc_dir::descriptor());
        quiesce::sit_down_all();
        leave_present();
        area().went_back.store(1, Ordering::Relaxed);
        restore_mappings(self.slot, way);
        restore_runtime(self.slot);
        process().control_fd = control_fd;
        proc_dir::stay(proc_dir);
        then();
        Ok(arrive(self.slot, undo, &self.limit))
    }
}

/// The supervisor forgets the log from there on, and gives what is to be given back: a
/// descriptor, or an errno, with which nothing has changed.
fn branch_off([position, recovery, signal, id]: [u64; 4]) -> Result<i64, i64> {
    let mut answer = None;
    let fd = borrowed::along(&mut |socket| {
        let arguments = [position, recovery | socket << 32, signal, id];
        answer = request_answer(request::BRANCH, arguments, &session().doorbell);
        answer
    });
    match answer {
        // The log is cut already.
        Some(0) if kernel::failed(fd) => {
            report::die("what the program has read since cannot be given back to it")
        }
        _ if kernel::failed(fd) => Err(fd),
        _ => Ok(fd),
    }
}

/// The state is back, and no thread has gone on yet that runs the program's code.
pub struct Arrived {
    /// The thread that runs first.
    first: Option<usize>,
}

impl Arrived {
    /// The caller has released the token.
    pub fn set_off(self) {
        if let Some(first) = self.first {
            take_up(&thread_at(first));
        }
    }
}

/// What the kernel holds of the threads of now, and will not of those of then.
fn leave_present() {
    let own = &raw const *process() as u64;
    for index in 0..known_threads() {
        let other = &mut *thread_at(index);
        if other.process == own && other.status == thread_status::LIVE {
            other.signals.send_again_to(process().pid, other.tid);
            preemption_timer::delete_of(other);
        }
    }
    page_tracker::end();
    // What was asked since is not in force any more; what was asked then is, at the end.
    unforked::permit(true);
}

/// All memory is as it was: makes the rest fit. The threads of then are there afterwards,
/// and wait.
fn arrive(slot: &Checkpoint, undo: Option<i64>, limit: &[u64; 2]) -> Arrived {
    let way = if undo.is_some() { Way::Branch } else { Way::Replay };
    // The count of code_changes went back, too.
    mappings::forget_now();
    page_tracker::forget_all();
    unforked::permit(false);
    let from = Then::of(slot);
    from.fetch_pending();
    let process = &mut *process();
    // Who was about to acquire the token then begins to do so again.
    process.taking.store(0, Ordering::SeqCst);
    let position = slot.position.load(Ordering::Relaxed);
    let events = slot.events.load(Ordering::Relaxed);
    process.mode.set_replay(way == Way::Replay);
    process.log.go_to(position, events, way == Way::Replay);
    process.running_thread.store(process.logged_thread, Ordering::SeqCst);
    descriptor_classes::forget_classes();
    let own = process as *const _ as u64;
    let agent = thread().index;
    for mut block in (0..known_threads()).filter(|&index| index != agent).map(thread_at) {
        if block.process == own {
            stand_again(&mut block, way);
        }
    }
    area().asker = 0;
    if way == Way::Replay {
        lane().goes_again.store(1, Ordering::SeqCst);
        area().first_waits = 0;
        if thread_at(process.logged_thread as usize).status != thread_status::LIVE {
            area().first_waits = u32::from(pass_on());
            run_anybody();
        }
    } else if let Some(undo) = undo {
        begin_branch(slot, &from, undo, position);
    }
    area().returns_again = match way {
        Way::Branch if slot.origin.load(Ordering::Relaxed) == checkpoint_origin::PROGRAM => {
            u64::from(slot.id.load(Ordering::Relaxed)) + 1
        }
        _ => 0,
    };
    open_files::lower_open_files(limit);
    // The one that runs first comes last: it may make others before we have looked at all.
    let first = (way == Way::Replay).then(|| process.running_thread.load(Ordering::SeqCst) as usize);
    area().arrived.store(0, Ordering::SeqCst);
    let mut others = 0;
    for index in (0..known_threads()).filter(|&index| Some(index) != first) {
        let block = &mut *thread_at(index);
        if block.process == own && index != agent && block.status == thread_status::LIVE {
            take_up(block);
            others += 1;
        }
    }
    // Signals that one sends now are of the new future; and a replay may be at its end soon.
    let mut looks = 0;
    while area().arrived.load(Ordering::SeqCst) < others {
        quiesce::wait_a_moment(&mut looks);
    }
    if way == Way::Branch {
        // What fires at once is of the new future, too.
        timers::restore();
        // Who is left was made since.
        parked_threads::end_since(position);
    }
    Arrived { first }
}

/// A thread of then, at the place where it stood.
fn stand_again(block: &mut Thread, way: Way) {
    match block.status {
        thread_status::LIVE => {
            block.alive.store(1, Ordering::SeqCst);
            block.preemption = preemption::Preemption::default();
            block.signals.stand_again(way == Way::Replay);
            block.pending = u32::from(way == Way::Branch);
            block.is_asked = false;
            block.parked = false;
            resume_state::prepare(block);
        }
        thread_status::ENDED => block.alive.store(0, Ordering::SeqCst),
        _ => {}
    }
}

/// Kernel objects are made as they were at `slot`, and what came after it is dropped.
fn begin_branch(slot: &Checkpoint, from: &Then, undo: i64, position: u64) {
    debugging::note_way_back();
    area().files.forget();
    file_pages::keep_present(slot.id.load(Ordering::Relaxed));
    environment::change();
    area().recovering = [0; 2];
    pushback::load(undo);
    tables::restore(from, &mut pushback::hide);
    slot.rollbacks.fetch_add(1, Ordering::SeqCst);
    let id = slot.id.load(Ordering::Relaxed);
    checkpoint::drop_future(position, id);
    increments::dropped_future(slot);
    area().replays_for = 0;
}

/// Nothing was logged since, so that nobody is named: any thread finds that out.
fn run_anybody() {
    let process = &mut *process();
    let own = process as *const _ as u64;
    let is_there = |index: usize| {
        let block = &mut *thread_at(index);
        block.process == own && block.status == thread_status::LIVE
    };
    let named = process.running_thread.load(Ordering::SeqCst) as usize;
    if !is_there(named)
        && let Some(index) = (0..known_threads()).find(|&index| is_there(index))
    {
        process.running_thread.store(index as u32, Ordering::SeqCst);
    }
}

fn take_up(block: &crate::state::block::Thread) {
    if !parked_threads::adopt(block.tid, block) {
        report::die("a thread of a checkpoint is not there any more");
    }
}

/// The thread of the last event has ended: the log says who comes next. True where that one
/// has to wait for other processes first, which it does itself.
pub fn pass_on() -> bool {
    code_changes::follow();
    let Some(word) = process().log.peek() else { return false };
    if !word.is(Kind::Token) {
        report::fail("a thread ended, and the log does not say who goes on");
    }
    let waits = word.flags() & TICKET != 0;
    if !waits {
        process().log.consume(word);
        process().log.events += 1;
    }
    process().running_thread.store(word.code() as u32, Ordering::SeqCst);
    waits
}

/// The log was fed to its end: from now on the process is in the present. The
/// calling thread holds the token.
pub fn enter_present() {
    say(LogSubject::Checkpoint, "enters the present", [0, 0]);
    let together = undertaking::goes_again();
    if together {
        undertaking::wait_for_present();
    }
    if ask_supervisor(request::PRESENT, [0; 4]).is_err() {
        report::stand(report_kind::FAILED, 0, "the supervisor does not take up the log again");
    }
    let process = &mut *process();
    process.log.record_again();
    process.has_ticket = false;
    lane().has_ticket.store(0, Ordering::SeqCst);
    process.logged_thread = thread().index as u32;
    descriptor_classes::forget_classes();
    if !together {
        holding::seize();
    }
    set_aside::take_back();
    mappings::forget_now();
    process.mode.set_replay(false);
    if together {
        undertaking::leave_replay();
        holding::begin_again();
    }
    lane().goes_again.store(0, Ordering::SeqCst);
    for index in 0..known_threads() {
        let other = &mut *thread_at(index);
        if index != thread().index && other.status == thread_status::LIVE {
            other.token_wake.fetch_add(1, Ordering::SeqCst);
            kernel::futex_wake(&other.token_wake);
        }
    }
}

/// The same, and goes on where the calling thread stands.
pub fn go_live() -> ! {
    enter_present();
    notices::thread_goes_on()
}
