//! Calls on descriptors with code of their own: what reaches the recorded standard
//! output, and what would close or take the descriptor that is ours.

use events::Tag;
use linux_abi::{errno, general as nr};
use syscall_model::Arg;

use crate::address_space::logged_calls::log_call;
use crate::address_space::{descriptor_classes, file_reads, outsider_signs, outsiders, page_tracker};
use crate::checkpoint::resources::files;
use crate::ground::kernel::{self, ABORTED};
use crate::ground::memory;
use crate::ground::registers::Registers;
use crate::log::call_event::{begin_call, inject_with, reject, replayed};
use crate::log::output_order::{self, Output};
use crate::log::{ShortBlob, effects};
use crate::scheduler::output_lock;
use crate::signals;
use crate::state::block::{process, thread};
use crate::state::call_state::{self, Before, Done};
use crate::state::proc_dir;
use crate::state::report;
use crate::syscalls::calls;
use crate::syscalls::specials::plain;

/// write and its kin: what reaches the recorded standard output is shown again
/// by replay, in order.
#[inline]
pub fn output(registers: &Registers, number: u64, args: &[u64; 6], model: &'static [Arg]) -> Done {
    if process().replays() {
        return replay_output(registers, number, args);
    }
    let class = descriptor_classes::class_of(args[0]);
    if class == 0 {
        return write(args, number, class, model);
    }
    signals::begin_output();
    // Until it is logged: others write after it, and nobody of the recording kills who wrote.
    output_lock::take();
    let done = write(args, number, class, model);
    output_lock::give();
    signals::end_output();
    done
}

#[inline]
fn write(args: &[u64; 6], number: u64, class: u32, model: &'static [Arg]) -> Done {
    match calls::make(number, args, args, model, true) {
        ABORTED => Done::Aborted,
        result => {
            log_output(number, args, class, model, result);
            Done::Result(result)
        }
    }
}

/// Logs a call that wrote to a descriptor of that class.
#[inline]
pub fn log_output(number: u64, args: &[u64; 6], class: u32, model: &'static [Arg], result: i64) {
    let order = if class != 0 && result > 0 { output_order::take_order() } else { 0 };
    if number == u64::from(nr::__NR_write)
        && class == 0
        && thread().pending == 0
        && !descriptor_classes::is_mapped(args[0])
        && !outsiders::are_about()
    {
        // The commonest by far: what its row says, without interpreting it.
        let bytes = args[2].min(effects::SENT_BYTES_MAX);
        let blob = ShortBlob { address: args[1], bytes, tag: Tag::Sent, source: args[1] };
        if bytes > 0 && process().log.short_blob(number as u16, &args[..3], result, &blob) {
            return;
        }
    }
    if matches!(number as u32, nr::__NR_sendmsg | nr::__NR_sendmmsg) {
        // Descriptors may be in it.
        call_state::note_descriptors_given(false);
    }
    outsider_signs::note_call(number, args, result);
    begin_call(number, args, model.len(), result, 0);
    effects::log_sent(model, args, result);
    let work = effects::WORK[number as usize];
    if work & effects::WRITES != 0 {
        effects::log_written(model, args, result, &Before::default());
    }
    let names_position = matches!(number as u32, nr::__NR_pwrite64 | nr::__NR_pwritev | nr::__NR_pwritev2);
    // pwritev2 may name the one that the descriptor has.
    let position = (names_position && args[3] != u64::MAX).then_some(args[3]);
    if result > 0 && descriptor_classes::is_mapped(args[0]) {
        crate::address_space::mapped_files::log_written(args[0], position, result as u64);
    }
    if class != 0 && result > 0 {
        let bytes = result as u64;
        let place = output_order::place_of(class, args[0], position, bytes);
        Output { class, order, bytes, place, ends_file: false }.log();
    }
    outsiders::log_new(number, args);
    process().log.end();
}

fn replay_output(registers: &Registers, number: u64, args: &[u64; 6]) -> Done {
    let Some(word) = process().log.peek() else {
        report::log_ended();
    };
    let mut shown = None;
    let result = inject_with(word, registers, &mut |tag, _, bytes, source| {
        if tag == Tag::Output {
            shown = Output::read(source, bytes);
        }
    });
    if let Some(output) = shown {
        let vectored = matches!(number as u32, nr::__NR_writev | nr::__NR_pwritev | nr::__NR_pwritev2);
        let mut pieces = |index: usize| match vectored {
            true => memory::vector_piece(args[1], args[2], index),
            false => (index == 0).then_some((args[1], args[2])),
        };
        output_order::show(&Output { bytes: result.max(0) as u64, ..output }, &mut pieces);
    }
    Done::Result(result)
}

