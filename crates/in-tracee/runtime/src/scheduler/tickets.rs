//! Replay of processes that share memory: they run in the order of their tickets.
//!
//! Deliberately absent: who gets which ticket (the recording's, see `token`).

use core::sync::atomic::Ordering;

use lane_protocol::{TICKETS_NEAR, ticket_bit, ticket_in_place};
use linux_abi::errno;

use crate::address_space::shared_writes;
use crate::code::spin_sites;
use crate::ground::{kernel, notices};
use crate::scheduler::own_token;
use crate::state::block::{known_threads, lane, process, session, thread, thread_at};
use crate::state::scheduling::Due;
use crate::state::{group_replay, report};

/// While no ticket is handed on, those who wait say so as often.
const STALL_NS: u64 = 100_000_000;

/// The calling thread ends, and this one is the next to run, with a ticket: it waits for that
/// by itself. Others may have to see this one gone before they come to the ticket.
pub fn leave_to(next: u32, token: u32, ticket: u64) {
    if (next as usize) < known_threads() {
        thread_at(next as usize).scheduling.due = Due { token, ticket_and_one: ticket + 1 };
    }
}

/// The calling thread is the next to run.
pub fn wait_if_due() {
    let due = core::mem::take(&mut thread().scheduling.due);
    if let Some(ticket) = due.ticket_and_one.checked_sub(1) {
        wait_for(due.token, ticket);
    }
}

/// Hands the ticket that the process holds to the lane's next process, and waits
/// for another.
pub fn wait_for(number: u32, ticket: u64) {
    let is_first = ticket == 0;
    if group_replay::is_without_others() {
        let process = &mut *process();
        (process.token, process.in_group, process.ticket) = (number, true, ticket);
        if is_first {
            spin_sites::begin_counting();
        } else {
            notices::token_is_back();
        }
        return;
    }
    leave();
    let ticket = ticket_in_place(number, ticket);
    let process = &mut *process();
    process.token = number;
    process.in_group = true;
    process.met_others |= !is_first;
    if is_first {
        spin_sites::begin_counting();
    }
    let token = own_token::my_token();
    let lane = &mut *lane();
    // Who looks from outside compares the two.
    lane.token.store(number + 1, Ordering::SeqCst);
    lane.waits_for_ticket.store(ticket + 1, Ordering::SeqCst);
    let has_come = || token.ticket.load(Ordering::SeqCst) >= ticket;
    while !is_first && !has_come() {
        if token.is_near(ticket) && thread().scheduling.spinning.see_soon(has_come) {
            break;
        }
        let seen = token.prepare_ticket_sleep(ticket);
        let at = token.ticket.load(Ordering::SeqCst);
        let mut result = 0;
        if at < ticket {
            if session().stop.load(Ordering::Relaxed) != 0 {
                // The log of the process that would hand it over is cut.
                report::log_ended();
            }
            let until_ns = kernel::monotonic_ns() + STALL_NS;
            result = kernel::futex_wait_until(token.ticket_wake(ticket), seen, until_ns, ticket_bit(ticket));
        }
        token.end_ticket_sleep(ticket);
        // Hundreds may wait while others go on: of those none has to say so.
        if result == -i64::from(errno::ETIMEDOUT) && token.ticket.load(Ordering::SeqCst) == at {
            session().doorbell.fetch_add(1, Ordering::Release);
            kernel::futex_wake(&session().doorbell);
        }
    }
    lane.waits_for_ticket.store(0, Ordering::SeqCst);
    hold(ticket);
    if !is_first {
        notices::token_is_back();
    }
}

/// Replay: the lane's next process waits for this one.
pub fn hold(ticket: u64) {
    let (process, lane) = (&mut *process(), lane());
    process.has_ticket = true;
    process.ticket = ticket;
    lane.ticket.store(ticket, Ordering::SeqCst);
    lane.token.store(process.token + 1, Ordering::SeqCst);
    lane.has_ticket.store(1, Ordering::SeqCst);
}

/// Replay: the process runs no more before the lane's next one.
pub fn leave() {
    let process = &mut *process();
    if !process.has_ticket {
        return;
    }
    shared_writes::tell();
    process.has_ticket = false;
    let token = own_token::my_token();
    token.end_ticket(process.ticket);
    // The next but some is to be looking when it is due.
    for next in [process.ticket + 1, process.ticket + TICKETS_NEAR] {
        if let Some(wake) = token.call_ticket(next) {
            kernel::futex_wake_bits(wake, ticket_bit(next));
        }
    }
    // Last: one that has reported its end may be killed anywhere, and who reaps it ends what it
    // still has.
    lane().has_ticket.store(0, Ordering::SeqCst);
}