/// Data that moves inside the kernel never passes us. Towards the recorded
/// standard output it is refused, and programs fall back to read and write.
pub fn kernel_copy(registers: &Registers, number: u64, args: &[u64; 6], model: &'static [Arg]) -> Done {
    if process().replays() {
        return replayed(registers);
    }
    let target = match number as u32 {
        nr::__NR_sendfile | nr::__NR_vmsplice => args[0],
        nr::__NR_tee => args[1],
        _ => args[2],
    };
    if descriptor_classes::class_of(target) != 0 || files::refuses_copy(number, target) {
        return reject(registers, number, args, model.len(), errno::EINVAL);
    }
    plain(registers, number, args, model)
}

pub fn close(registers: &Registers, number: u64, args: &[u64; 6], model: &'static [Arg]) -> Done {
    descriptor_classes::forget(args[0]);
    if is_ours(args[0]) {
        return reject(registers, number, args, model.len(), errno::EBADF);
    }
    plain(registers, number, args, model)
}

/// True for a descriptor that the runtime has.
pub fn is_ours(fd: u64) -> bool {
    fd as u32 as i32 == process().control_fd
        || page_tracker::is_descriptor(fd)
        || proc_dir::is_descriptor(fd)
        || outsider_signs::is_descriptor(fd)
}

pub fn close_range(registers: &Registers, number: u64, args: &[u64; 6], model: &'static [Arg]) -> Done {
    let [first, last, flags, ..] = args.map(|arg| arg & 0xffff_ffff);
    let mut ours = [process().control_fd as u64, proc_dir::descriptor().unwrap_or(u64::MAX)];
    ours.sort_unstable();
    descriptor_classes::forget_range(first, last);
    page_tracker::yield_descriptor(first, last);
    outsider_signs::yield_descriptors(first, last);
    if process().replays() || !ours.iter().any(|own| (first..=last).contains(own)) {
        return plain(registers, number, args, model);
    }
    // Around the descriptors that are ours.
    let (mut result, mut at) = (0, first);
    for own in ours.into_iter().filter(|own| (first..=last).contains(own)).chain([last + 1]) {
        if at < own && !kernel::failed(result) {
            result = kernel::call(number as u32, [at, own - 1, flags, 0, 0, 0]);
        }
        at = own + 1;
    }
    log_call(number, args, model, 0, result, &Before::default(), 0);
    Done::Result(result)
}

pub fn dup_to(registers: &Registers, number: u64, args: &[u64; 6], model: &'static [Arg]) -> Done {
    descriptor_classes::forget(args[1]);
    page_tracker::yield_descriptor(args[1], args[1]);
    outsider_signs::yield_descriptors(args[1], args[1]);
    proc_dir::yield_number(args[1]);
    if is_ours(args[0]) {
        return reject(registers, number, args, model.len(), errno::EBADF);
    }
    if args[1] as u32 as i32 == process().control_fd && !process().replays() {
        move_control_fd();
    }
    let done = plain(registers, number, args, model);
    if let Done::Result(result) = &done
        && *result >= 0
    {
        file_reads::note_copied(args[0], *result);
    }
    done
}

/// F_SETFD of fcntl(2), FIOCLEX and FIONCLEX of ioctl(2). Programs that find our descriptors in
/// /proc/self/fd, and let them be closed by the next execve, are told that it will be so: the new
/// image would have nothing to map the runtime from.
pub fn set_flags(registers: &Registers, number: u64, args: &[u64; 6], model: &'static [Arg]) -> Done {
    if !process().replays() && is_ours(args[0]) {
        log_call(number, args, model, 0, 0, &Before::default(), 0);
        return Done::Result(0);
    }
    plain(registers, number, args, model)
}

/// Programs try every number for what they forgot to close, or must not give to a child: ours are
/// not open to them, as lists in proc(5) show none of them either.
pub fn asked(registers: &Registers, number: u64, args: &[u64; 6], model: &'static [Arg]) -> Done {
    let has_no_path = |flags: u64| {
        flags & u64::from(nr::AT_EMPTY_PATH) != 0 && (args[1] == 0 || memory::read::<u8>(args[1]) == Some(0))
    };
    let is_asked = match number as u32 {
        nr::__NR_newfstatat => has_no_path(args[3]),
        nr::__NR_statx => has_no_path(args[2]),
        _ => true,
    };
    if is_asked && !process().replays() && is_ours(args[0]) {
        return reject(registers, number, args, model.len(), errno::EBADF);
    }
    plain(registers, number, args, model)
}

/// The program wants the number of our descriptor: take another.
fn move_control_fd() {
    let old = process().control_fd;
    for least in [old + 1, old / 2, 3] {
        let new = kernel::call(nr::__NR_fcntl, [old as u64, u64::from(nr::F_DUPFD), least as u64, 0, 0, 0]);
        if !kernel::failed(new) {
            process().control_fd = new as i32;
            kernel::call(nr::__NR_close, [old as u64, 0, 0, 0, 0, 0]);
            return;
        }
    }
}
